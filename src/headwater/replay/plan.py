"""A plan: exactly which records go through which logic to which target, and its id.

Pure. The id is made of all that decides what is written and of nothing else: no clock, no
chance, not how often the archive was compacted in between. So the same replay has the same id.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.errors import InputError
from headwater.replay.coverage import Gap
from headwater.replay.offsets import ranges_as_json, ranges_from_json, slices
from headwater.storage.offset_ranges import OffsetRanges

FORMAT_VERSION = 1
TABLE_PREFIX = "table:"
_ID_DIGITS = 16


@dataclass(frozen=True)
class Plan:
    """What a replay does. `offsets` are narrowed to those between which records match."""

    logic: str
    job_name: str
    job_version: str
    topic: str
    offsets: Mapping[int, OffsetRanges]
    # How many records match, by partition.
    records: Mapping[int, int]
    # A topic, or `table:` and the folder of a Delta table.
    target: str
    # Of the selection, what offsets do not tell: times, key, predicate.
    filters: Mapping[str, Any] = field(default_factory=dict)
    # Of a JSON value, by which the predicate was read.
    fields: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    skip_existing: bool = False
    # The loop guard: how often the records have been replayed when this is done.
    replay_count: int = 1
    # How records are handed to a topic; what was begun in one mode is finished in it.
    delivery: str = "exactly-once"
    steps: int = 1
    # The same replay asked for again is another one.
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
        return self.target.startswith(TABLE_PREFIX)

    @property
    def can_be_undone(self) -> bool:
        """Rows can be taken back out of a table; a topic forgets nothing on demand."""
        return self.into_table

    def again(self, attempt: int) -> Plan:
        return replace(self, attempt=attempt)

    def counted(self, replay_count: int) -> Plan:
        return replace(self, replay_count=replay_count)

    def step(self, number: int) -> dict[int, OffsetRanges]:
        """The offsets of a step; each takes its share of every partition, in order."""
        parts = {p: slices(of, self.steps)[number] for p, of in self.offsets.items()}
        return {partition: part for partition, part in parts.items() if part}

    def as_json(self) -> dict[str, Any]:
        """All of it, to be kept and read back."""
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
        """What `as_json` gave.

        Raises:
            InputError: another form, or it was changed by hand: its id is not its own.
        """
        try:
            plan = cls(
                logic=content["logic"],
                job_name=content["job_name"],
                job_version=content["job_version"],
                topic=content["topic"],
                offsets=ranges_from_json(content["offsets"]),
                records={int(p): int(number) for p, number in content["records"].items()},
                target=content["target"],
                filters=dict(content["filters"]),
                fields=dict(content["fields"]),
                gaps=tuple(Gap(content["topic"], **gap) for gap in content["gaps"]),
                skip_existing=content["skip_existing"],
                replay_count=content["replay_count"],
                delivery=content["delivery"],
                steps=content["steps"],
                attempt=content["attempt"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"not a plan of form {FORMAT_VERSION}: {error!r}") from None
        if plan.replay_id != content.get("replay_id") or content.get("form") != FORMAT_VERSION:
            raise InputError(
                f"the plan of replay {content.get('replay_id')} was changed: what it holds has "
                f"the id {plan.replay_id}"
            )
        return plan

    def _decisive(self) -> dict[str, Any]:
        return {
            "form": FORMAT_VERSION,
            "logic": self.logic,
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
    """How many steps so many records take; none is not taken in a step at all."""
    return -(-records // step_records)


def canonical(content: Any) -> str:
    """JSON in one form only: keys sorted, no spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
