"""Runs a query whose code may raise errors for single records: with `on_error="dead-letter"`.

A batch that fails is run again. After a number of attempts its failing records are searched and
stored next to the checkpoint. Then the batch is run without them, and they become dead letters.
Each search has to find a record, and their number is limited: so are the runs of a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.delivery.errors.plan import OffsetSpan, made_from, part_of_query, records_at
from headwater.delivery.errors.search import (
    CodeFailure,
    Probe,
    code_failure,
    failing_records,
    spans_of_batch,
)
from headwater.delivery.modes import Delivery, Mode
from headwater.errors import QueryFailedError
from headwater.model import Address
from headwater.settings import fault_points
from headwater.spark.query_failure import is_of_own_code, query_failed
from headwater.spark.query_runner import local_checkpoint, was_cancelled
from headwater.spark.session import own_class
from headwater.storage.checkpoint import query_id
from headwater.storage.failed_records import (
    FailedRecord,
    FailedRecords,
    read_failed_records,
    save_failed_records,
)

_LOG = logging.getLogger(__name__)

_LOGGED_PROBES = 50
# A cancelled task ends with its current row or batch of rows.
_SETTLE_MILLIS = 30_000
# The batch has failed a few times before.
_ATTEMPTS_ALONE = 2
# More parts need fewer rounds, and more tasks.
_PARTS = 16


class _SearchStopped(Exception):
    """A stop was requested during a search."""


@dataclass(frozen=True)
class _FailedBatch:
    query: str
    failed: FailedRecords
    spans: list[OffsetSpan]


class RetriedDelivery:
    """Delivers a query with a mode; see the module.

    Args:
        is_final: whether the text of an error is one that stops the query, such as a violated
            expectation.
    """

    def __init__(self, mode: Mode, delivery: Delivery, is_final: Callable[[str], bool]) -> None:
        self._mode = mode
        self._delivery = delivery
        self._is_final = is_final
        self._settings = delivery.settings
        self._name = delivery.target.job_name

    def run(self) -> None:
        """Run the query until it ends or is stopped.

        Raises:
            QueryFailedError: it failed, and not because of single records.
        """
        batch, attempts = -1, 0
        while True:
            try:
                self._mode.deliver(self._delivery)
                return
            except QueryFailedError as error:
                state = self._retryable(error)
                if state is None:
                    raise
                attempts = attempts + 1 if state.failed.batch == batch else 1
                batch = state.failed.batch
                most = self._settings.jobs.max_attempts
                _LOG.warning(
                    "batch %d failed in the code of the job, attempt %d of %d: %s",
                    *(batch, attempts, most, _summary(error.message)),
                )
                if attempts >= most:
                    attempts = 0
                    try:
                        self._isolate(state, error)
                    except _SearchStopped:
                        # The next start searches again.
                        return

    def _retryable(self, error: QueryFailedError) -> _FailedBatch | None:
        """The batch that failed, if it can be run again in this process."""
        stopped = self._delivery.run.stop.requested or was_cancelled(error)
        if stopped or self._is_final(error.message) or not is_of_own_code(error, self._settings):
            return None
        spark = self._delivery.spark
        with local_checkpoint(self._delivery.target.checkpoint, spark) as folder:
            failed, query = read_failed_records(folder), query_id(folder)
            if failed is None or query is None:
                return None
            spans = spans_of_batch(folder, self._settings.kafka)
        settled = own_class("delivery.Producers").settle(query, _SETTLE_MILLIS)
        if not settled and self._mode.needs_completed_requests:
            _LOG.warning("batch %d can't be run again: it may still be written", failed.batch)
            return None
        return _FailedBatch(query, failed, spans)

    def _isolate(self, state: _FailedBatch, error: QueryFailedError) -> None:
        """Find the failing records and store them."""
        batch, spark = state.failed.batch, self._delivery.spark
        known = state.failed.records
        allowed = self._settings.jobs.max_failed_records - len(known)
        _LOG.info("searching the failing records of batch %d", batch)
        with part_of_query(spark, state.query):
            attempts = min(_ATTEMPTS_ALONE, self._settings.jobs.max_attempts)
            probe = self._probe(state)
            found = failing_records(state.spans, probe, allowed, attempts=attempts)
        if not found:
            _LOG.warning("batch %d: no record fails on its own", batch)
            raise error
        _log_found(batch, found)
        with local_checkpoint(self._delivery.target.checkpoint, spark) as folder:
            save_failed_records(folder, state.failed.plus(found))
        fault_points.reach("failed_records_stored")

    def _probe(self, state: _FailedBatch) -> Probe:
        rows, java = self._delivery.rows, own_class("isolation.Probe")
        known = [each.address for each in state.failed.records]
        count = 0

        def probe(spans: Sequence[OffsetSpan]) -> list[tuple[OffsetSpan, CodeFailure]]:
            nonlocal count
            count += 1
            if count % _LOGGED_PROBES == 0:
                _LOG.info("batch %d: computed %d parts", state.failed.batch, count)
            if self._delivery.run.stop.requested:
                raise _SearchStopped
            records = records_at(rows, spans, without=known, tasks=_tasks(spans))
            failed = java.failedTasks(made_from(rows, records)._jdf)  # noqa: SLF001
            if failed is not None:
                return [self._failed_part(*each) for each in failed]
            # A task may have rows of several parts, as after a shuffle.
            return [each for span in spans if (each := self._failed_span(span, known, java))]

        return probe

    def _failed_span(
        self, span: OffsetSpan, known: Sequence[Address], java: Any
    ) -> tuple[OffsetSpan, CodeFailure] | None:
        rows = self._delivery.rows
        part = made_from(rows, records_at(rows, [span], without=known))
        failure = java.failure(part._jdf)  # noqa: SLF001
        return None if failure is None else (span, self._failure(*failure))

    def _failed_part(
        self, topic: str, partition: str, first: str, end: str, *failure: str
    ) -> tuple[OffsetSpan, CodeFailure]:
        span = OffsetSpan(topic, int(partition), int(first), int(end))
        return span, self._failure(*failure)

    def _failure(self, kind: str, message: str | None, text: str) -> CodeFailure:
        """Raises errors that no record has caused."""
        failed = query_failed(self._name, RuntimeError(text), self._settings)
        failed.__cause__ = RuntimeError(text)
        if self._is_final(text) or not is_of_own_code(failed, self._settings):
            raise failed
        return code_failure(kind, message, text)


def _tasks(spans: Sequence[OffsetSpan]) -> int:
    return max(len(spans), min(_PARTS, sum(map(len, spans))))


def _log_found(batch: int, found: list[FailedRecord]) -> None:
    for each in found:
        _LOG.warning(
            "batch %d: %s goes to the dead letter topic: %s: %s",
            *(batch, each.address, each.kind, _summary(each.message)),
        )


def _summary(text: str) -> str:
    """One line of an error: Python's traceback ends with it, others begin with it."""
    lines = text.strip().split("\n")
    return lines[-1 if "Traceback" in text else 0][:300]
