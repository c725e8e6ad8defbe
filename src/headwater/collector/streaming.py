"""Starts and reports a streaming query: the one way in which Headwater runs queries.

A query has a separate thread, which holds the checkpoint, reports lineage and waits for Spark. In
the main thread a signal handler of the user may raise KeyboardInterrupt or SystemExit at any point,
so the main thread only waits, and calls the JVM as little as possible.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headwater.collector.checkpoint_guard import guard_checkpoint
from headwater.collector.columns import Description, describe
from headwater.collector.query import QueryDescription
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.sources import schemas_in, topic_dataset
from headwater.errors import QueryFailedError, SettingError
from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import OBSERVED, Dataset
from headwater.openlineage.tables import delta_table, iceberg_table
from headwater.process import Worker
from headwater.settings import Settings, running_under_spark_submit
from headwater.spark.query_runner import (
    OnBatch,
    QueryRun,
    StopSignal,
    lease_if_local,
    new_run_id,
    stop_seconds,
    was_cancelled,
)
from headwater.spark.session import running_session

_LOG = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
_NOT_STARTED = {
    "message": "Starting",
    "isDataAvailable": False,
    "isTriggerActive": False,
}


@dataclass(frozen=True)
class PreparedQuery:
    """What a query reports, and a function that runs it until it ends or is stopped."""

    lineage: QueryDescription | None
    execute: Callable[[QueryRun], None]
    # The delivery mode of a query that writes to topics.
    delivery: str | None = None


# Prepares a query while its checkpoint is held; what it enters into the stack ends with the query.
Prepare = Callable[[ExitStack], PreparedQuery]


class QueryHandle:
    """A streaming query that was started, with the methods of Spark's `StreamingQuery`.

    Attributes:
        name: name of the query, and of the job in headers and events.
        run_id: id of this start, in the headers of its records and in the catalog.
    """

    def __init__(self, name: str, run_id: str, settings: Settings) -> None:
        self.name = name
        self.run_id = run_id
        self._settings = settings
        self._stop = StopSignal()
        self._query: StreamingQuery | None = None
        self._started = threading.Event()
        self._worker: Worker | None = None
        # Whether the end, and with it an error, was seen by a caller of `await_termination`.
        self.was_awaited = False

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return not self.has_ended(0)

    def has_ended(self, seconds: float) -> bool:
        """Wait for the end, at most this long; returns whether the query has ended."""
        return self._worker is not None and self._worker.wait(seconds)

    @property
    def id(self) -> str | None:
        """Spark's id of the query, which its checkpoint keeps; None before the query runs."""
        return None if self._query is None else str(self._query.id)

    @property
    def status(self) -> Mapping[str, Any]:
        """As `StreamingQuery.status`: `message`, `isDataAvailable` and `isTriggerActive`."""
        return _NOT_STARTED if self._query is None else self._query.status

    @property
    def last_progress(self) -> Mapping[str, Any] | None:
        """As `StreamingQuery.lastProgress`: the newest micro-batch, None before the first."""
        progress = None if self._query is None else self._query.lastProgress
        return progress

    def exception(self) -> BaseException | None:
        """The error with which the query ended, or None."""
        return None if self._worker is None else self._worker.error

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query ends, at most `timeout` seconds; returns whether it has ended.

        Raises:
            QueryFailedError: the query failed; the next start continues where it stopped.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._stop.on_signals():
            while not self.has_ended(_seconds_until(deadline)):
                if deadline is not None and time.monotonic() >= deadline:
                    return False
        self.was_awaited = True
        if self._worker is not None:
            self._worker.raise_error()
        return True

    def request_stop(self) -> None:
        """Let the query stop after its running micro-batch, without waiting for it."""
        self._stop.request()

    def stop(self) -> None:
        """Stop the query after its running micro-batch, and wait for its end.

        Raises:
            QueryFailedError: it has not ended in time.
        """
        self._stop.request()
        seconds = stop_seconds(self._settings)
        if not self.has_ended(seconds):
            raise QueryFailedError(
                f"query {self.name!r} has not stopped after {seconds:g} s",
                hint="its micro-batch takes longer than spark.stop_timeout_seconds: raise it, or "
                "restart the process",
                query=self.name,
            )

    def wait(self) -> None:
        """Wait until the query ends; if this thread is interrupted, stop the query first."""
        with self._stopped_by_interrupts():
            self.await_termination()

    def _run(self, work: Callable[[QueryRun], None], on_batch: OnBatch | None) -> None:
        """Run `work` in a thread; returns when its first Spark query is started.

        Raises:
            HeadwaterError: it failed before.
        """

        def run() -> None:
            try:
                work(QueryRun(self.run_id, self._stop, on_batch, self._take))
            finally:
                self._started.set()

        self._worker = Worker(run, inherit=True)
        with self._stopped_by_interrupts(), self._stop.on_signals():
            self._worker.start()
            while not self._started.wait(_POLL_SECONDS):
                pass
        if self._query is None and self._worker.wait(_POLL_SECONDS):
            self._worker.raise_error()

    def _take(self, query: StreamingQuery) -> None:
        self._query = query
        self._started.set()

    @contextmanager
    def _stopped_by_interrupts(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            assert self._worker is not None  # noqa: S101 - set by `_run`
            if not self._worker.wait(0):
                self._stop.request()
                seconds = stop_seconds(self._settings)
                if not self._worker.abandon(seconds):
                    _LOG.warning("query %r has not stopped after %g s", self.name, seconds)
            raise


def start_query(
    name: str,
    spark: SparkSession,
    checkpoint: Path | str,
    prepare: Prepare,
    settings: Settings,
    *,
    run_id: str | None = None,
    on_batch: OnBatch | None = None,
    accept: Collection[str] = (),
) -> QueryHandle:
    """Start a query: hold its checkpoint, prepare it, report its lineage and run it.

    Args:
        prepare: called with the checkpoint held.
        accept: differences between the checkpoint and the query that are not refused.
        on_batch: receives Spark's progress of each micro-batch; an error that it raises stops the
            query.

    Raises:
        CheckpointError: another driver holds the checkpoint, or it belongs to another query.
        HeadwaterError: the query could not be started.
    """
    handle = QueryHandle(name, run_id or new_run_id(), settings)

    def work(run: QueryRun) -> None:
        with lease_if_local(checkpoint, spark), ExitStack() as resources:
            prepared = prepare(resources)
            if prepared.lineage is not None:
                query, delivery = prepared.lineage, prepared.delivery
                guard_checkpoint(checkpoint, spark, query, delivery, settings, accept)
            with report_streaming_run(
                prepared.lineage, run.id, settings, run.stop, run.on_batch
            ) as reported:
                prepared.execute(QueryRun(run.id, run.stop, reported, run.on_start))

    handle._run(work, on_batch)  # noqa: SLF001 - the handle's only creator
    return handle


def _seconds_until(deadline: float | None) -> float:
    if deadline is None:
        return _POLL_SECONDS
    return min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))


