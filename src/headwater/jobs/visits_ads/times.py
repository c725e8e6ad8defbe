"""The newest event time of each side of a join, which a query loses on restart.

Spark's checkpoint has the watermark of the join, but not the newest time of each side. After a
restart the watermark would not advance until both sides have newer records. So the newest times
are stored next to the checkpoint after each batch; records between the last stored batch and a
kill are read again.
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
from headwater.model.topic_names import heartbeat_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import NO_BATCH, read_offsets, read_progress

TIMES_FILE = Path("headwater") / "join-times.json"
VISIT_FIELDS = {"visit_id": "string", "event_time": "timestamp", "page": "string"}
AD_FIELDS = {"page": "string", "display_time": "timestamp", "campaign_name": "string"}


@dataclass(frozen=True)
class HeartbeatTopic:
    """The topic of heartbeats, and the query they are for: joins may share an output."""

    name: str
    query: str

    @classmethod
    def of(cls, output: str, location: str) -> HeartbeatTopic:
        """For the join that writes `output`, with its checkpoint at this location."""
        return cls(heartbeat_topic(output), hashlib.sha256(location.encode()).hexdigest()[:16])

    def key(self, topic: str) -> bytes:
        """The key of heartbeats for the side that reads `topic`."""
        return f"{topic} {self.query}".encode()


@dataclass
class SideTime:
    """The newest time of a side in milliseconds; None before the first record."""

    topic: str
    counted: str
    fields: Mapping[str, str]
    newest_ms: int | None = None

    def take(self, millis: int | None) -> None:
        if millis is not None:
            self.newest_ms = max(millis, self.newest_ms or millis)


class Times:
    """The newest times of both sides of a join."""

    def __init__(self, rule: JoinRule, checkpoint: Path | str) -> None:
        self.visits = SideTime(rule.visits, VISITS, VISIT_FIELDS)
        self.ads = SideTime(rule.ads, ADS, AD_FIELDS)
        # Only for a local checkpoint; with others a restart waits for new records of both sides.
        self._file = checkpoint / TIMES_FILE if isinstance(checkpoint, Path) else None

    @property
    def sides(self) -> tuple[SideTime, SideTime]:
        return self.visits, self.ads

    def take(self, progress: Mapping[str, Any]) -> None:
        """Process the progress of a micro-batch, and store the times."""
        for side in self.sides:
            counted = progress.get("observedMetrics", {}).get(side.counted) or {}
            side.take(counted.get("newest_ms"))
        if self._file is not None:
            content = {"batch": progress["batchId"]} | {
                side.counted: side.newest_ms for side in self.sides
            }
            self._file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._file.with_suffix(".tmp")
            unfinished.write_text(json.dumps(content))
            unfinished.replace(self._file)

    def restore(self, checkpoint: Path, settings: Settings) -> None:
        """Read the stored times, and records that were committed after them."""
        stored = NO_BATCH
        try:
            content = json.loads((checkpoint / TIMES_FILE).read_text())
            stored = int(content["batch"])
            for side in self.sides:
                side.take(content[side.counted])
        except (OSError, ValueError, KeyError, TypeError):
            # The first batch may have been committed before the file was written.
            pass
        committed = read_progress(checkpoint).committed
        if stored >= committed:
            return
        try:
            begin = read_offsets(checkpoint, stored) if stored != NO_BATCH else {}
            end = read_offsets(checkpoint, committed)
        except CheckpointError:
            # Spark keeps only the last hundred batches: the next records provide the time.
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
        # As `parse_json` reads it: a time without a time zone is in UTC.
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, AttributeError, OverflowError, RecursionError):
        return None
