"""Takes what the JVM hands over (`java/`), in a thread of its own."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

# One call waits so long for something to be told; between two calls nothing is missed.
_WAIT_MILLIS = 1000


class Relay:
    """From the JVM to a function, in order, until it is stopped. Never raises."""

    def __init__(
        self,
        spark: SparkSession,
        take: Callable[[Mapping[str, Any]], None],
    ) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001
        self._handover = jvm.headwater.lineage.LineageEventQueue
        # The context's own: still there when the session is stopped.
        self._bus = spark.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001
        self._take = take
        self._logged: set[str] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="lineage-relay", daemon=True)

    def start(self) -> None:
        self._handover.open()
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Take what is told until now, within the bound; nothing later."""
        deadline = time.monotonic() + seconds
        try:
            # Spark tells of a query some time after it is done.
            self._bus.waitUntilEmpty(int(seconds * 1000))
        except Exception as error:
            self._warn_once(f"not all queries are told of after {seconds:g} s", error)
        self._stopping = True
        try:
            self._handover.wake()
        except Exception as error:
            self._warn_once("the JVM does not answer", error)
        self._thread.join(max(deadline - time.monotonic(), 0.1))
        try:
            dropped = self._handover.dropped()
            self._handover.close()
        except Exception:
            # Told of above.
            return
        if dropped:
            _LOG.warning("lineage: dropped %d Spark events (the queue is full)", dropped)

    def _run(self) -> None:
        while True:
            # What was told before the stop is taken by this call, or was before.
            last = self._stopping
            try:
                taken = list(self._handover.take(0 if last else _WAIT_MILLIS))
            except Exception as error:
                # The JVM is gone, and with it all that could be told.
                if not last:
                    self._warn_once("the JVM does not answer", error)
                return
            for text in taken:
                self._hand_on(text)
            if last:
                return

    def _hand_on(self, text: str) -> None:
        if not text:
            return
        try:
            self._take(json.loads(text))
        except Exception as error:
            self._warn_once("what Spark told can't be read", error)

    def _warn_once(self, what: str, error: Exception) -> None:
        """Once for each thing: lineage must not fill a job's log."""
        if what not in self._logged:
            self._logged.add(what)
            _LOG.warning("lineage: %s: %s: %.200s", what, type(error).__name__, error)
