"""The driver killed while records that fail in the code of the job become dead letters."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.support import Headwater

from headwater.kafka import RecordProducer, read_topic
from headwater.model.dead_letter import read_letter
from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.storage.failed_records import read_failed_records
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

RECORDS = 2_000
BAD = {700, 1501}
PROGRAM = """
import sys
from pyspark.sql import functions as F
from headwater import LineageJob
from headwater.settings import arm_fault_points, load

arm_fault_points(load())
source, target = sys.argv[1:]
job = LineageJob("numbers")
rows = job.read(source)
number = rows.value.cast("string").cast("int").cast("string")
rows = rows.select("key", number.alias("value"), "lineage")
job.write(rows, target, trigger={"availableNow": True}, on_error="dead-letter")
"""


@pytest.mark.parametrize("delivery", ["exactly-once", "transactional"])
def test_each_good_record_is_written_once_and_each_bad_one_is_one_dead_letter(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker, tmp_path: Path, delivery: str
) -> None:
    source, target = make_topic("in"), make_topic("out")
    program, checkpoint = tmp_path / "program.py", tmp_path / "checkpoint"
    program.write_text(PROGRAM)
    with RecordProducer(broker.kafka) as producer:
        for number in range(RECORDS):
            value = f"x{number}" if number in BAD else str(number)
            producer.send(source, value.encode(), b"k", partition=number % 2)
    job = ["run", str(program), "--checkpoint", str(checkpoint), "--delivery", delivery]
    # Before the dead letters are sent, then after that and before the batch is run without them.
    for point in ("failed_records_stored", "after_failed_records"):
        killed = headwater(*job, source, target, HEADWATER_TESTING__FAULT_POINTS=f"{point}=kill")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert f"{point} kill 1 " in (broker.home_dir / "faults.journal").read_text()
        failed = read_failed_records(checkpoint)
        assert failed is not None
        assert len(failed.records) == len(BAD)
    last = headwater(*job, source, target)
    assert last.returncode == 0, last.stderr
    # The records were not searched again.
    assert "attempt" not in last.stderr
    values = sorted(int(record.value or b"") for record in read_topic(target, broker.kafka))
    assert values == [number for number in range(RECORDS) if number not in BAD]
    letters = [read_letter(each) for each in read_topic(f"{target}-dead-letter", broker.kafka)]
    assert sorted(each.record.value or b"" for each in letters) == [b"x1501", b"x700"]
    assert {each.reason for each in letters} == {"org.apache.spark.SparkNumberFormatException"}
    assert read_progress(checkpoint).cut_off is None
