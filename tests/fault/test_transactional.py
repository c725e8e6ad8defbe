"""The transactional mode: tasks that are rerun, on any executor, write nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.kills import wait_for_growth
from tests.support import alive, environment

from headwater.kafka import end_offsets
from headwater.settings import Settings
from headwater.testing import Ledger
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

RECORDS = 100_000

# A job with a Python function; the first worker that has processed half of its rows kills itself.
DYING_WORKER = """
import os, signal, sys, time
from pathlib import Path
from headwater import LineageJob

source, target, checkpoint, marker = sys.argv[1:]

def half_way(batches):
    seen = 0
    for batch in batches:
        seen += batch.num_rows
        if seen > 20_000 and not Path(marker).exists():
            Path(marker).touch()
            time.sleep(3)  # until the previous records are in flight
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch

job = LineageJob("dying", checkpoint=Path(checkpoint), delivery="transactional")
rows = job.read(source).select("key", "value", "lineage")
rows = rows.mapInArrow(half_way, rows.schema)
job.write(rows, target, trigger={"availableNow": True})
"""


def run_script(
    text: str, arguments: list[str], settings: Settings, folder: Path, **variables: str
) -> subprocess.Popen[bytes]:
    script = folder / "job.py"
    script.write_text(text)
    with (folder / "job.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdout=log,
            stderr=log,
            env=environment(settings, **variables),
        )


def test_a_killed_python_worker_is_retried_without_loss_or_duplicates(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    ledger = Ledger(source, broker)
    ledger.write(RECORDS)
    marker = tmp_path / "killed"
    arguments = [source, target, str(tmp_path / "checkpoint"), str(marker)]
    with ledger.watch(target) as watch:
        job = run_script(
            DYING_WORKER, arguments, broker, tmp_path, HEADWATER_SPARK__MASTER="local[2,3]"
        )
        assert job.wait(200) == 0, (tmp_path / "job.log").read_text()
        assert marker.exists(), "no worker was killed"
        report = ledger.check(target)
        assert report.perfect, report
        during = watch.report()
    assert (during.duplicates, during.out_of_order, during.damaged) == (0, 0, 0)
    # The killed attempt had written: its aborted records have offsets.
    assert sum(end_offsets(target, broker.kafka).values()) > RECORDS + 1000


COPY = """
import sys
from pathlib import Path
from headwater import LineageJob

source, target, checkpoint = sys.argv[1:]
job = LineageJob("copy", checkpoint=Path(checkpoint), delivery="transactional")
rows = job.read(source).select("key", "value", "lineage")
job.write(rows, target, trigger={"availableNow": True})
"""


def executors_of(job: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process(job.pid).children(recursive=True)
        if alive(process) and "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    ]


def test_an_executor_killed_in_the_middle_of_a_batch_causes_no_loss_and_no_duplicates(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=4), make_topic("out", partitions=4)
    ledger = Ledger(source, broker)
    ledger.write(RECORDS)
    arguments = [source, target, str(tmp_path / "checkpoint")]
    cluster = {"HEADWATER_SPARK__MASTER": "local-cluster[2,1,1024]"}
    job = run_script(COPY, arguments, broker, tmp_path, **cluster)
    log = tmp_path / "job.log"
    wait_for_growth(target, broker, job, log)
    victim = executors_of(job)[0]
    victim.kill()
    assert job.wait(200) == 0, log.read_text()
    report = ledger.check(target)
    assert report.perfect, report
