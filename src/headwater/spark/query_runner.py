"""Runs a streaming query until it ends or a stop is requested, with one driver per checkpoint.

After a stop request the running micro-batch is completed. Calling `query.stop()` in a signal
handler would break py4j, so the handler only records the request. Handlers are installed in
Headwater's own commands only; in a user's program, the exception that the user's handler raises
requests the stop (`run_interruptibly`).
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater import signals
from headwater.errors import QueryFailedError
from headwater.model.local_files import file_uri
from headwater.settings import Settings
from headwater.spark.lease import lease_if_local
from headwater.spark.query_failure import query_failed
from headwater.spark.worker import Worker, run_apart

_LOG = logging.getLogger(__name__)

# Receives the progress event of a finished micro-batch, as Spark's JSON.
OnBatch = Callable[[Mapping[str, Any]], None]


class ThrottledCallback:
    """Marks a callback that `Batches` may call at most once per second.

    Polling a query costs a few calls to the JVM.
    """

    def __init__(self, callback: OnBatch) -> None:
        self._callback = callback

    def __call__(self, progress: Mapping[str, Any]) -> None:
        self._callback(progress)


_POLL_SECONDS = 0.2
# Bound of `query.stop()`, which waits for the query's thread, by default indefinitely.
_STOP_SECONDS = 30.0
# Time for the last lineage event and the release of the checkpoint after a query was stopped.
_END_SECONDS = 15.0
# How Spark names a job that `cancelAllJobs` ended. pyspark calls that on Ctrl-C, before it raises
# KeyboardInterrupt.
_CANCELLED = "SPARK_JOB_CANCELLED"
_INTERRUPT_SECONDS = 2.0
# Short enough to miss none of the hundred micro-batches that Spark keeps.
_THROTTLE_SECONDS = 1.0


class StopSignal:
    """A request to stop, from a signal or from code."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        self._event.set()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a request; returns whether there is one."""
        return self._event.wait(seconds)

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """While the body runs, SIGTERM and SIGINT request a stop, if Headwater owns the process."""
        with signals.handled(self._handle):
            yield

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._event.set()


@dataclass(frozen=True)
class QueryRun:
    """One start of a query. Its id is in the headers of the records and in the catalog; records
    are identified by their parents, not by this id."""

    id: str
    stop: StopSignal
    # Receives the progress of every micro-batch.
    on_batch: OnBatch | None = None


def new_run_id() -> str:
    """A random id for one start of a query."""
    return str(uuid.uuid4())


def checkpoint_uri(checkpoint: Path | str) -> str:
    """As a URI: Spark resolves a bare path against the cluster's default file system."""
    return file_uri(checkpoint) if isinstance(checkpoint, Path) else checkpoint


def run_foreach_batch(
    rows: DataFrame,
    write: Callable[[DataFrame, int], None],
    run: QueryRun,
    settings: Settings,
    *,
    name: str,
    checkpoint: Path | str,
    trigger: Mapping[str, Any],
) -> None:
    """Start a query whose micro-batches `write` writes, and wait until it ends or is stopped.

    Raises:
        QueryFailedError: the query failed; the next start continues where it stopped.
    """
    query = (
        rows.writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint_uri(checkpoint))
        .queryName(name)
        .trigger(**trigger)
        .start()
    )
    run_until_stopped(query, run.stop, settings, run.on_batch)


def run_until_stopped(
    query: StreamingQuery,
    stop: StopSignal,
    settings: Settings,
    on_batch: OnBatch | None = None,
) -> None:
    """Wait until the query ends; after a stop request, stop it after the running micro-batch.

    Logs a line for each micro-batch with records, at most one per second. `on_batch` receives
    every micro-batch, in order; an error that it raises stops the query.

    Raises:
        QueryFailedError: the query failed; the next start continues where it stopped.
    """
    logged, batches = _ProgressLog(), Batches(on_batch)
    stop_timeout = settings.spark.stop_timeout_seconds
    try:
        with stop.on_signals():
            while query.isActive and not stop.requested:
                query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]  # takes a float
                logged.poll(query)
                batches.poll(query)
            if stop.requested:
                _stop_after_batch(query, stop_timeout)
            logged.poll(query, now=True)
            batches.poll(query, now=True)
        failure = query.exception()
        if failure is not None:
            raise failure
    except StreamingQueryException as error:
        if _CANCELLED in str(error):
            # Ctrl-C: the request follows.
            stop.wait(_INTERRUPT_SECONDS)
        raise query_failed(query.name, error, settings) from error
    except BaseException:
        with suppress(Exception):
            bound = stop_timeout + _STOP_SECONDS + 1
            run_apart(lambda: _stop_after_batch(query, stop_timeout), bound)
        raise


