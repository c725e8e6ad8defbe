"""What `verify` found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headwater.model import Address
from headwater.tracing.keys import Finding, KeyFindings, Violation


class Coverage(Enum):
    """How much of a source is accounted for in a topic made from it."""

    FULL = "full"
    PARTIAL = "partial"
    MISSING = "missing"
    EMPTY = "empty"
    CORRUPT = "corrupt"
    # Headers count parents that they do not list, and what is missing may be among those.
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Gap:
    """Records of the source without an output: from `first` up to and with `last`."""

    first: Address
    last: Address


@dataclass
class VerifyReport:
    """A topic held against its source.

    `expected` = `found` + `dead_lettered` + `filtered` + `waiting` + `missing`.

    Counted are, of the source: `expected`, its records when the call began; `found`, those with
    an output; `dead_lettered`, those without one that lie in the topic's dead letter; `filtered`,
    those without either that the job has read, if the caller says that it filters, or that found no
    match in a join; `waiting`, those that a join holds in its state; `missing`, the rest, in
    `gaps` ranges of offsets.

    Of the topic: `scanned`, its records; `duplicates`, those whose record id came before;
    `out_of_order`, those made from an earlier record than one before them of the same key (which
    records without a key are not held to: `without_key`); `without_lineage`, those without a
    readable lineage header, of which `unreadable` have one that can't be read; `unknown_parents`,
    those with a parent that the source never held; `gone_parents`, parents that are no longer in
    the source; `unlisted_parents`, parents that headers count and do not list: so many of the
    missing may have an output. `other_sources` are further topics that parents lie in.

    `keys` says which keys are not in order: whose records came twice, too late, or not at all.
    """

    topic: str
    source: str
    expected: int = 0
    found: int = 0
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
    gone_parents: int = 0
    unlisted_parents: int = 0
    other_sources: list[str] = field(default_factory=list)
    gap_examples: list[Gap] = field(default_factory=list)
    examples: dict[str, list[Finding]] = field(default_factory=dict)
    keys: KeyFindings = field(default_factory=KeyFindings)

    @property
    def coverage(self) -> float:
        """The share of the source that is accounted for; 0 where there is nothing to cover."""
        return (self.expected - self.missing) / self.expected if self.expected else 0.0

    @property
    def violations(self) -> dict[Violation, int]:
        """How often the order of a key is broken, by kind."""
        return {
            Violation.INVERSION: self.out_of_order,
            Violation.GAP: self.missing,
            Violation.DUPLICATE: self.duplicates,
        }

    @property
    def surely_missing(self) -> int:
        """The missing that are more than all parents that headers do not list."""
        return max(self.missing - self.unlisted_parents, 0)

    @property
    def state(self) -> Coverage:
        if self.unreadable or self.unknown_parents:
            return Coverage.CORRUPT
        if not self.expected:
            return Coverage.EMPTY
        if not self.missing:
            return Coverage.FULL
        if not self.surely_missing:
            return Coverage.UNCERTAIN
        return Coverage.MISSING if self.missing == self.expected else Coverage.PARTIAL

    @property
    def passed(self) -> bool:
        """Everything accounted for, once, in order, with its lineage."""
        wrong = self.duplicates + self.out_of_order + self.without_lineage
        return self.state is Coverage.FULL and not wrong

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
