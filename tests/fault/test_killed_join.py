"""Kills in the middle of batches of a join: each row is written once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.killed_joins import check_rows, fill, wait_for_commit, written_before
from tests.kills import kill, start_job, wait_for_growth
from tests.support import Headwater

from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

VISITS = 24_000
KILLS = 2


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
    expected = fill(visits, ads, VISITS, broker)
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

    if join is not enrichment:
        expected = {key: pair for key, pair in expected.items() if pair[1] is not None}
    check_rows(output, visits, ads, expected, broker)
    # Proof of the fault: batches were interrupted after some of their rows were written.
    assert interrupted > 0, "no kill hit a batch"
    log.write_text(log.read_text() + last.stderr)
    assert written_before(log.read_text()) > 0, log.read_text()
