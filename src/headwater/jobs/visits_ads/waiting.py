"""Why a record that a join has read has no output: it waits in the state, or found no match.

Reads the rule and the watermark beside and in the checkpoint, and the record itself. No Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.jobs.visits_ads.notes import read_rule
from headwater.jobs.visits_ads.rule import JoinRule
from headwater.jobs.visits_ads.times import AD_FIELDS, VISIT_FIELDS, event_time
from headwater.kafka import RecordReader
from headwater.model import Address, Record
from headwater.model.headers import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState, read_progress, read_watermark
from headwater.tracing import Fate, Verdict


class JoinExplainer:
    """Knows the jobs that join visits and ads; asked by `why_missing`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def explain(
        self, record: Address, output: str, reading: CheckpointState | None
    ) -> Verdict | None:
        """What became of a record that was read and has neither output nor been set aside."""
        judge = None if reading is None else self.judge(record.topic, reading)
        found = self._fetch(record) if judge is not None else None
        fate = judge(found) if judge is not None and found is not None else None
        if judge is None or found is None or fate is None:
            return None
        return Verdict(record, output, fate, judge.sentence(found))

    def judge(self, source: str, reading: CheckpointState) -> _Judge | None:
        """What becomes of records of one side, as the checkpoint is now."""
        rule = read_rule(reading.checkpoint)
        if rule is None or source not in (rule.visits, rule.ads):
            return None
        progress = read_progress(reading.checkpoint)
        return _Judge(
            rule,
            is_visit=source == rule.visits,
            batch=reading.batch,
            watermark=read_watermark(reading.checkpoint),
            at_work=progress.cut_off is not None,
        )

    def remark(
        self,
        record: Address,
        output: str,
        outputs: Sequence[Record],
        reading: CheckpointState | None,
    ) -> str | None:
        """That a visit came out alone, without an ad."""
        rule = None if reading is None else read_rule(reading.checkpoint)
        if rule is None or record.topic != rule.visits:
            return None
        found = [origin_of(each).lineage for each in outputs]
        if any(lineage is None or len(lineage.parents) != 1 for lineage in found):
            return None
        return f"unmatched: no ad came for it within {rule.bounds_text}"

    def _fetch(self, record: Address) -> Record | None:
        with RecordReader(self._settings.kafka) as reader:
            found = reader.fetch(record)
        return found if isinstance(found, Record) else None


@dataclass(frozen=True)
class _Judge:
    """One side of a join, at one moment; `at_work`: a batch that this watermark asks for is not
    done yet."""

    rule: JoinRule
    is_visit: bool
    batch: int
    watermark: datetime
    at_work: bool

    def __call__(self, record: Record) -> Fate | None:
        due = self._due(record)
        if due is None:
            return None
        if self.watermark <= due:
            return Fate.WAITING
        if self.is_visit:
            # Matched or not, the batch of this watermark brings it out; behind it, it is missing.
            return Fate.WAITING if self.at_work else None
        return Fate.UNMATCHED

    def sentence(self, record: Record) -> str:
        """Of a record that is judged."""
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
            return f"{about} found no ad and comes out in batch {self.batch}, which runs"
        return (
            f"{about} was not the match of any visit on page {page!r} by the time the watermark "
            f"was past {_text(due)}"
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
