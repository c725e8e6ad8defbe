"""Why a record that a join has read has no output: it waits in the state, or found no match.

Reads the rule and the watermark beside and in the checkpoint, and the record itself. No Spark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from headwater.checkpoint import Reading, read_watermark
from headwater.enrichment.notes import read_rule
from headwater.enrichment.times import AD_FIELDS, VISIT_FIELDS, event_time
from headwater.kafka import RecordReader
from headwater.model import Address, Record
from headwater.rowlineage.headers import origin_of
from headwater.settings import Settings
from headwater.trace import Fate, Verdict


class JoinExplainer:
    """Knows the jobs that join visits and ads; asked by `why_missing`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def explain(self, record: Address, output: str, reading: Reading | None) -> Verdict | None:
        """What became of a record that was read and has neither output nor been set aside."""
        rule = None if reading is None else read_rule(reading.checkpoint)
        if reading is None or rule is None or record.topic not in (rule.visits, rule.ads):
            return None
        is_visit = record.topic == rule.visits
        value = self._value(record)
        at = event_time(value, VISIT_FIELDS if is_visit else AD_FIELDS)
        if value is None or at is None:
            return None
        watermark = read_watermark(reading.checkpoint)
        due = rule.visit_waits_until(at) if is_visit else rule.ad_waits_until(at)
        page = json.loads(value)["page"]
        if watermark <= due:
            other = rule.ads if is_visit else rule.visits
            sentence = (
                f"{record} of {_text(at)} waits in the state for a match on page {page!r} in "
                f"{other}, until the watermark is past {_text(due)}; it is {_text(watermark)} "
                f"after batch {reading.batch}"
            )
            return Verdict(record, output, Fate.WAITING, sentence)
        if is_visit:
            # The state has let it go: its row comes with the batch that this watermark asks for.
            sentence = f"{record} of {_text(at)} found no ad and comes out in the next batch"
            return Verdict(record, output, Fate.WAITING, sentence)
        sentence = (
            f"{record} of {_text(at)} was not the match of any visit on page {page!r} by the time "
            f"the watermark was past {_text(due)}"
        )
        return Verdict(record, output, Fate.UNMATCHED, sentence)

    def remark(
        self, record: Address, output: str, outputs: Sequence[Record], reading: Reading | None
    ) -> str | None:
        """That a visit came out alone, without an ad."""
        rule = None if reading is None else read_rule(reading.checkpoint)
        if rule is None or record.topic != rule.visits:
            return None
        found = [origin_of(each).lineage for each in outputs]
        if any(lineage is None or len(lineage.parents) != 1 for lineage in found):
            return None
        return f"unmatched: no ad came for it within {rule.bounds_text}"

    def _value(self, record: Address) -> bytes | None:
        with RecordReader(self._settings) as reader:
            found = reader.fetch(record)
        return found.value if isinstance(found, Record) else None


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
