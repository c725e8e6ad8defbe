"""Waits for a streaming query until it ends or a stop is requested, with one driver per checkpoint.

After a stop request the running micro-batch is completed. Calling `query.stop()` in a signal
handler would break py4j, so the handler only records the request. Handlers are installed in
Headwater's own commands only; in a user's program, the exception that the user's handler raises
requests the stop (`collector/streaming.py`).
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwater import process
from headwater.errors import CheckpointError, CheckpointInUseError, QueryFailedError
from headwater.model.local_files import file_uri
from headwater.openlineage.events import DROPPED_HEADERS
from headwater.process import run_apart
from headwater.settings import Settings
from headwater.spark.query_failure import query_failed
from headwater.spark.remote_checkpoint import copied_checkpoint
from headwater.storage.checkpoint import held, read_progress

_LOG = logging.getLogger(__name__)

# Receives the progress event of a finished micro-batch, as Spark's JSON.
OnBatch = Callable[[Mapping[str, Any]], None]


@contextmanager
def local_checkpoint(checkpoint: Path | str, spark: SparkSession) -> Iterator[Path]:
    """The checkpoint as a local folder: itself, or a copy of what a start compares."""
    if isinstance(checkpoint, Path):
        yield checkpoint
        return
    with copied_checkpoint(checkpoint, spark) as folder:
        yield folder


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
        with process.handled(self._handle):
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
    # Receives each Spark query of the run: a batch that was cut off is completed by its own query.
    on_start: Callable[[StreamingQuery], None] | None = None


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
    run_until_stopped(query, run, settings)


def run_until_stopped(query: StreamingQuery, run: QueryRun, settings: Settings) -> None:
    """Wait until the query ends; after a stop request, stop it after the running micro-batch.

    Logs a line for each micro-batch with records, at most one per second. `run.on_batch` receives
    every micro-batch, in order; an error that it raises stops the query.

    Raises:
        QueryFailedError: the query failed; the next start continues where it stopped.
    """
    stop, logged, batches = run.stop, _ProgressLog(), Batches(run.on_batch)
    stop_timeout = settings.spark.stop_timeout_seconds
    try:
        if run.on_start is not None:
            run.on_start(query)
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


def stop_seconds(settings: Settings) -> float:
    """The longest time from a stop request to the end of a run."""
    return settings.spark.stop_timeout_seconds + _STOP_SECONDS + _END_SECONDS


def was_cancelled(error: BaseException) -> bool:
    """Whether a query failed because its Spark job was cancelled, such as by Ctrl-C."""
    return isinstance(error, QueryFailedError) and _CANCELLED in f"{error} {error.__cause__}"


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
        if dropped := (progress["sink"].get("metrics") or {}).get(DROPPED_HEADERS):
            _LOG.warning(
                "batch %d: dropped %s headers of other applications that exceed "
                "jobs.max_header_bytes or jobs.max_headers",
                self._batch,
                dropped,
            )


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


# A JVM whose Python process died exits within seconds, after the write in progress.
_JVM_EXIT_TIMEOUT_SECONDS = 60.0
_unfinished: set[Path] = set()


@contextmanager
def lease(checkpoint: Path, spark: SparkSession) -> Iterator[None]:
    """Hold the checkpoint while the body runs.

    Two locks of the operating system, which end with their processes, so a start after kill -9
    waits for no timeout. Python's lock means that a job runs. The JVM's lock means that something
    may still be written: a JVM whose Python process was killed continues for a moment.

    Raises:
        CheckpointInUseError: another process holds it.
    """
    if checkpoint.absolute() in _unfinished:
        raise CheckpointInUseError(
            f"{checkpoint}: a batch was interrupted in this process, which may still be writing it",
            hint="restart in a new process; `headwater run --restarts N` does that",
            checkpoint=str(checkpoint),
        )
    with held(checkpoint), _jvm_lock(checkpoint / "headwater" / "jvm-lease", checkpoint, spark):
        yield


def lease_if_local(
    checkpoint: Path | str, spark: SparkSession
) -> AbstractContextManager[None, bool | None]:
    """Hold a checkpoint in a local folder; others can't be locked."""
    return lease(checkpoint, spark) if isinstance(checkpoint, Path) else nullcontext()


@contextmanager
def _jvm_lock(path: Path, checkpoint: Path, spark: SparkSession) -> Iterator[None]:
    jvm: Any = spark._jvm  # noqa: SLF001
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    try:
        deadline = time.monotonic() + _JVM_EXIT_TIMEOUT_SECONDS
        while file.getChannel().tryLock() is None:
            if time.monotonic() > deadline:
                raise CheckpointInUseError(
                    f"{checkpoint}: the JVM of an earlier driver has not exited after "
                    f"{_JVM_EXIT_TIMEOUT_SECONDS:g} s",
                    hint="find the java process of that job and stop it",
                    checkpoint=str(checkpoint),
                )
            time.sleep(0.1)
        yield
    except CheckpointError:
        # Refused before a query was started: this process has written nothing.
        file.close()
        raise
    finally:
        if not file.getChannel().isOpen() or read_progress(checkpoint).cut_off is None:
            file.close()
        else:
            # Spark's producer may still send buffered records of that batch: the lock stays until
            # the JVM exits, and this process does not use the checkpoint again.
            _unfinished.add(checkpoint.absolute())
