"""Kills in the middle of batches of a join: each row is written once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen

import pytest
from tests.kills import kill, start_job, wait_for_growth
from tests.support import Headwater
from tests.waiting import wait_until

from headwater.kafka import RecordProducer, read_topic
from headwater.model import Record
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

VISITS = 24_000
# Pages repeat after 25 minutes, when earlier ads can't match any more.
PAGES = 3000
KILLS = 2


def instant(seconds: float) -> str:
    return (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()


def fill(visits: str, ads: str, settings: Settings) -> dict[bytes, tuple[int, int | None]]:
    """Write visits, every second one with an ad; returns the offsets of both by visit id.

    A last visit and a last ad, a day later, advance the watermark past all others.
    """
    expected: dict[bytes, tuple[int, int | None]] = {}
    with RecordProducer(settings.kafka) as producer:
        for number in range(VISITS):
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


def enrichment(visits: str, ads: str) -> list[str]:
    """Each visit, with its ad if there is one."""
    return ["visits_ads_enrichment_job", "--visits-topic", visits, "--ads-topic", ads]


def first_visit_of_each_ad(visits: str, ads: str) -> list[str]:
    """Each ad with its visit: by first parents, which are ads."""
    options = ["--left", visits, "--left-key", "page", "--left-time", "event_time"]
    options += ["--left-values", "visit_id", "--right", ads, "--right-key", "page"]
    options += ["--right-time", "display_time", "--right-values", "campaign_name"]
    options += ["--within", "0 seconds", "2 minutes", "--how", "right_outer", "--matches", "first"]
    return ["watermark_join_job", *options]


@pytest.mark.parametrize("join", [enrichment, first_visit_of_each_ad])
def test_a_killed_join_writes_every_row_once(
    broker: Settings,
    headwater: Headwater,
    make_topic: TopicMaker,
    tmp_path: Path,
    join: Callable[[str, str], list[str]],
) -> None:
    visits, ads = make_topic("visits", partitions=1), make_topic("ads", partitions=1)
    output = make_topic("out")
    expected = fill(visits, ads, broker)
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "job.log"
    name, *options = join(visits, ads)
    options += [
        "--output-topic",
        output,
        "--checkpoint",
        str(checkpoint),
        "--max-records-per-batch",
        str(VISITS // 6),
    ]
    interrupted = 0
    for batch in range(KILLS):
        job = start_job(broker, options, log, name)
        # The next batch has state from the previous ones.
        wait_for_commit(batch, checkpoint, job, log)
        wait_for_growth(output, broker, job, log)
        kill(job)
        interrupted += read_progress(checkpoint).cut_off is not None
    last = headwater("run", name, *options, "--available-now")
    assert last.returncode == 0, last.stderr

    found = Counter(map(visit_id_of, read_topic(output, broker.kafka)))
    alone = join is enrichment
    assert found == Counter(key for key, (_, ad) in expected.items() if alone or ad is not None)
    for record in read_topic(output, broker.kafka):
        lineage = origin_of(record).lineage
        assert lineage is not None
        parents = {parent.topic: parent.offset for parent in lineage.parents}
        visit, ad = expected[visit_id_of(record)]
        assert parents == ({visits: visit} if ad is None else {visits: visit, ads: ad})
        assert (b"campaign_name" in (record.value or b"")) == (ad is not None)
    for side in ("-late", "-dead-letter"):
        assert list(read_topic(output + side, broker.kafka)) == []
    # Proof of the fault: batches were interrupted after some of their rows were written.
    assert interrupted > 0, "no kill hit a batch"
    log.write_text(log.read_text() + last.stderr)
    written = re.findall(
        r"was interrupted; (\d+) of its records are already written", log.read_text()
    )
    assert max(map(int, written), default=0) > 0, log.read_text()


def visit_id_of(record: Record) -> bytes:
    return str(json.loads(record.value or b"")["visit_id"]).encode()
