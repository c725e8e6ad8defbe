"""A plan: which records go through which transform to which target, and the replay's id.

Pure. The id is derived from everything that determines the output and from nothing else: not
from the clock, and not from how the archive's files were compacted. The same replay has the same
id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from headwater.errors import InputError
from headwater.replay.coverage import SelectionGap
from headwater.replay.selection import Range
from headwater.storage.offset_ranges import OffsetRanges

FORMAT_VERSION = 1

_TABLE_PREFIX = "table:"
_ID_DIGITS = 16


@dataclass(frozen=True)
class Plan:
    """What a replay does. `offsets` are narrowed to the first and last matching record."""

    # The name of the transform; the key in JSON is `logic`.
    transform: str
    job_name: str
    job_version: str
    topic: str
    offsets: Mapping[int, OffsetRanges]
    # How many records match, by partition.
    records: Mapping[int, int]
    # A topic, or `table:` and the folder of a Delta table.
    target: str
    # The conditions on rows: times, key, predicate.
    filters: Mapping[str, Any] = field(default_factory=dict)
    # The schema of the JSON value that the predicate was checked with.
    fields: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[SelectionGap, ...] = ()
    skip_existing: bool = False
    # How often the records will have been replayed after this replay: the loop guard.
    replay_count: int = 1
    # The delivery mode into a topic; a replay is resumed in the mode that it was started in.
    delivery: str = "exactly-once"
    steps: int = 1
    # A repetition with --again has the next number.
    attempt: int = 1

    @property
    def replay_id(self) -> str:
        """16 hexadecimal digits, and the attempt if it is not the first."""
        text = canonical(self._decisive())
        digest = hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
        return digest if self.attempt == 1 else f"{digest}-{self.attempt}"

    @property
    def record_count(self) -> int:
        return sum(self.records.values())

    @property
    def into_table(self) -> bool:
        return self.target.startswith(_TABLE_PREFIX)

    @property
    def can_be_undone(self) -> bool:
        """Rows can be deleted from a table; records can't be deleted from a topic."""
        return self.into_table

    def with_attempt(self, attempt: int) -> Plan:
        return replace(self, attempt=attempt)

    def with_replay_count(self, replay_count: int) -> Plan:
        return replace(self, replay_count=replay_count)

    def step(self, number: int) -> dict[int, OffsetRanges]:
        """The offsets of a step: its share of every partition, in order."""
        parts = {p: slices(ranges, self.steps)[number] for p, ranges in self.offsets.items()}
        return {partition: part for partition, part in parts.items() if part}

    def as_json(self) -> dict[str, Any]:
        return {
            **self._decisive(),
            "replay_id": self.replay_id,
            "replay_count": self.replay_count,
            "delivery": self.delivery,
            "steps": self.steps,
            "attempt": self.attempt,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Plan:
        """The inverse of `as_json`.

        Raises:
            InputError: another format, or the content does not match its id.
        """
        try:
            plan = cls(
                transform=content["logic"],
                job_name=content["job_name"],
                job_version=content["job_version"],
                topic=content["topic"],
                offsets=_ranges_from_json(content["offsets"]),
                records={int(p): int(number) for p, number in content["records"].items()},
                target=content["target"],
                filters=dict(content["filters"]),
                fields=dict(content["fields"]),
                gaps=tuple(SelectionGap(content["topic"], **gap) for gap in content["gaps"]),
                skip_existing=content["skip_existing"],
                replay_count=content["replay_count"],
                delivery=content["delivery"],
                steps=content["steps"],
                attempt=content["attempt"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a plan of format {FORMAT_VERSION}: {error!r}") from None
        if plan.replay_id != content.get("replay_id") or content.get("form") != FORMAT_VERSION:
            raise InputError(
                f"the plan of replay {content.get('replay_id')} was changed: its content has the "
                f"id {plan.replay_id}"
            )
        return plan

    def _decisive(self) -> dict[str, Any]:
        """What determines the output, and with it the id."""
        return {
            "form": FORMAT_VERSION,
            "logic": self.transform,
            "job_name": self.job_name,
            "job_version": self.job_version,
            "topic": self.topic,
            "offsets": ranges_as_json(self.offsets),
            "records": {str(p): number for p, number in sorted(self.records.items())},
            "filters": {name: self.filters[name] for name in sorted(self.filters)},
            "fields": dict(sorted(self.fields.items())),
            "target": self.target,
            "gaps": [gap.as_json() for gap in self.gaps],
            "skip_existing": self.skip_existing,
        }


def steps_for(records: int, step_records: int) -> int:
    """The number of steps for these records."""
    return -(-records // step_records)


def canonical(content: Any) -> str:
    """JSON in one form only: keys sorted, no spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def table_target(path: Path) -> str:
    """The target of a plan that writes to the table in this folder."""
    return f"{_TABLE_PREFIX}{path.expanduser().absolute()}"


def table_path(target: str) -> Path:
    """The folder of the table that a target names."""
    return Path(target.removeprefix(_TABLE_PREFIX)).absolute()


def slices(offsets: OffsetRanges, number: int) -> list[OffsetRanges]:
    """`number` parts of about the same length, in order; some may be empty."""
    total = len(offsets)
    cuts = [total * index // number for index in range(number + 1)]
    return [_slice(offsets, begin, end) for begin, end in pairwise(cuts)]


def _slice(offsets: OffsetRanges, begin: int, end: int) -> OffsetRanges:
    """The offsets at the indexes `begin` to `end` of the set, without `end`."""
    pairs: list[Range] = []
    passed = 0
    for first, last in offsets.ranges():
        length = last - first + 1
        low, high = max(begin - passed, 0), min(end - passed, length)
        if low < high:
            pairs.append((first + low, first + high - 1))
        passed += length
    return OffsetRanges.of(*pairs)


def ranges_as_json(offsets: Mapping[int, OffsetRanges]) -> dict[str, list[list[int]]]:
    return {
        str(partition): [list(pair) for pair in ranges.ranges()]
        for partition, ranges in sorted(offsets.items())
    }


def _ranges_from_json(content: Mapping[str, Sequence[Sequence[int]]]) -> dict[int, OffsetRanges]:
    return {
        int(partition): OffsetRanges.of(*((first, last) for first, last in pairs))
        for partition, pairs in content.items()
    }
