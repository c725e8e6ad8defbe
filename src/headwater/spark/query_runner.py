"""Running a streaming query until it ends or somebody asks it to stop.

A stop request lets the micro-batch that runs come to its end. Calling `query.stop()` from a
signal handler would break py4j, so the handler only notes the request.
"""

from __future__ import annotations

import json
import logging
import re
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from headwater.errors import QueryFailedError
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

# Receives the progress event of a finished micro-batch, as Spark's JSON.
OnBatch = Callable[[Mapping[str, Any]], None]


class ThrottledCallback:
    """Takes micro-batches, and need not hear of one in the moment it is done: each look at a query
    costs a few calls to the JVM."""

    def __init__(self, take: OnBatch) -> None:
        self._take = take

    def __call__(self, progress: Mapping[str, Any]) -> None:
        self._take(progress)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_POLL_SECONDS = 0.2
# Far below what Spark remembers: a hundred micro-batches.
_UNHURRIED_SECONDS = 1.0
# What Spark puts around the reason.
_FRAME = re.compile(r"^.*?terminated with exception: |\s*SQLSTATE: \w+\s*$", re.DOTALL)


class StopSignal:
    """A request to stop, from SIGTERM, SIGINT or code."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def request(self) -> None:
        self._event.set()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

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


@dataclass(frozen=True)
class QueryRun:
    """One start of a query. Its id is in the headers of the records and in the catalog; records
    are identified by their parents, never by this id."""

    id: str
    stop: StopSignal
    # Receives the progress of every micro-batch.
    on_batch: OnBatch | None = None


def new_run_id() -> str:
    """A random id for one start of a query."""
    return str(uuid.uuid4())


def run_until_stopped(
    query: StreamingQuery,
    stop: StopSignal,
    settings: Settings,
    on_batch: OnBatch | None = None,
) -> None:
    """Wait until the query ends; after a stop request, stop it when its micro-batch is done.

    Logs a line for each micro-batch with records, at most one per second. `on_batch` receives
    every micro-batch, in order; an error that it raises ends the query.

    Raises:
        QueryFailedError: the query failed; the next start goes on where it stopped.
    """
    logged, batches = _ProgressLog(), Batches(on_batch)
    try:
        with stop.on_signals():
            while query.isActive and not stop.requested:
                query.awaitTermination(_POLL_SECONDS)  # type: ignore[arg-type]  # takes a float
                logged.look_at(query)
                batches.look_at(query)
            if stop.requested:
                _stop_behind_batch(query, settings.spark.stop_timeout_seconds)
            logged.look_at(query, now=True)
            batches.look_at(query, now=True)
        failure = query.exception()
        if failure is not None:
            raise failure
    except StreamingQueryException as error:
        reason = _FRAME.sub("", str(error)).strip() or str(error)
        raise QueryFailedError(
            f"query {query.name!r} failed: {reason}",
            hint="a new start goes on where it stopped; `headwater run --restarts N` does that",
            query=query.name,
        ) from error
    except Exception:
        _stop_behind_batch(query, settings.spark.stop_timeout_seconds)
        raise


class Batches:
    """Hands on what Spark tells of each micro-batch, once."""

    def __init__(self, hand_on: OnBatch | None) -> None:
        self._hand_on = hand_on
        self._pause = _UNHURRIED_SECONDS if isinstance(hand_on, ThrottledCallback) else 0.0
        self._looked_at = 0.0
        self._newest = -1

    def look_at(self, query: StreamingQuery, *, now: bool = False) -> None:
        if self._hand_on is None:
            return
        if not now and time.monotonic() - self._looked_at < self._pause:
            return
        self._looked_at = time.monotonic()
        java: Any = query._jsq  # noqa: SLF001
        last = java.lastProgress()
        if last is None or last.batchId() <= self._newest:
            return
        for progress in self._new_ones(java.recentProgress()):
            self._newest = progress["batchId"]
            self._hand_on(progress)

    def _new_ones(self, recent: Any) -> list[Mapping[str, Any]]:
        """Those since the last look, in order. Spark remembers a hundred, and making JSON of one
        takes a while: from the newest back to what is known."""
        found: list[Mapping[str, Any]] = []
        for place in range(len(recent) - 1, -1, -1):
            if recent[place].batchId() <= self._newest:
                break
            # As JSON: pyspark makes text of the offsets in it.
            progress = json.loads(recent[place].json())
            # A query that waits tells of itself, too, under the number of the batch to come.
            if "addBatch" in progress["durationMs"]:
                found.append(progress)
        return found[::-1]


class _ProgressLog:
    """Logs the newest micro-batch, at most once per second."""

    def __init__(self) -> None:
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
        _LOG.info("batch %d: %d records, %.0f/s", self._batch, rows, rate)


def _stop_behind_batch(query: StreamingQuery, bound_seconds: float) -> None:
    deadline = time.monotonic() + bound_seconds
    running = _newest_batch(query)
    # A query that waits for data is between two batches. A busy one begins the next batch at
    # once: that one is cut off as early as can be, and finished by the next start.
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        if _newest_batch(query) != running:
            break
        time.sleep(_POLL_SECONDS / 10)
    if query.isActive:
        query.stop()


def _newest_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else progress["batchId"]
