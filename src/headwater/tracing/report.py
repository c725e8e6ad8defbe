"""The report of `verify`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headwater.model import Address
from headwater.tracing.keys import KeyFindings, RecordFinding, Violation


class CoverageState(Enum):
    """How much of a source is accounted for in its output topic."""

    FULL = "full"
    PARTIAL = "partial"
    MISSING = "missing"
    EMPTY = "empty"
    CORRUPT = "corrupt"
    # Nothing is missing; of some records is only known that an output may be made from them.
    WITHIN = "within ranges"
    # Headers count parents that they do not list, or there may be others; the missing ones may be
    # among those.
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Records of the source without an output: `first` to `last`, both included."""

    first: Address
    last: Address


@dataclass
class VerifyReport:
    """A topic compared with its source.

    `expected` = `found` + `within` + `dead_lettered` + `filtered` + `waiting` + `missing`.

    Records of the source:
        expected: all, when the call began.
        found: with an output that names them.
        within: without, in a range that contains parents of an output: that one may be made from
            them, or not.
        dead_lettered: without an output, in the dead letter topic or the topic of late records.
        filtered: without either; the job has read them, and it filters or they found no match.
        waiting: in the state of a join.
        missing: the rest, in `gaps` ranges of offsets.

    Records of the topic:
        scanned: all.
        duplicates: their record id occurred before, with the same key and value.
        out_of_order: an earlier record of the same key was made from a later parent. Not checked
            for records `without_key`.
        without_lineage: no readable lineage header; `unreadable` have a damaged one.
        unknown_parents: a parent was never in the source.
        made_from_ranges: their parents are within ranges; they are checked neither for duplicates
            nor for order.
        more_parents: they may have parents that are not known: missing records may be among those.

    Parents:
        gone_parents: no longer in the source.
        unlisted_parents: counted and not listed in headers: up to this many missing records may
            have an output.
        other_sources: further topics that parents are in.

    `keys` lists the keys with inversions, gaps or duplicates. `allow_ranges` is what the caller has
    stated: records within ranges count as found.
    """

    topic: str
    source: str
    expected: int = 0
    found: int = 0
    within: int = 0
    missing: int = 0
    dead_lettered: int = 0
    filtered: int = 0
    waiting: int = 0
    gaps: int = 0
    scanned: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    without_key: int = 0
    without_lineage: int = 0
    unreadable: int = 0
    unknown_parents: int = 0
    made_from_ranges: int = 0
    more_parents: int = 0
    gone_parents: int = 0
    unlisted_parents: int = 0
    other_sources: list[str] = field(default_factory=list)
    gap_examples: list[MissingRange] = field(default_factory=list)
    examples: dict[str, list[RecordFinding]] = field(default_factory=dict)
    keys: KeyFindings = field(default_factory=KeyFindings)
    allow_ranges: bool = False

    @property
    def coverage(self) -> float:
        """The share of the source that is accounted for; 0 for an empty source."""
        return (self.expected - self.missing) / self.expected if self.expected else 0.0

    @property
    def violations(self) -> dict[Violation, int]:
        """Number of violations by kind."""
        return {
            Violation.INVERSION: self.out_of_order,
            Violation.GAP: self.missing,
            Violation.DUPLICATE: self.duplicates,
        }

    @property
    def surely_missing(self) -> int:
        """Missing records that neither unlisted nor unknown parents can explain."""
        return 0 if self.more_parents else max(self.missing - self.unlisted_parents, 0)

    @property
    def state(self) -> CoverageState:
        if self.unreadable or self.unknown_parents:
            return CoverageState.CORRUPT
        if not self.expected:
            return CoverageState.EMPTY
        if not self.missing:
            return CoverageState.WITHIN if self.within else CoverageState.FULL
        if not self.surely_missing:
            return CoverageState.UNCERTAIN
        return CoverageState.MISSING if self.missing == self.expected else CoverageState.PARTIAL

    @property
    def passed(self) -> bool:
        """Everything accounted for, once, in order, with its lineage; records within ranges only
        if the caller allows it."""
        wrong = self.duplicates + self.out_of_order + self.without_lineage
        enough = {CoverageState.FULL, *([CoverageState.WITHIN] if self.allow_ranges else [])}
        return self.state in enough and not wrong

    def as_json(self) -> dict[str, Any]:
        content = {
            name: value
            for name, value in vars(self).items()
            if name not in {"examples", "gap_examples", "keys"}
        }
        content["surely_missing"] = self.surely_missing
        content |= {"coverage": self.coverage, "state": self.state.value, "passed": self.passed}
        examples: dict[str, Any] = {
            kind: [finding.as_json() for finding in findings]
            for kind, findings in self.examples.items()
        }
        gaps = [{"first": str(gap.first), "last": str(gap.last)} for gap in self.gap_examples]
        return {**content, "examples": {**examples, "gaps": gaps}, **self.keys.as_json()}
