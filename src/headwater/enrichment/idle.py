"""A quiet input must not hold back the other one for ever.

Spark's watermark is the lower one of both sides: when a topic goes quiet, it stands still, and no
unmatched visit comes out. With an idle timeout a thread watches both topics. When one has had no
record for so long, and all it has is read, a *heartbeat* goes to a topic of its own which the side
reads, too. It says how far the other side is, and moves the quiet side's watermark there, no
further. A heartbeat is no record: it matches nothing and is kept nowhere.

What can be late by that: a record of the quiet side that is older than the newest record of the
other side by more than the quiet side's delay. The watermark of the quiet side never passes
that of the other side's newest record less this delay, nor the wall clock less it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from headwater.enrichment.rule import ADS, VISITS, JoinRule, span_text
from headwater.errors import HeadwaterError, TopicNotFoundError
from headwater.kafka import RecordProducer, describe_topic, end_offsets
from headwater.settings import Settings

_SUFFIX = "-heartbeat"
# Each heartbeat is a micro-batch: no more of them than this.
_LOOK_EVERY_SECONDS = 1.0


def heartbeat_topic(output: str) -> str:
    """The topic of heartbeats of the join that writes `output`."""
    return output + _SUFFIX


def heartbeats_exist(topic: str, settings: Settings) -> bool:
    try:
        describe_topic(topic, settings)
    except TopicNotFoundError:
        return False
    return True


@dataclass
class _Side:
    """What is known of one input, in times of records (milliseconds) and of this machine."""

    topic: str
    counted: str
    newest_ms: int | None = None
    read: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    changed_at: float = 0.0
    # Up to where heartbeats have told it to go.
    told_ms: int | None = None

    def saw(self, ends: Mapping[int, int], now: float) -> None:
        """Take the ends of the topic as they are now."""
        if ends != self.ends:
            self.ends, self.changed_at, self.told_ms = ends, now, None

    def is_quiet(self, now: float, timeout: timedelta) -> bool:
        """No new record for so long, and none that is not read."""
        unread = any(self.read.get(str(p), 0) < end for p, end in self.ends.items())
        return not unread and now - self.changed_at >= timeout.total_seconds()


class Heartbeats:
    """Sends heartbeats from a thread while the body runs.

    What goes wrong in the thread is told and tried again: it never ends the job.
    """

    def __init__(
        self,
        rule: JoinRule,
        topic: str,
        timeout: timedelta,
        settings: Settings,
        say: Callable[[str], None] = lambda line: None,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic = topic
        self._timeout = timeout
        self._settings = settings
        self._say = say
        self._clock = clock
        self._monotonic = monotonic
        visits, ads = _Side(rule.visits, VISITS), _Side(rule.ads, ADS)
        self._pairs = ((visits, ads), (ads, visits))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(5)

    def take(self, progress: Mapping[str, Any]) -> None:
        """Note what a micro-batch has read of both sides."""
        with self._lock:
            for side, _ in self._pairs:
                counted = progress.get("observedMetrics", {}).get(side.counted)
                newest = None if counted is None else counted.get("newest_ms")
                if newest is not None:
                    side.newest_ms = max(newest, side.newest_ms or newest)
                for source in progress["sources"]:
                    side.read = (source["endOffset"] or {}).get(side.topic, side.read)

    def due(self, ends: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
        """Quiet topics, and the time in milliseconds up to which each must not hold back."""
        now, clock = self._monotonic(), int(self._clock().timestamp() * 1000)
        found = {}
        with self._lock:
            for side, other in self._pairs:
                side.saw(ends[side.topic], now)
                if other.newest_ms is None or not side.is_quiet(now, self._timeout):
                    continue
                upto = min(other.newest_ms, clock)
                if upto > max(side.newest_ms or 0, side.told_ms or 0):
                    found[side.topic] = upto
        return found

    def sent(self, topic: str, upto: int) -> bool:
        """Note a heartbeat; whether it is the first since the topic went quiet."""
        with self._lock:
            (side,) = (side for side, _ in self._pairs if side.topic == topic)
            first = side.told_ms is None
            side.told_ms = upto
        return first

    def _run(self) -> None:
        topics = [side.topic for side, _ in self._pairs]
        while not self._stop.wait(_LOOK_EVERY_SECONDS):
            try:
                due = self.due({topic: end_offsets(topic, self._settings) for topic in topics})
                self._send(due)
            except HeadwaterError as error:
                self._say(f"no heartbeat was sent: {error}")
                continue
            for topic, upto in due.items():
                if self.sent(topic, upto):
                    self._say(
                        f"{topic} has been quiet for {span_text(self._timeout)}; it no longer "
                        "holds back the other topic"
                    )

    def _send(self, due: Mapping[str, int]) -> None:
        if not due:
            return
        with RecordProducer(self._settings) as producer:
            for topic, upto in due.items():
                at = datetime.fromtimestamp(upto / 1000, UTC)
                value = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                producer.send(self._topic, value.encode(), topic.encode())
