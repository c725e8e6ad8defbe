"""How far each side of a join has come: what Spark forgets when a query starts again.

Spark's checkpoint has the watermark of the join, but not the newest time of each side. After a
restart the watermark would stand still until both sides brought something newer. So the newest
times are noted beside the checkpoint behind each batch; what was read between the last note and a
kill is read once more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.errors import CheckpointError
from headwater.jobs.visits_ads.rule import ADS, VISITS, JoinRule
from headwater.kafka import read_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import NO_BATCH, read_offsets, read_progress

TIMES_FILE = Path("headwater") / "join-times.json"
VISIT_FIELDS = {"visit_id": "string", "event_time": "timestamp", "page": "string"}
AD_FIELDS = {"page": "string", "display_time": "timestamp", "campaign_name": "string"}


@dataclass(frozen=True)
class HeartbeatTopic:
    """Where heartbeats go, and for whom: other joins may write the same output."""

    name: str
    query: str

    @classmethod
    def of(cls, output: str, location: str) -> HeartbeatTopic:
        """Of the join that writes `output`, with its checkpoint at this location."""
        return cls(f"{output}-heartbeat", hashlib.sha256(location.encode()).hexdigest()[:16])

    def key(self, topic: str) -> bytes:
        """Of heartbeats for the side that reads `topic`."""
        return f"{topic} {self.query}".encode()


@dataclass
class SideTime:
    """The newest time of a side's records, in milliseconds; None before the first."""

    topic: str
    counted: str
    fields: Mapping[str, str]
    newest_ms: int | None = None

    def take(self, millis: int | None) -> None:
        if millis is not None:
            self.newest_ms = max(millis, self.newest_ms or millis)


class Times:
    """Both sides of a join."""

    def __init__(self, rule: JoinRule, checkpoint: Path | str) -> None:
        self.visits = SideTime(rule.visits, VISITS, VISIT_FIELDS)
        self.ads = SideTime(rule.ads, ADS, AD_FIELDS)
        # Elsewhere than on this machine nothing is noted: a restart waits for both sides.
        self._file = checkpoint / TIMES_FILE if isinstance(checkpoint, Path) else None

    @property
    def sides(self) -> tuple[SideTime, SideTime]:
        return self.visits, self.ads

    def take(self, progress: Mapping[str, Any]) -> None:
        """Note what a micro-batch has brought."""
        for side in self.sides:
            counted = progress.get("observedMetrics", {}).get(side.counted) or {}
            side.take(counted.get("newest_ms"))
        if self._file is not None:
            note = {"batch": progress["batchId"]}
            content = note | {side.counted: side.newest_ms for side in self.sides}
            self._file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._file.with_suffix(".tmp")
            unfinished.write_text(json.dumps(content))
            unfinished.replace(self._file)

    def restore(self, checkpoint: Path, settings: Settings) -> None:
        """Take the note, and what was committed after it."""
        noted = NO_BATCH
        try:
            content = json.loads((checkpoint / TIMES_FILE).read_text())
            noted = int(content["batch"])
            for side in self.sides:
                side.take(content[side.counted])
        except (OSError, ValueError, KeyError, TypeError):
            # The first batch may have been committed without a note.
            pass
        committed = read_progress(checkpoint).committed
        if noted >= committed:
            return
        try:
            begin = read_offsets(checkpoint, noted) if noted != NO_BATCH else {}
            end = read_offsets(checkpoint, committed)
        except CheckpointError:
            # Removed by Spark, a hundred batches ago: the next records tell the time.
            return
        for side in self.sides:
            until = end.get(side.topic, {})
            start = {p: begin.get(side.topic, {}).get(p, 0) for p in until}
            for record in read_topic(side.topic, settings.kafka, start=start, until=until):
                side.take(event_millis(record.value, side.fields))


def event_millis(value: bytes | None, fields: Mapping[str, str]) -> int | None:
    """The event time of a record's value, in milliseconds; None if it can't be joined."""
    moment = event_time(value, fields)
    return None if moment is None else int(moment.timestamp() * 1000)


def event_time(value: bytes | None, fields: Mapping[str, str]) -> datetime | None:
    """The event time of a record's value; None if it can't be joined."""
    try:
        content = json.loads(value or b"")
        if any(content.get(name) is None for name in fields):
            return None
        (name,) = (name for name, kind in fields.items() if kind == "timestamp")
        moment = datetime.fromisoformat(str(content[name]))
        # Spark takes a time without a zone for one of the session's, which is UTC.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, AttributeError, OverflowError, RecursionError):
        return None
