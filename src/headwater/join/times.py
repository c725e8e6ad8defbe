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
from headwater.join.rule import JoinRule, JoinSide
from headwater.kafka import read_topic
from headwater.model.topic_names import heartbeat_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import NO_BATCH, read_offsets, read_progress

TIMES_FILE = Path("headwater") / "join-times.json"
# Types whose JSON values can be checked without Spark.
_CHECKED = frozenset({"string", "timestamp", "boolean", "double", "float", "bigint", "long"})
_MAX_LONG = 2**63 - 1


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

    side: JoinSide
    newest_ms: int | None = None

    @property
    def topic(self) -> str:
        return self.side.topic

    @property
    def name(self) -> str:
        """The name of the side in observed metrics and in the file."""
        return self.side.label

    def take(self, millis: int | None, latest_ms: int | None = None) -> None:
        """Process a time, unless it is after `latest_ms`."""
        if millis is not None and (latest_ms is None or millis <= latest_ms):
            self.newest_ms = max(millis, self.newest_ms or millis)


class Times:
    """The newest times of both sides of a join."""

    def __init__(self, rule: JoinRule, checkpoint: Path | str) -> None:
        self.sides = (SideTime(rule.left), SideTime(rule.right))
        # Only for a local checkpoint; with others a restart waits for new records of both sides.
        self._file = checkpoint / TIMES_FILE if isinstance(checkpoint, Path) else None

    def take(self, progress: Mapping[str, Any]) -> None:
        """Process the progress of a micro-batch, and store the times."""
        for side in self.sides:
            counted = progress.get("observedMetrics", {}).get(side.name) or {}
            side.take(counted.get("newest_ms"))
        if self._file is not None:
            content = {"batch": progress["batchId"]} | {
                side.name: side.newest_ms for side in self.sides
            }
            self._file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self._file.with_suffix(".tmp")
            unfinished.write_text(json.dumps(content))
            unfinished.replace(self._file)

    def restore(self, checkpoint: Path, settings: Settings) -> None:
        """Read the stored times, and records that were committed after them.

        Times further ahead than the join allows do not count: such records were rejected.
        """
        ahead_ms = int(settings.jobs.max_ahead_seconds * 1000)
        latest_ms = int(datetime.now(UTC).timestamp() * 1000) + ahead_ms
        stored = NO_BATCH
        try:
            content = json.loads((checkpoint / TIMES_FILE).read_text())
            stored = int(content["batch"])
            for side in self.sides:
                side.take(content[side.name], latest_ms)
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
                side.take(joinable_millis(record.value, side.side), latest_ms)


def joinable_millis(value: bytes | None, side: JoinSide) -> int | None:
    """The event time of a record in milliseconds; None if it is not certain that it was joined."""
    content = _parsed(value)
    if side.parse is not None or content is None:
        return None
    for name, kind in side.fields.items():
        if content.get(name) is None:
            if name in side.needed:
                return None
        elif not _fits(content[name], kind):
            return None
    moment = _timestamp(content[side.time])
    return None if moment is None else int(moment.timestamp() * 1000)


def event_time(value: bytes | None, side: JoinSide) -> datetime | None:
    """The event time of a record's value; None if it can't be read without Spark."""
    content = _parsed(value)
    if side.parse is not None or content is None:
        return None
    return _timestamp(content.get(side.time))


def key_of(value: bytes | None, side: JoinSide) -> dict[str, Any]:
    """The fields of a record's key, as in its JSON."""
    content = _parsed(value) or {}
    return {name: content.get(name) for name in side.keys}


def _parsed(value: bytes | None) -> Mapping[str, Any] | None:
    try:
        content = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _timestamp(text: Any) -> datetime | None:
    """A time as `parse_json` reads it: without a time zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(str(text))
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _fits(value: Any, kind: str) -> bool:
    """Whether Spark reads this JSON value as the type; False where that is not certain."""
    if kind not in _CHECKED:
        return False
    if kind in ("string", "timestamp"):
        return True
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind in ("bigint", "long"):
        return isinstance(value, int) and abs(value) <= _MAX_LONG
    return isinstance(value, int | float)
