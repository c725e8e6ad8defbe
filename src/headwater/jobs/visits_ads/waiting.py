"""Explains why a record of a join has no output: it waits in the state, or has no match.

Reads the rule and the watermark from the checkpoint, and the record itself. Needs no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.jobs.visits_ads.rule import JoinRule, read_rule
from headwater.jobs.visits_ads.times import AD_FIELDS, VISIT_FIELDS, event_time
from headwater.kafka import RecordReader
from headwater.model import Address, Record
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState, read_progress, read_watermark
from headwater.tracing import Fate, Verdict


class JoinExplainer:
    """Explains records of jobs that join visits and ads, for `why_missing`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def explain(
        self, record: Address, output: str, checkpoint: CheckpointState | None
    ) -> Verdict | None:
        """The verdict on a record that was read and has no output and no dead letter."""
        judge = None if checkpoint is None else self.judge(record.topic, checkpoint)
        content = self._fetch(record) if judge is not None else None
        fate = judge(content) if judge is not None and content is not None else None
        if judge is None or content is None or fate is None:
            return None
        return Verdict(record, output, fate, judge.sentence(content))

    def judge(self, source: str, checkpoint: CheckpointState) -> _Judge | None:
        """A function that gives the fate of records of one side at this checkpoint."""
        rule = read_rule(checkpoint.path)
        if rule is None or source not in (rule.visits, rule.ads):
            return None
        progress = read_progress(checkpoint.path)
        return _Judge(
            rule,
            is_visit=source == rule.visits,
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
        """A remark on a visit that was written without an ad."""
        rule = None if checkpoint is None else read_rule(checkpoint.path)
        if rule is None or record.topic != rule.visits:
            return None
        lineages = [origin_of(each).lineage for each in outputs]
        if any(lineage is None or len(lineage.parents) != 1 for lineage in lineages):
            return None
        return f"unmatched: there was no ad within {rule.bounds_text}"

    def _fetch(self, record: Address) -> Record | None:
        with RecordReader(self._settings.kafka) as reader:
            result = reader.fetch(record)
        return result if isinstance(result, Record) else None


@dataclass(frozen=True)
class _Judge:
    """One side of a join at a checkpoint. `batch_running`: the batch with this watermark is not
    committed yet."""

    rule: JoinRule
    is_visit: bool
    batch: int
    watermark: datetime
    batch_running: bool

    def __call__(self, record: Record) -> Fate | None:
        due = self._due(record)
        if due is None:
            return None
        if self.watermark <= due:
            return Fate.WAITING
        if self.is_visit:
            # The batch with this watermark writes it, matched or not; after that it is missing.
            return Fate.WAITING if self.batch_running else None
        return Fate.UNMATCHED

    def sentence(self, record: Record) -> str:
        """An explanation of the fate."""
        at, due = self._time(record), self._due(record)
        assert record.value is not None and at is not None and due is not None  # noqa: S101, PT018
        about, page = f"{record.address} of {_text(at)}", json.loads(record.value)["page"]
        if self.watermark <= due:
            other = self.rule.ads if self.is_visit else self.rule.visits
            return (
                f"{about} waits in the state for a match on page {page!r} in {other}, until the "
                f"watermark is past {_text(due)}; it is {_text(self.watermark)} after batch "
                f"{self.batch}"
            )
        if self.is_visit:
            return f"{about} has no ad and is written in batch {self.batch}, which is running"
        return (
            f"{about} matched no visit on page {page!r} until the watermark was past {_text(due)}"
        )

    def _time(self, record: Record) -> datetime | None:
        return event_time(record.value, VISIT_FIELDS if self.is_visit else AD_FIELDS)

    def _due(self, record: Record) -> datetime | None:
        at = self._time(record)
        if at is None:
            return None
        return self.rule.visit_waits_until(at) if self.is_visit else self.rule.ad_waits_until(at)


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
