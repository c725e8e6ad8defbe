"""Heartbeats: records that advance the event time of a side of a join.

Spark's watermark is the lower one of both sides, and the time of a side is that of its newest
record. A *heartbeat* is a record in a separate topic, which both sides read in addition to their
own; it has a time for one side. It matches no record and is not stored in the state. Heartbeats
are sent in two cases in which the watermark would not advance:

- After a restart the query does not know the newest time of its sides. Each gets its own time.
- An idle topic holds back the other one indefinitely. With an idle timeout, a side without new
  records for that time, and with all its records read, gets the newest time of the other side.

In the second case a record of the idle side is late if it is older than the newest record of the
other side by more than its delay. Such a heartbeat never exceeds the wall clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from headwater.errors import HeadwaterError
from headwater.join.times import HeartbeatTopic, SideTime, Times
from headwater.kafka import RecordProducer, end_offsets
from headwater.model import from_epoch_ms
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

# Each heartbeat causes a micro-batch, so this limits their rate.
_CHECK_SECONDS = 1.0


class _IdleTopic:
    """Measures how long a topic is idle: without new records and without unread ones."""

    def __init__(self) -> None:
        self.read: Mapping[str, int] = {}
        self._ends: Mapping[int, int] = {}
        self._since = 0.0

    def update(self, ends: Mapping[int, int], now: float) -> bool:
        """Set the current end offsets of the topic; returns whether they have changed."""
        if ends == self._ends:
            return False
        self._ends, self._since = ends, now
        return True

    def idle_seconds(self, now: float) -> float:
        unread = any(self.read.get(str(p), 0) < end for p, end in self._ends.items())
        return 0.0 if unread else now - self._since


class Heartbeats:
    """Sends heartbeats while the body runs; with a timeout, also from a thread.

    Errors are logged and retried: they never fail the job.
    """

    def __init__(
        self,
        times: Times,
        topic: HeartbeatTopic,
        timeout: timedelta | None,
        settings: Settings,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._times = times
        self._topic = topic
        self._timeout = timeout
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._idle = {side.topic: _IdleTopic() for side in times.sides}
        self._sent: dict[str, int] = {}
        self._logged: set[str] = set()
        self._run: str | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._send(self.own_times())
        if self._timeout is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._timeout is not None:
            self._thread.join(5)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Process the progress of a micro-batch; after the first of a query, send heartbeats."""
        with self._lock:
            self._times.take(progress)
            for source in progress["sources"]:
                for topic, offsets in (source["endOffset"] or {}).items():
                    if topic in self._idle:
                        self._idle[topic].read = offsets
            first, self._run = progress["runId"] != self._run, progress["runId"]
        if first:
            # An interrupted batch is completed by a separate query, whose event times are lost.
            self._send(self.own_times())

    def own_times(self) -> dict[str, int]:
        """The newest times that the sides have not received yet."""
        with self._lock:
            return {
                side.topic: side.newest_ms
                for side in self._times.sides
                if side.newest_ms is not None and side.newest_ms > self._sent.get(side.topic, 0)
            }

    def times_for_idle(self, ends: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
        """The times that idle sides need of the other side, from the end offsets of both topics."""
        left, right = self._times.sides
        with self._lock:
            times = {}
            for side, other in ((left, right), (right, left)):
                time_ms = self._time_for(side, other, ends[side.topic])
                if time_ms is not None:
                    times[side.topic] = time_ms
        return times

    def _time_for(self, side: SideTime, other: SideTime, ends: Mapping[int, int]) -> int | None:
        now, topic = self._monotonic(), self._idle[side.topic]
        if topic.update(ends, now):
            self._logged.discard(side.topic)
        if self._timeout is None or topic.idle_seconds(now) < self._timeout.total_seconds():
            return None
        if other.newest_ms is None:
            return None
        time_ms = min(other.newest_ms, int(self._clock().timestamp() * 1000))
        known = max(side.newest_ms or 0, self._sent.get(side.topic, 0))
        return time_ms if time_ms > known else None

    def _work(self) -> None:
        while not self._stop.wait(_CHECK_SECONDS):
            try:
                ends = {topic: end_offsets(topic, self._settings.kafka) for topic in self._idle}
            except HeadwaterError as error:
                _LOG.warning("end offsets of idle topics can't be read: %s", error)
                continue
            due = self.times_for_idle(ends)
            for topic in self._send(due) - self._logged:
                self._logged.add(topic)
                _LOG.info("%s is idle, it no longer holds back the watermark", topic)

    def _send(self, due: Mapping[str, int]) -> set[str]:
        """Send heartbeats; returns the topics they were sent for."""
        if not due:
            return set()
        try:
            with RecordProducer(self._settings.kafka) as producer:
                for topic, time_ms in due.items():
                    producer.send(self._topic.name, _text(time_ms).encode(), self._topic.key(topic))
        except HeadwaterError as error:
            _LOG.warning("heartbeat was not sent: %s", error)
            return set()
        with self._lock:
            self._sent.update(due)
        return set(due)


def _text(millis: int) -> str:
    return from_epoch_ms(millis).isoformat(timespec="milliseconds").replace("+00:00", "Z")
