"""The driver killed in the middle of a batch: the guarantees in docs/concepts/delivery.md hold in
each mode. `test_exactly_once.py` has the tests of exactly-once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kills import kill, start_job, wait_for_growth

from headwater import LineageJob
from headwater.kafka import read_topic
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import CheckpointState, read_checkpoint, read_progress
from headwater.testing import Ledger
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import verify

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

JOB = "fifo_orderer_bulk_send"


def finish(mode: str, source: str, target: str, settings: Settings, checkpoint: Path) -> None:
    """Run the job in this process until all records are processed."""
    job = LineageJob(JOB, settings=settings, checkpoint=checkpoint, delivery=mode)
    rows = job.read(source).select("key", "value", "lineage")
    job.write(rows, target, trigger={"availableNow": True})


def run_and_kill(
    mode: str, source: str, target: str, settings: Settings, checkpoint: Path, log: Path
) -> None:
    """Run the job in a separate process, and kill it while a batch is being written."""
    options = ["--delivery", mode, "--input-topic", source, "--output-topic", target]
    options += ["--checkpoint", str(checkpoint)]
    job = start_job(settings, options, log, f"{JOB}_job")
    try:
        wait_for_growth(target, settings, job, log)
    finally:
        kill(job)


def copies_outside(
    checkpoint_state: CheckpointState, source: str, target: str, settings: Settings
) -> list[str]:
    """Duplicates that are not from the interrupted batch."""
    seen, wrong = set(), []
    for record in read_topic(target, settings.kafka):
        lineage = origin_of(record).lineage
        assert lineage is not None
        (parent,) = lineage.parents
        first = checkpoint_state.committed[source].get(parent.partition, 0)
        end = checkpoint_state.planned[source].get(parent.partition, 0)
        if parent in seen and not first <= parent.offset < end:
            wrong.append(str(record.address))
        seen.add(parent)
    return wrong


@pytest.mark.parametrize(
    ("mode", "records"),
    [
        ("transactional", 40_000),
        ("idempotent", 40_000),
        ("batched", 40_000),
        ("individual", 6_000),
    ],
)
def test_a_driver_killed_in_the_middle_of_a_batch_loses_nothing_and_keeps_the_order(
    broker: Settings,
    spark: object,
    make_topic: TopicMaker,
    tmp_path: Path,
    mode: str,
    records: int,
) -> None:
    source, target = make_topic("in"), make_topic("out")
    checkpoint = tmp_path / "checkpoint"
    ledger = Ledger(source, broker)
    ledger.write(records // 5)
    finish(mode, source, target, broker, checkpoint)
    ledger.write(records - ledger.total)
    run_and_kill(mode, source, target, broker, checkpoint, tmp_path / "job.log")
    # Proof of the fault: a batch has written records and was not committed.
    assert read_progress(checkpoint).cut_off == 1
    interrupted = read_checkpoint(checkpoint)
    assert interrupted is not None
    finish(mode, source, target, broker, checkpoint)
    report = ledger.check(target)
    assert (report.lost, report.out_of_order, report.damaged, report.unknown) == (0, 0, 0, 0)
    proof = verify(target, source, broker)
    assert (proof.missing, proof.out_of_order) == (0, 0)
    assert proof.duplicates == report.duplicates
    if mode == "transactional":
        assert report.perfect
        assert proof.passed
    else:
        # Only the interrupted batch was rerun, completely.
        assert 0 < report.duplicates < records - records // 5
        assert copies_outside(interrupted, source, target, broker) == []
