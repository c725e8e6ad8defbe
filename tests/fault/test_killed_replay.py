"""A replay whose driver is killed at two points completes with the same result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.kills import kill, records_in, wait_for_growth
from tests.support import environment

from headwater.jobs import data_synchronization_job
from headwater.jobs.visits_decorator_job import VISITS_DECORATOR
from headwater.kafka import read_topic
from headwater.model.header import origin_of
from headwater.replay.checking import check_replay
from headwater.replay.folder import ReplayFolder, all_replays
from headwater.replay.operation import replay
from headwater.replay.request import Request
from headwater.replay.selection import Selection
from headwater.settings import Settings
from headwater.testing import Ledger
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(400)]

RECORDS = 100_000
# Two steps, each long enough to be killed in the middle.
STEP = 60_000


def start(
    settings: Settings, source: str, target: str, log: Path, **more: str
) -> subprocess.Popen[bytes]:
    ranges = json.dumps({source: {"0": [-2, -1], "1": [-2, -1]}})
    command = [sys.executable, "-m", "headwater", "replay", "visits_decorator"]
    variables = {"HEADWATER_REPLAY__STEP_RECORDS": str(STEP), **more}
    with log.open("ab") as output:
        return subprocess.Popen(
            [*command, "--offsets", ranges, "--to", target, "--job-version", "v1.0.0"],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=environment(settings, **variables),
        )


def kill_in_the_middle(
    job: subprocess.Popen[bytes], target: str, settings: Settings, log: Path
) -> None:
    """Kill driver and JVM as soon as the target grows."""
    try:
        wait_for_growth(target, settings, job, log)
    finally:
        kill(job)


def test_a_replay_that_is_killed_twice_writes_every_record_once_and_in_order(
    broker: Settings, spark: SparkSession, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    settings = broker.model_copy(update={"home": tmp_path / "home"})
    ledger = Ledger(source, settings)
    ledger.write(RECORDS)
    data_synchronization_job.main.main(
        ["--available-now", "--quiet", "--input-topic", source], standalone_mode=False, obj=settings
    )
    log = tmp_path / "replay.log"

    # The first step is written, but not yet recorded.
    fault = {"HEADWATER_TESTING__FAULT_POINTS": "after_replay_step=kill"}
    job = start(settings, source, target, log, **fault)
    assert job.wait(150) == -signal.SIGKILL, log.read_text()
    (folder,) = all_replays(settings)
    assert folder.progress().cut_off == 0
    written = records_in(target, settings)
    assert 0 < written < RECORDS

    # The second step is interrupted; new records of the topic are not part of the plan.
    ledger.write(100)
    kill_in_the_middle(start(settings, source, target, log), target, settings, log)
    assert folder.progress().cut_off == 1
    partial = records_in(target, settings)
    assert written < partial < RECORDS

    request = Request(
        name="visits_decorator",
        transform=VISITS_DECORATOR,
        selection=Selection(source, {0: ((-2, -1),), 1: ((-2, -1),)}),
        job_version="v1.0.0",
        target=target,
    )
    outcome = replay(request, settings, lambda: spark)
    assert outcome.folder.replay_id == folder.replay_id
    check_result(folder, target, settings, written)


def check_result(folder: ReplayFolder, target: str, settings: Settings, found: int) -> None:
    manifest = folder.manifest()
    assert manifest is not None
    assert manifest.plan.steps == 2
    assert manifest.result.read.records == manifest.result.outputs.records == RECORDS
    assert manifest.result.already_written > found
    newest: dict[tuple[int, int], int] = {}
    seen = set()
    for record in read_topic(target, settings.kafka):
        lineage = origin_of(record).lineage
        assert lineage is not None
        (parent,) = lineage.parents
        assert parent not in seen
        seen.add(parent)
        partitions = (record.address.partition, parent.partition)
        assert newest.get(partitions, -1) < parent.offset
        newest[partitions] = parent.offset
    assert len(seen) == RECORDS
    check = check_replay(folder, settings, _no_spark)
    assert check.findings == []


def _no_spark() -> SparkSession:
    raise AssertionError("a check of offsets and topics needs no Spark")
