"""Keys whose records are out of order, missing or duplicated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headwater.model import Address
from headwater.tracing.node import bytes_as_json
from headwater.tracing.offsets import HashTable

# Keys that are listed; further keys are only counted.
MAX_KEYS = 100
MAX_EXAMPLES_PER_KEY = 3


class Violation(Enum):
    """What can be wrong with the order of a key.

    An inversion is an output that comes after the output of a later record; a gap is a record of
    the source without an output; a duplicate is an output that was written before.
    """

    INVERSION = "inversion"
    GAP = "gap"
    DUPLICATE = "duplicate"

    @property
    def plural(self) -> str:
        return f"{self.value}s"


@dataclass(frozen=True, slots=True)
class RecordFinding:
    """A record, its parent, and for an inversion the later parent that it came `after`."""

    record: Address
    parent: Address | None = None
    after: Address | None = None
    key: bytes | None = None

    def as_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {"record": str(self.record)}
        if self.parent is not None:
            content["parent"] = str(self.parent)
        if self.after is not None:
            content |= {"after": str(self.after), "key": bytes_as_json(self.key)}
        return content


@dataclass
class KeyReport:
    """The violations of one key: counts, and the first few of each kind."""

    key: bytes | None
    counts: Counter[Violation] = field(default_factory=Counter)
    examples: dict[Violation, list[RecordFinding]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        examples = {
            kind.plural: [finding.as_json() for finding in findings]
            for kind, findings in self.examples.items()
        }
        counts = {kind.plural: self.counts[kind] for kind in Violation}
        return {"key": bytes_as_json(self.key), **counts, "examples": examples}


class KeyFindings:
    """Keys with violations: their number, and reports of the first ones.

    Each further key takes some dozens of bytes.
    """

    def __init__(self) -> None:
        self.affected = 0
        self.first: dict[bytes | None, KeyReport] = {}
        self._seen = HashTable()

    def add(self, kind: Violation, key: bytes | None, finding: RecordFinding) -> None:
        if self._seen.raise_to(hash(key), 0) is None:
            self.affected += 1
        report = self.first.get(key)
        if report is None:
            if len(self.first) == MAX_KEYS:
                return
            report = self.first[key] = KeyReport(key)
        report.counts[kind] += 1
        examples = report.examples.setdefault(kind, [])
        if len(examples) < MAX_EXAMPLES_PER_KEY:
            examples.append(finding)

    def as_json(self) -> dict[str, Any]:
        keys = [report.as_json() for report in self.first.values()]
        return {"keys_affected": self.affected, "keys": keys}
