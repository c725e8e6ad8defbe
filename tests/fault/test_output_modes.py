"""The driver killed while it writes an aggregate in output mode update or complete."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.kills import kill, wait_for_growth
from tests.support import environment

from headwater.kafka import RecordProducer, read_topic
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

KEYS = 20_000
PROGRAM = """
import sys
from pyspark.sql import functions as F
from headwater import LineageJob, merge_lineage

source, target, checkpoint, mode = sys.argv[1:]
job = LineageJob("counts", checkpoint=checkpoint)
counts = job.read(source).groupBy("key").agg(
    F.count("*").cast("string").alias("value"), merge_lineage(F.col("lineage")).alias("lineage")
)
job.write(counts, target, output_mode=mode, trigger={"availableNow": True})
"""


def send(settings: Settings, topic: str, keys: range) -> None:
    with RecordProducer(settings.kafka) as producer:
        for key in keys:
            producer.send(topic, b"v", str(key).encode())


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_a_batch_that_was_cut_off_writes_each_group_once(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path, mode: str
) -> None:
    source, target, log = make_topic("in"), make_topic("out"), tmp_path / "log"
    file, checkpoint = tmp_path / "program.py", tmp_path / "checkpoint"
    file.write_text(PROGRAM)

    def start() -> subprocess.Popen[bytes]:
        arguments = [str(file), source, target, str(checkpoint), mode]
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, *arguments],
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment(broker),
            )

    send(broker, source, range(KEYS // 2))
    assert start().wait(120) == 0, log.read_text()
    send(broker, source, range(KEYS))
    job = start()
    try:
        wait_for_growth(target, broker, job, log)
    finally:
        kill(job)
    # Proof of the fault: the second batch has written records and was not committed.
    assert read_progress(checkpoint).cut_off == 1
    assert start().wait(120) == 0, log.read_text()
    batches = Counter(
        (origin_of(record).batch_version, record.key, record.value)
        for record in read_topic(target, broker.kafka)
    )
    assert set(batches.values()) == {1}
    assert Counter(value for batch, _, value in batches if batch == 1) == {
        b"1": KEYS // 2,
        b"2": KEYS // 2,
    }
