"""Heartbeats: records that tell a side of a join the time, when its own records do not.

Spark's watermark is the earlier one of both sides, and a side's time is that of its newest record.
It stands still in two cases, and in both a *heartbeat* helps: a record in a topic of its own, which
both sides read beside their own and which says to one of them how late it is. A heartbeat is no
data: it matches nothing and is kept nowhere.

- A query that starts again does not know how far its sides had come. Each is told its own newest
  time.
- A topic may be quiet, and then holds back the other for ever. With an idle timeout it is told the
  newest time of the other side, once it has had no record for so long and all it has is read.

What can be late by the second: a record of the quiet side that is older than the newest record
of the other side by more than its own delay. Such a heartbeat never passes the wall clock.
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
from headwater.jobs.visits_ads.times import HeartbeatTopic, SideTime, Times
from headwater.kafka import RecordProducer, end_offsets
from headwater.model import from_epoch_ms
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

# Each heartbeat is a micro-batch: no more of them than this.
_LOOK_EVERY_SECONDS = 1.0


class _Quiet:
    """Whether a topic is quiet: no new record for a time, and none that is not read."""

    def __init__(self) -> None:
        self.read: Mapping[str, int] = {}
        self._ends: Mapping[int, int] = {}
        self._since = 0.0

    def saw(self, ends: Mapping[int, int], now: float) -> bool:
        """Take the ends of the topic as they are now; whether they are others than before."""
        if ends == self._ends:
            return False
        self._ends, self._since = ends, now
        return True

    def for_seconds(self, now: float) -> float:
        unread = any(self.read.get(str(p), 0) < end for p, end in self._ends.items())
        return 0.0 if unread else now - self._since


class Heartbeats:
    """Sends heartbeats while the body runs; with a timeout, from a thread as well.

    What goes wrong is told and tried again: it never ends the job.
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
        self._quiet = {side.topic: _Quiet() for side in times.sides}
        self._told: dict[str, int] = {}
        self._said: set[str] = set()
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
        """Note what a micro-batch has read; behind the first of a query, tell the sides."""
        with self._lock:
            self._times.take(progress)
            for source in progress["sources"]:
                for topic, offsets in (source["endOffset"] or {}).items():
                    if topic in self._quiet:
                        self._quiet[topic].read = offsets
            first, self._run = progress["runId"] != self._run, progress["runId"]
        if first:
            # A batch that was cut off is finished by a query of its own, and forgotten with it.
            self._send(self.own_times())

    def own_times(self) -> dict[str, int]:
        """What each side has to be told of itself."""
        with self._lock:
            return {
                side.topic: side.newest_ms
                for side in self._times.sides
                if side.newest_ms is not None and side.newest_ms > self._told.get(side.topic, 0)
            }

    def times_of_quiet(self, ends: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
        """What quiet sides have to be told of the other one, given the ends of both topics."""
        visits, ads = self._times.sides
        with self._lock:
            found = {}
            for side, other in ((visits, ads), (ads, visits)):
                upto = self._upto(side, other, ends[side.topic])
                if upto is not None:
                    found[side.topic] = upto
        return found

    def _upto(self, side: SideTime, other: SideTime, ends: Mapping[int, int]) -> int | None:
        now, quiet = self._monotonic(), self._quiet[side.topic]
        if quiet.saw(ends, now):
            self._said.discard(side.topic)
        if self._timeout is None or quiet.for_seconds(now) < self._timeout.total_seconds():
            return None
        if other.newest_ms is None:
            return None
        upto = min(other.newest_ms, int(self._clock().timestamp() * 1000))
        known = max(side.newest_ms or 0, self._told.get(side.topic, 0))
        return upto if upto > known else None

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_SECONDS):
            try:
                ends = {topic: end_offsets(topic, self._settings.kafka) for topic in self._quiet}
            except HeadwaterError as error:
                _LOG.warning("end offsets of idle topics can't be read: %s", error)
                continue
            due = self.times_of_quiet(ends)
            for topic in self._send(due) - self._said:
                self._said.add(topic)
                _LOG.info("%s is idle, it no longer holds back the watermark", topic)

    def _send(self, due: Mapping[str, int]) -> set[str]:
        """Send heartbeats; gives the topics that were told."""
        if not due:
            return set()
        try:
            with RecordProducer(self._settings.kafka) as producer:
                for topic, upto in due.items():
                    producer.send(self._topic.name, _text(upto).encode(), self._topic.key(topic))
        except HeadwaterError as error:
            _LOG.warning("heartbeat was not sent: %s", error)
            return set()
        with self._lock:
            self._told.update(due)
        return set(due)


def _text(millis: int) -> str:
    return from_epoch_ms(millis).isoformat(timespec="milliseconds").replace("+00:00", "Z")
