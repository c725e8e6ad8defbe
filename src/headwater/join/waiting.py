"""Explains why a record of a join has no output: it waits in the state, or has no match.

Reads the rule and the watermark from the checkpoint, and the record itself. Needs no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.join.rule import JoinRule, JoinSide
from headwater.join.rule_file import read_rule
from headwater.join.spans import span_text
from headwater.join.times import event_time, key_of
from headwater.kafka import RecordReader
from headwater.model import Address, Record
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState, read_progress, read_watermark
from headwater.tracing import Fate, Verdict


class JoinExplainer:
    """Explains records of watermark joins, for `why_missing`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def explain(
        self, record: Address, output: str, checkpoint: CheckpointState | None
    ) -> Verdict | None:
        """The verdict on a record that was read and has no output and no dead letter."""
        judge = None if checkpoint is None else self.judge(record.topic, checkpoint)
        if judge is None:
            return None
        if judge.side.parse is not None:
            return Verdict(record, output, Fate.UNCERTAIN, judge.uncertain(record))
        content = self._fetch(record)
        fate = None if content is None else judge(content)
        if content is None or fate is None:
            return None
        return Verdict(record, output, fate, judge.sentence(content))

    def judge(self, source: str, checkpoint: CheckpointState) -> _Judge | None:
        """A function that gives the fate of records of one side at this checkpoint."""
        rule = read_rule(checkpoint.path)
        side = None if rule is None else rule.side(source)
        if rule is None or side is None:
            return None
        progress = read_progress(checkpoint.path)
        return _Judge(
            rule,
            side,
            batch=checkpoint.batch,
            watermark=read_watermark(checkpoint.path),
            batch_running=progress.cut_off is not None,
        )

    def remark(
        self,
        record: Address,
        output: str,
        outputs: Sequence[Record],
        checkpoint: CheckpointState | None,
    ) -> str | None:
        """A remark on a record that was written without a match."""
        rule = None if checkpoint is None else read_rule(checkpoint.path)
        side = None if rule is None else rule.side(record.topic)
        if rule is None or side is None or side.topic not in rule.preserved:
            return None
        if not all(map(_has_one_parent, outputs)):
            return None
        content = self._fetch(record)
        if content is not None and content.value is None:
            # A tombstone, which is passed on.
            return None
        lower, upper = map(span_text, rule.bounds_of(side))
        other = rule.other(side).topic
        return f"unmatched: {other} had no match within {lower} to {upper} after its {side.time}"

    def _fetch(self, record: Address) -> Record | None:
        with RecordReader(self._settings.kafka) as reader:
            result = reader.fetch(record)
        return result if isinstance(result, Record) else None


@dataclass(frozen=True)
class _Judge:
    """One side of a join at a checkpoint. `batch_running`: the batch with this watermark is not
    committed yet."""

    rule: JoinRule
    side: JoinSide
    batch: int
    watermark: datetime
    batch_running: bool

    def __call__(self, record: Record) -> Fate | None:
        due = self._due(record)
        if due is None:
            return None
        if self.watermark <= due:
            return Fate.WAITING
        if self._may_be_dropped:
            return Fate.UNMATCHED
        # The batch with this watermark writes it, matched or not; after that it is missing.
        return Fate.WAITING if self.batch_running else None

    @property
    def _may_be_dropped(self) -> bool:
        """Whether records of this side may have no output: those without a match, or those that
        were not chosen."""
        return self.side.topic not in self.rule.preserved or self._may_be_passed_over

    @property
    def _may_be_passed_over(self) -> bool:
        return self.rule.matches != "all" and self.side.topic != self.rule.primary.topic

    def sentence(self, record: Record) -> str:
        """An explanation of the fate."""
        other = self.rule.other(self.side).topic
        at, due = event_time(record.value, self.side), self._due(record)
        assert at is not None and due is not None  # noqa: S101, PT018
        about, key = f"{record.address} of {_text(at)}", self._key(record)
        if self.watermark <= due:
            return (
                f"{about} waits in the state for a match on {key} in {other}, until the "
                f"watermark is past {_text(due)}; it is {_text(self.watermark)} after batch "
                f"{self.batch}"
            )
        if not self._may_be_dropped:
            return f"{about} has no match and is written in batch {self.batch}, which is running"
        passed = ", or another record was chosen" if self._may_be_passed_over else ""
        return (
            f"{about} matched no record on {key} in {other} until the watermark was past "
            f"{_text(due)}{passed}"
        )

    def uncertain(self, record: Address) -> str:
        """An explanation for a record in a format that only the job can read."""
        other = self.rule.other(self.side).topic
        return (
            f"{record} waits in the state for a match in {other}, or had none: only the job can "
            f"read its time; the watermark is {_text(self.watermark)} after batch {self.batch}"
        )

    def _due(self, record: Record) -> datetime | None:
        at = event_time(record.value, self.side)
        try:
            return None if at is None else self.rule.written_until(self.side, at)
        except OverflowError:
            # Beyond the years of Python.
            return None

    def _key(self, record: Record) -> str:
        """Such as `page 'home'`."""
        fields = key_of(record.value, self.side)
        return ", ".join(
            f"{name} {value!r}" if isinstance(value, str) else f"{name} {json.dumps(value)}"
            for name, value in fields.items()
        )


def _has_one_parent(record: Record) -> bool:
    lineage = origin_of(record).lineage
    return lineage is not None and lineage.exact and len(lineage.parents) == 1


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