# Names of running queries that report themselves: `listener` skips them.
SELF_REPORTING_QUERIES: set[str] = set()


@contextmanager
def report_streaming_run(
    query: QueryDescription | None,
    run_id: str,
    settings: Settings,
    stop: StopSignal,
    on_batch: OnBatch | None = None,
) -> Iterator[OnBatch | None]:
    """Emit the events of a query's run while the body runs it; yields the callback for its
    micro-batches, which also calls `on_batch`.

    With lineage switched off it yields `on_batch` unchanged.
    """
    enabled = query is not None and settings.lineage_enabled_for(query.job_name)
    reporter = _reporter_of(query, run_id, settings) if query is not None and enabled else None
    if query is None or reporter is None:
        yield on_batch
        return
    reporter.start()
    SELF_REPORTING_QUERIES.add(query.job_name)
    try:
        with reporter.measures.counting():
            yield reporter.wrap(on_batch)
    except BaseException as error:
        interrupted = stop.requested and was_cancelled(error)
        reporter.end(error, stopped=interrupted or not isinstance(error, Exception))
        raise
    else:
        reporter.end(None, stopped=stop.requested or not query.finite)
    finally:
        SELF_REPORTING_QUERIES.discard(query.job_name)


def _reporter_of(
    query: QueryDescription, run_id: str, settings: Settings
) -> StreamingRunReporter | None:
    """None if lineage is off or can't be started; errors are logged and never propagate."""
    emitter = None
    try:
        if running_under_spark_submit():
            from headwater.collector.configuration import with_spark_submit_options

            settings = with_spark_submit_options(settings)
        emitter = emitter_of(settings)
        if emitter is None:
            return None
        rows = query.rows
        spark = running_session() if rows is None else rows.sparkSession
        schema_of = schemas_in(spark) if spark is not None else None
        description = _describe(query, settings)
        return StreamingRunReporter(query, run_id, settings, emitter, description, schema_of)
    except Exception as error:
        _LOG.warning("no lineage for query %r: %s: %s", query.job_name, type(error).__name__, error)
        if emitter is not None:
            emitter.close()
        return None


def emitter_of(settings: Settings) -> Emitter | None:
    """None if lineage is disabled, or its settings are invalid."""
    try:
        return Emitter.from_settings(settings)
    except SettingError as error:
        # A job does not fail because of its lineage; `headwater doctor` reports the same error.
        _LOG.warning("lineage is disabled: %s", error.message)
        return None


def _describe(query: QueryDescription, settings: Settings) -> Description:
    if query.rows is None:
        return Description()
    return describe(
        query.rows,
        columns=query.columns,
        hidden=query.roles.hidden,
        unnested=query.unnested,
        seconds=settings.lineage.analysis_seconds,
    )


def is_finite(trigger: Mapping[str, Any] | None) -> bool:
    """Whether a query with this trigger ends by itself."""
    return bool(trigger and {"availableNow", "once"} & trigger.keys())


def topic_outputs(topics: Sequence[str], settings: Settings) -> list[Dataset]:
    """Output datasets for topics of the cluster of the settings."""
    return [topic_dataset(settings.bootstrap_servers, topic) for topic in topics]


def table_output(name: str, location: str, table_format: str) -> Dataset:
    """Output dataset for a table."""
    return iceberg_table(name, location) if table_format == "iceberg" else delta_table(location)


def observe_row_count(rows: DataFrame, settings: Settings, job_name: str) -> DataFrame:
    """Let Spark count rows, for sinks that do not; the same rows if lineage is disabled."""
    if not settings.lineage_enabled_for(job_name):
        return rows
    return rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"))
