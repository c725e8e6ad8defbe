"""Running a streaming query until it ends or somebody asks it to stop.

A stop request never cuts a micro-batch in two: the batch that runs is finished and committed,
the next one is refused. Calling `query.stop()` from a signal handler would break py4j, and a
batch function that returned without doing its work would have an unprocessed batch committed;
so the handler only notes the request, and the batch function raises.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headwater.errors import HeadwaterError
from headwater.settings import Settings

BatchFunction = Callable[[DataFrame, int], None]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_POLL_SECONDS = 0.2


class _StopRequested(Exception):
    """Raised inside a batch function in place of a batch that must not begin."""


class StopSignal:
    """A request to stop, from SIGTERM, SIGINT or code."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        self._event.set()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def guard(self, function: BatchFunction) -> BatchFunction:
        """A batch function for foreachBatch that begins no batch after a stop request."""

        def guarded(batch: DataFrame, batch_id: int) -> None:
            if self.requested:
                raise _StopRequested
            function(batch, batch_id)

        return guarded

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """While the body runs, SIGTERM and SIGINT only note the request."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        kept = {name: signal.signal(name, self._note) for name in _SIGNALS}
        try:
            yield
        finally:
            for name, handler in kept.items():
                signal.signal(name, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._event.set()


def run_until_stopped(
    query: StreamingQuery,
    stop: StopSignal,
    settings: Settings,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Wait for the query's end, or end it between two micro-batches when asked to.

    `report` gets a line for each micro-batch that had records, at most one a second.

    Raises:
        HeadwaterError: a batch failed with an error of Headwater's own.
        StreamingQueryException: the query failed otherwise.
    """
    try:
        with stop.on_signals():
            told = _Told(report)
            while query.isActive and not stop.requested:
                query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]  # takes a float
                told.look_at(query)
            if stop.requested:
                _stop_between_batches(query, settings.spark.stop_timeout_seconds)
            told.look_at(query, now=True)
        failure = query.exception()
        if failure is not None:
            raise failure
    except StreamingQueryException as error:
        if not (stop.requested and _StopRequested.__name__ in str(error)):
            raise _own_error(error) or error from None


class _Told:
    """Which micro-batch was told of last, and when."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._batch: int | None = None
        self._at = 0.0

    def look_at(self, query: StreamingQuery, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._at < 1:
            return
        self._at = time.monotonic()
        progress = query.lastProgress
        if progress is None or progress["batchId"] == self._batch or not progress["numInputRows"]:
            return
        self._batch = progress["batchId"]
        rate = progress["processedRowsPerSecond"] or 0
        rows = progress["numInputRows"]
        self._report(f"batch {self._batch}: {rows} records, {rate:.0f}/s")


def _stop_between_batches(query: StreamingQuery, bound_seconds: float) -> None:
    deadline = time.monotonic() + bound_seconds
    # A query that waits for data calls no batch function; a busy one ends by its guard.
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    if query.isActive:
        query.stop()


def _own_error(error: StreamingQueryException) -> HeadwaterError | None:
    """The error that a batch function raised; py4j hands over only its text."""
    text = str(error)
    marker = "headwater.errors."
    if marker not in text:
        return None
    line = text.split(marker, 1)[1].splitlines()[0]
    _, _, message = line.partition(": ")
    return HeadwaterError(message or line)
