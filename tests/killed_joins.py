"""Visits and ads for joins that are killed, and what the join must have written."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

from tests.waiting import wait_until

from headwater.kafka import RecordProducer, read_topic
from headwater.model import Record
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress

# Pages repeat after 25 minutes, when earlier ads can't match any more.
PAGES = 3000

# The offsets of a visit and of its ad, by visit id.
Pairs = dict[bytes, tuple[int, int | None]]


def instant(seconds: float) -> str:
    return (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()


def fill(visits: str, ads: str, count: int, settings: Settings) -> Pairs:
    """Write visits, every second one with an ad; returns the offsets of both by visit id.

    A last visit and a last ad, a day later, advance the watermark past all others.
    """
    expected: Pairs = {}
    with RecordProducer(settings.kafka) as producer:
        for number in range(count):
            page, at = f"page_{number % PAGES}", number / 2
            visit = {"visit_id": f"visit-{number}", "event_time": instant(at), "page": page}
            producer.send(visits, json.dumps(visit).encode(), partition=0)
            with_ad = number % 2 == 0
            expected[f"visit-{number}".encode()] = (number, number // 2 if with_ad else None)
            if with_ad:
                shown = instant(at + (number % 4) * 60)
                ad = {"page": page, "display_time": shown, "campaign_name": str(number)}
                producer.send(ads, json.dumps(ad).encode(), partition=0)
        last = {"visit_id": "last", "event_time": instant(86400), "page": "last"}
        producer.send(visits, json.dumps(last).encode(), partition=0)
        ad = {"page": "none", "display_time": instant(86400), "campaign_name": "last"}
        producer.send(ads, json.dumps(ad).encode(), partition=0)
    return expected


def wait_for_commit(batch: int, checkpoint: Path, job: Popen[bytes], log: Path) -> None:
    def committed() -> bool:
        assert job.poll() is None, log.read_text()
        return read_progress(checkpoint).committed >= batch

    wait_until(committed, 150, f"the commit of batch {batch}", log.read_text)


def check_rows(output: str, visits: str, ads: str, expected: Pairs, settings: Settings) -> None:
    """Each row is in the topic once and has its visit and its ad as parents; no other is."""
    found = Counter(map(visit_id_of, read_topic(output, settings.kafka)))
    assert found == Counter(expected.keys())
    for record in read_topic(output, settings.kafka):
        lineage = origin_of(record).lineage
        assert lineage is not None
        parents = {parent.topic: parent.offset for parent in lineage.parents}
        visit, ad = expected[visit_id_of(record)]
        assert parents == ({visits: visit} if ad is None else {visits: visit, ads: ad})
        assert (b"campaign_name" in (record.value or b"")) == (ad is not None)
    for side in ("-late", "-dead-letter"):
        assert list(read_topic(output + side, settings.kafka)) == []


def visit_id_of(record: Record) -> bytes:
    return str(json.loads(record.value or b"")["visit_id"]).encode()


def written_before(log: str) -> int:
    """The most records of an interrupted batch that its next run found: proof of the fault."""
    found = re.findall(r"was interrupted; (\d+) of its records are already written", log)
    return max(map(int, found), default=0)
