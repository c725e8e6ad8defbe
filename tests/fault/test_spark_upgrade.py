"""A job is killed in the middle of a batch and goes on with a later Spark: nothing is lost, nothing
is written twice."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.killed_joins import check_rows, fill, wait_for_commit, written_before
from tests.kills import kill, start_job, wait_for_growth
from tests.lines.environments import python_of

from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing import Ledger
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

RECORDS = 30_000
VISITS = 12_000

# The Spark that is killed, and the one that goes on; None is that of the tests.
upgrade = pytest.mark.parametrize(
    ("before", "after"), [("3.5", "4.0"), ("4.0", None)], ids=["3.5 to 4.0", "4.0 to 4.1"]
)


def finish(
    after: str | None, settings: Settings, options: Sequence[str], log: Path, name: str
) -> None:
    python = python_of(after) if after else sys.executable
    job = start_job(settings, [*options, "--available-now"], log, name, python)
    assert job.wait(300) == 0, log.read_text()


@upgrade
def test_a_decorator_goes_on_with_a_later_spark(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path, before: str, after: str | None
) -> None:
    source, target = make_topic("in"), make_topic("out")
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "job.log"
    options = ["--input-topic", source, "--output-topic", target, "--checkpoint", str(checkpoint)]
    ledger = Ledger(source, broker)
    ledger.write(RECORDS)
    job = start_job(broker, options, log, python=python_of(before))
    wait_for_growth(target, broker, job, log)
    kill(job)
    assert read_progress(checkpoint).cut_off == 0, "the kill hit no batch"
    ledger.write(RECORDS)
    finish(after, broker, options, log, "visits_decorator_job")
    report = ledger.check(target)
    assert report.perfect, report
    assert written_before(log.read_text()) > 0, log.read_text()


@upgrade
def test_a_join_goes_on_with_a_later_spark_and_its_state(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path, before: str, after: str | None
) -> None:
    visits, ads = make_topic("visits", partitions=1), make_topic("ads", partitions=1)
    output = make_topic("out")
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "job.log"
    expected = fill(visits, ads, VISITS, broker)
    options = ["--visits-topic", visits, "--ads-topic", ads, "--output-topic", output]
    options += ["--checkpoint", str(checkpoint), "--max-records-per-batch", str(VISITS // 6)]
    name = "visits_ads_enrichment_job"
    job = start_job(broker, options, log, name, python_of(before))
    # The batch that is killed has state from an earlier one, of the earlier Spark.
    wait_for_commit(0, checkpoint, job, log)
    wait_for_growth(output, broker, job, log)
    kill(job)
    assert (read_progress(checkpoint).cut_off or 0) > 0, "the kill hit no batch with state"
    finish(after, broker, options, log, name)
    check_rows(output, visits, ads, expected, broker)
    assert written_before(log.read_text()) > 0, log.read_text()
