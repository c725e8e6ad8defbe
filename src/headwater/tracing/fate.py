"""The fates of a record, and the result of `why_missing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from headwater.model import Address, Record
from headwater.storage.checkpoint import CheckpointState


class Fate(Enum):
    """What became of a record."""

    PRESENT = "present"
    WITHIN = "within ranges"
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
    """What became of one record at one hop, into `output`.

    `evidence` are the records that show it. An `estimate` is based on the newest records of the
    output, not on the job's checkpoint. A record that `went_on` has outputs, or was redriven.
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


# The fate of a record that a job has read and that has no output; None if unknown.
Judge = Callable[[Record], Fate | None]


class Explainer(Protocol):
    """Explains for one kind of job why a record that was read has no output yet, such as a join
    that keeps it in its state.

    The first explainer with an answer is used.
    """

    def explain(
        self, record: Address, output: str, checkpoint: CheckpointState | None
    ) -> Verdict | None:
        """Called for records that the job has read and that have neither an output nor a dead
        letter. Without an answer the record counts as filtered."""

    def remark(
        self,
        record: Address,
        output: str,
        outputs: Sequence[Record],
        checkpoint: CheckpointState | None,
    ) -> str | None:
        """Called for records that have outputs: what is special about them."""

    def judge(self, source: str, checkpoint: CheckpointState) -> Judge | None:
        """The same as `explain` for many records of one topic; None for other kinds of jobs.
        Called by `verify`."""


@dataclass
class WhyMissing:
    """The last verdict about the record between its topic and `topic`.

    `hops` are all verdicts, in order.
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


def conclude(record: Address, topic: str, hops: Sequence[Verdict]) -> WhyMissing:
    """The result of all verdicts: the arrival in `topic` if there is one, else the last end."""
    arrived = [v for v in hops if v.output == topic and v.fate is Fate.PRESENT]
    ended = [v for v in hops if not v.went_on]
    return WhyMissing(record, topic, (arrived or ended[-1:])[0], list(hops))
