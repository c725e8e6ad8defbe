"""Kills in the middle of a batch: the output of each record is in the topic once, in order."""

from __future__ import annotations

import random
import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from tests.kills import kill, start_job, wait_for_growth
from tests.lineage_events import names, spooled, states
from tests.support import Headwater

from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing import Ledger
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

RECORDS = 100_000


@pytest.mark.parametrize(
    "with_jvm",
    [
        pytest.param(True, marks=pytest.mark.lines, id="with its JVM"),
        pytest.param(False, id="only Python"),
    ],
)
def test_a_driver_killed_in_the_middle_of_a_batch_causes_no_loss_and_no_duplicates(
    broker: Settings,
    headwater: Headwater,
    make_topic: TopicMaker,
    tmp_path: Path,
    with_jvm: bool,
) -> None:
    seed = 20240101
    chance = random.Random(seed)  # noqa: S311 - when to kill, not a secret
    source, target = make_topic("in"), make_topic("out")
    log = tmp_path / "job.log"
    checkpoint = tmp_path / "checkpoint"
    options = ["--input-topic", source, "--output-topic", target, "--checkpoint", str(checkpoint)]
    ledger = Ledger(source, broker)
    interrupted = 0
    with ledger.watch(target) as watch:
        for _ in range(2):
            ledger.write(RECORDS // 3)
            job = start_job(broker, options, log)
            wait_for_growth(target, broker, job, log)
            time.sleep(chance.uniform(0, 0.1))
            kill(job, with_jvm=with_jvm)
            interrupted += read_progress(checkpoint).cut_off is not None
        ledger.write(RECORDS - ledger.total)
        last = headwater("run", "visits_decorator_job", *options, "--available-now")
        assert last.returncode == 0, last.stderr
        log.write_text(log.read_text() + last.stderr)
        report = ledger.check(target)
        assert report.perfect, report
        during = watch.report()
    assert (during.duplicates, during.out_of_order, during.damaged) == (0, 0, 0)
    # Each start is a run; the next one ends killed ones, even without a catalog.
    events = spooled(broker, "visits_decorator")
    starts = [e for e in events if e["eventType"] == "START" and target in names(e, "outputs")]
    runs = [event["run"]["runId"] for event in starts]
    assert [states(events, run)[-1] for run in runs] == ["ABORT"] * 2 + ["COMPLETE"]
    before = [e["run"]["facets"]["headwater_previous_run"]["runId"] for e in starts[1:]]
    assert before == runs[:-1]
    # Proof of the fault: batches were interrupted after some of their records were written.
    assert interrupted > 0, f"no kill hit a batch (seed {seed})"
    written = re.findall(
        r"was interrupted; (\d+) of its records are already written", log.read_text()
    )
    if with_jvm:
        assert max(map(int, written), default=0) > 0, log.read_text()


def test_a_driver_killed_again_during_recovery_causes_no_loss_and_no_duplicates(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    checkpoint = tmp_path / "checkpoint"
    options = ["--input-topic", source, "--output-topic", target, "--checkpoint", str(checkpoint)]
    log = tmp_path / "job.log"
    ledger = Ledger(source, broker)
    for _ in range(5):
        ledger.write(RECORDS // 5)
        job = start_job(broker, options, log)
        wait_for_growth(target, broker, job, log)
        kill(job)
        if read_progress(checkpoint).cut_off is not None:
            break
    assert read_progress(checkpoint).cut_off is not None, "no kill hit a batch"
    again = ["run", "visits_decorator_job", *options, "--available-now"]
    # The recovery is killed before it has written anything, then after it has written everything;
    # with another stamp, by which the records are recognized, too.
    for point in ("before_recovery", "after_recovery"):
        killed = headwater(
            *again,
            HEADWATER_TESTING__FAULT_POINTS=f"{point}=kill",
            HEADWATER_JOBS__STAMP="compact",
        )
        assert killed.returncode == -signal.SIGKILL
        assert f"{point} kill 1 " in (broker.home_dir / "faults.journal").read_text()
    last = headwater(*again)
    assert last.returncode == 0, last.stderr
    report = ledger.check(target)
    assert report.perfect, report


def test_a_killed_job_is_restarted_in_a_new_process_and_completes(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    options = ["--input-topic", source, "--output-topic", target, "--available-now"]
    options += ["--checkpoint", str(tmp_path / "checkpoint"), "--restarts", "2"]
    log = tmp_path / "job.log"
    ledger = Ledger(source, broker)
    ledger.write(RECORDS // 4)
    supervisor = start_job(broker, options, log)
    wait_for_growth(target, broker, supervisor, log)
    (driver,) = psutil.Process(supervisor.pid).children()
    for process in [*driver.children(recursive=True), driver]:
        process.kill()
    assert supervisor.wait(120) == 0, log.read_text()
    assert "the job exited with -9; 2 restarts left" in log.read_text()
    report = ledger.check(target)
    assert report.perfect, report


def test_invalid_input_is_not_retried(headwater: Headwater) -> None:
    options = ["--starting-offsets", "soon", "--restarts", "5"]
    refused = headwater("run", "visits_decorator_job", *options)
    assert refused.returncode == 2
    assert "restarts left" not in refused.stderr


def test_a_second_driver_on_the_same_checkpoint_is_refused_with_the_holder(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in"), make_topic("out")
    options = ["--input-topic", source, "--output-topic", target]
    options += ["--checkpoint", str(tmp_path / "checkpoint")]
    log = tmp_path / "job.log"
    Ledger(source, broker).write(10)
    first = start_job(broker, options, log)
    try:
        wait_for_growth(target, broker, first, log)
        second = headwater("run", "visits_decorator_job", *options, "--available-now")
        assert second.returncode == 2
        assert f"is in use by process {first.pid}" in second.stderr
        assert first.poll() is None
    finally:
        kill(first)


@pytest.mark.parametrize(("master", "setting"), [("local[2,3]", "spark.task.maxFailures=3")])
def test_settings_that_would_break_the_guarantee_are_refused(
    broker: Settings,
    headwater: Headwater,
    make_topic: TopicMaker,
    tmp_path: Path,
    master: str,
    setting: str,
) -> None:
    options = ["--input-topic", make_topic("in"), "--output-topic", make_topic("out")]
    options += ["--checkpoint", str(tmp_path / "checkpoint"), "--available-now"]
    options += ["--delivery", "exactly-once"]
    refused = headwater("run", "visits_decorator_job", *options, HEADWATER_SPARK__MASTER=master)
    assert refused.returncode == 2
    assert setting in refused.stderr
