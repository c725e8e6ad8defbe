"""What can become of a record, and what an answer to that question looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from headwater.model import Address, Record
from headwater.storage.checkpoint import CheckpointState

# The topic to which a job writes what came too late for it.


class Fate(Enum):
    """What became of a record."""

    PRESENT = "present"
    DEAD_LETTERED = "dead-lettered"
    LATE = "late"
    WAITING = "waiting"
    UNMATCHED = "unmatched"
    NOT_YET_READ = "not yet read"
    NEVER_READ = "never read"
    FILTERED = "filtered"
    UNCERTAIN = "uncertain"
    EXPIRED = "expired"
    NEVER_WAS = "never was"


@dataclass(frozen=True)
class Verdict:
    """What became of one record at one hop, the way into `output`.

    `evidence` are the records that show it. An `estimate` rests on the newest records of the
    output, not on the job's own checkpoint. A record that `went_on` lives in others: its outputs,
    or the copy that was redriven.
    """

    record: Address
    output: str
    fate: Fate
    sentence: str
    evidence: tuple[Address, ...] = ()
    estimate: bool = False
    went_on: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "record": str(self.record),
            "output": self.output,
            "fate": self.fate.value,
            "sentence": self.sentence,
            "evidence": [str(address) for address in self.evidence],
            "estimate": self.estimate,
        }


# What becomes of a record that a job has read and that has no output; None: nobody knows.
Judge = Callable[[Record], Fate | None]


class Explainer(Protocol):
    """Knows of a kind of job why a record that was read has no output yet, such as a join that
    holds it in its state.

    The first answer counts.
    """

    def explain(
        self, record: Address, output: str, reading: CheckpointState | None
    ) -> Verdict | None:
        """Asked for records that are neither in the output nor set aside, and that the job has
        read. Without an answer the record counts as filtered."""

    def remark(
        self,
        record: Address,
        output: str,
        outputs: Sequence[Record],
        reading: CheckpointState | None,
    ) -> str | None:
        """Asked for records that have outputs: what is special about those."""

    def judge(self, source: str, reading: CheckpointState) -> Judge | None:
        """The same as `explain`, for very many records of one topic, as things are now; None for
        jobs of other kinds. Asked by `verify`."""


@dataclass
class WhyMissing:
    """The answer: the last thing that became of the record on its way into `topic`.

    `hops` has everything that was found on the way, in order.
    """

    record: Address
    topic: str
    verdict: Verdict
    hops: list[Verdict] = field(default_factory=list)

    @property
    def fate(self) -> Fate:
        return self.verdict.fate

    @property
    def present(self) -> bool:
        return self.fate is Fate.PRESENT

    def as_json(self) -> dict[str, Any]:
        return {
            "record": str(self.record),
            "in": self.topic,
            "present": self.present,
            "fate": self.fate.value,
            "sentence": self.verdict.sentence,
            "at": {"record": str(self.verdict.record), "output": self.verdict.output},
            "evidence": [str(address) for address in self.verdict.evidence],
            "estimate": self.verdict.estimate,
            "hops": [hop.as_json() for hop in self.hops],
        }


def answer(record: Address, topic: str, hops: Sequence[Verdict]) -> WhyMissing:
    """Of all that became of a record: its arrival if it did arrive, else its last end."""
    arrived = [v for v in hops if v.output == topic and v.fate is Fate.PRESENT]
    ended = [v for v in hops if not v.went_on]
    return WhyMissing(record, topic, (arrived or ended[-1:])[0], list(hops))