def was_cancelled(error: BaseException) -> bool:
    """Whether a query failed because its Spark job was cancelled, such as by Ctrl-C."""
    return isinstance(error, QueryFailedError) and _CANCELLED in f"{error} {error.__cause__}"


def run_interruptibly(work: Callable[[], None], stop: StopSignal, settings: Settings) -> None:
    """Run `work`, a query until its end; if this thread is interrupted, stop the query first.

    In the main thread, a signal handler of the user may raise KeyboardInterrupt or SystemExit. So
    `work` runs in another thread, with the Spark properties of this one, which only waits.
    """
    if not signals.on_main_thread():
        work()
        return
    worker = Worker(work, inherit=True)
    with stop.on_signals():
        try:
            worker.start()
            while not worker.wait(1):
                pass
        except BaseException:
            stop.request()
            seconds = settings.spark.stop_timeout_seconds + _STOP_SECONDS + _END_SECONDS
            if not worker.abandon(seconds):
                _LOG.warning("the query has not stopped after %g s", seconds)
            raise
    worker.raise_error()


class Batches:
    """Calls `on_batch` once with the progress of each micro-batch."""

    def __init__(self, on_batch: OnBatch | None) -> None:
        self._on_batch = on_batch
        self._interval = _THROTTLE_SECONDS if isinstance(on_batch, ThrottledCallback) else 0.0
        self._polled_at = 0.0
        self._newest = -1

    def poll(self, query: StreamingQuery, *, now: bool = False) -> None:
        if self._on_batch is None:
            return
        if not now and time.monotonic() - self._polled_at < self._interval:
            return
        self._polled_at = time.monotonic()
        java: Any = query._jsq  # noqa: SLF001
        last = java.lastProgress()
        if last is None or last.batchId() <= self._newest:
            return
        for progress in self._new_batches(java.recentProgress()):
            self._newest = progress["batchId"]
            self._on_batch(progress)

    def _new_batches(self, recent: Any) -> list[Mapping[str, Any]]:
        """The batches since the last poll, in order. Goes back from the newest one: Spark keeps a
        hundred, and converting one to JSON is slow."""
        new: list[Mapping[str, Any]] = []
        for index in range(len(recent) - 1, -1, -1):
            if recent[index].batchId() <= self._newest:
                break
            # As JSON, because pyspark's objects have offsets as text.
            progress = json.loads(recent[index].json())
            # An idle query reports progress as well, with the id of the next batch.
            if "addBatch" in progress["durationMs"]:
                new.append(progress)
        return new[::-1]


class _ProgressLog:
    """Logs the newest micro-batch, at most once per second."""

    def __init__(self) -> None:
        self._batch: int | None = None
        self._polled_at = 0.0

    def poll(self, query: StreamingQuery, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._polled_at < 1:
            return
        self._polled_at = time.monotonic()
        progress = query.lastProgress
        if progress is None or progress["batchId"] == self._batch or not progress["numInputRows"]:
            return
        self._batch = progress["batchId"]
        rate = progress["processedRowsPerSecond"] or 0
        rows = progress["numInputRows"]
        _LOG.info("batch %d: %d records, %.0f/s", self._batch, rows, rate)


def _stop_after_batch(query: StreamingQuery, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    running = _newest_batch(query)
    # A query that waits for data is between two batches. A busy one starts the next batch
    # immediately: that batch is interrupted early, and completed by the next start.
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        if _newest_batch(query) != running:
            break
        time.sleep(_POLL_SECONDS / 10)
    if query.isActive:
        _stop(query)


def _stop(query: StreamingQuery) -> None:
    """Stop a query.

    In another thread, because the timeout of Spark is a setting of the session.

    Raises:
        QueryFailedError: its thread has not ended in time.
    """
    if not run_apart(query.stop, _STOP_SECONDS):
        raise QueryFailedError(
            f"query {query.name!r} has not stopped after {_STOP_SECONDS:g} s",
            hint="its thread is still running in this process: restart the process",
            query=query.name,
        )


def _newest_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else progress["batchId"]


@contextmanager
def stoppable(
    checkpoint: Path | str, spark: SparkSession, stop: StopSignal | None = None
) -> Iterator[StopSignal]:
    """Hold the checkpoint, and let signals request a stop while the body runs (`on_signals`).

    Raises:
        CheckpointInUseError: another driver holds the checkpoint.
    """
    stop = stop or StopSignal()
    with lease_if_local(checkpoint, spark), stop.on_signals():
        yield stop
