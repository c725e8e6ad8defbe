"""Reads the JVM queue of lineage events (`java/`) in a background thread."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

# How long one call waits for an entry; entries are queued between calls.
_WAIT_MILLIS = 1000


class Relay:
    """Passes the entries of the queue to a function, in order, until `stop`. Never raises."""

    def __init__(
        self,
        spark: SparkSession,
        take: Callable[[Mapping[str, Any]], None],
    ) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001
        self._queue = jvm.dev.headwater.lineage.LineageEventQueue
        # Of the context: it still exists when the session is stopped.
        self._bus = spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
        self._take = take
        self._logged: set[str] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="lineage-relay", daemon=True)

    def start(self) -> None:
        self._queue.open()
        self._thread.start()

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller is called by the relay."""
        return threading.current_thread() is self._thread

    def stop(self, seconds: float) -> None:
        """Process all entries up to now, for at most `seconds`."""
        deadline = time.monotonic() + seconds
        try:
            # Spark posts the events of a query asynchronously.
            self._bus.waitUntilEmpty(int(seconds * 1000))
        except Exception as error:
            self._warn_once(f"not all queries are reported after {seconds:g} s", error)
        self._stopping = True
        try:
            self._queue.wake()
        except Exception as error:
            self._warn_once("the JVM does not respond", error)
        if self.is_current_thread:
            self._take_entries(0)
        else:
            self._thread.join(max(deadline - time.monotonic(), 0.1))
        try:
            dropped = self._queue.dropped()
            self._queue.close()
        except Exception:
            # Logged above.
            return
        if dropped:
            _LOG.warning("lineage: dropped %d Spark events (the queue is full)", dropped)

    def _run(self) -> None:
        while True:
            # Read before the call, so that the last call gets all entries queued before `stop`.
            last = self._stopping
            if not self._take_entries(0 if last else _WAIT_MILLIS) or last:
                return

    def _take_entries(self, millis: int) -> bool:
        """Process the queued entries; returns whether the JVM responds."""
        try:
            taken = list(self._queue.take(millis))
        except Exception as error:
            # The JVM has exited, and the queue with it.
            if millis:
                self._warn_once("the JVM does not respond", error)
            return False
        for text in taken:
            self._process(text)
        return True

    def _process(self, text: str) -> None:
        if not text:
            return
        try:
            self._take(json.loads(text))
        except Exception as error:
            self._warn_once("an event of Spark can't be processed", error)

    def _warn_once(self, message: str, error: Exception) -> None:
        """Once per message: lineage must not fill the log of a job."""
        if message not in self._logged:
            self._logged.add(message)
            _LOG.warning("lineage: %s: %s: %.200s", message, type(error).__name__, error)
