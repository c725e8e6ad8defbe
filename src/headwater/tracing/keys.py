"""Which keys are out of order, and by which records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headwater.model import Address
from headwater.tracing.jsonable import bytes_as_json
from headwater.tracing.offsets import HashTable

# Keys that are told one by one; those beyond are counted.
KEYS_KEPT = 100
EXAMPLES_OF_A_KEY = 3


class Violation(Enum):
    """What can be wrong with the order of a key.

    An inversion is an output that comes after one of a later record; a gap a record of the
    source that has no output; a duplicate an output that was there before.
    """

    INVERSION = "inversion"
    GAP = "gap"
    DUPLICATE = "duplicate"

    @property
    def plural(self) -> str:
        return f"{self.value}s"


@dataclass(frozen=True, slots=True)
class Finding:
    """A record of the topic, its parent, and the parent that came `after` which it should not."""

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
    """What is wrong with one key: how often, and the first few of each kind."""

    key: bytes | None
    counts: Counter[Violation] = field(default_factory=Counter)
    examples: dict[Violation, list[Finding]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        examples = {
            kind.plural: [finding.as_json() for finding in findings]
            for kind, findings in self.examples.items()
        }
        counts = {kind.plural: self.counts[kind] for kind in Violation}
        return {"key": bytes_as_json(self.key), **counts, "examples": examples}


class KeyFindings:
    """Keys that are not in order: their number, and what is wrong with the first of them.

    Bounded: some dozens of bytes for each further key.
    """

    def __init__(self) -> None:
        self.affected = 0
        self.first: dict[bytes | None, KeyReport] = {}
        self._seen = HashTable()

    def take(self, kind: Violation, key: bytes | None, finding: Finding) -> None:
        if self._seen.raise_to(hash(key), 0) is None:
            self.affected += 1
        report = self.first.get(key)
        if report is None:
            if len(self.first) == KEYS_KEPT:
                return
            report = self.first[key] = KeyReport(key)
        report.counts[kind] += 1
        examples = report.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES_OF_A_KEY:
            examples.append(finding)

    def as_json(self) -> dict[str, Any]:
        keys = [report.as_json() for report in self.first.values()]
        return {"keys_affected": self.affected, "keys": keys}
