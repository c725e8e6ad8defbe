"""The strict mode when Spark gives the tasks of a batch other numbers as it runs it again.

Kafka's source keeps its order; files are taken by size, so that one which was rewritten smaller
changes places. What the rows are is the same.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.dead_letter import ERROR_COLUMN
from headwater.delivery.modes import Run, Strict
from headwater.delivery.sink import Target, sink_rows
from headwater.errors import QueryFailedError
from headwater.kafka import read_topic
from headwater.rowlineage.columns import HEADERS_TYPE, with_lineage
from headwater.settings import Settings
from headwater.spark import StopSignal
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(120)]

ROWS = 50
COLUMNS = "topic string, partition int, offset bigint"


def write_rows(folder: Path, partition: int, padding: int) -> None:
    """Rows of one partition of an input, in one file, in which spaces take more or less room."""
    lines = [
        json.dumps({"topic": "in", "partition": partition, "offset": n}) + " " * padding
        for n in range(ROWS)
    ]
    (folder / f"{partition}.json").write_text("\n".join(lines))


def rows_of(spark: SparkSession, folder: Path, gate: Path) -> DataFrame:
    """Rows for the sink; those of partition 1 wait for the gate, and fail the first time."""

    def pass_gate(partition: int) -> str:
        failed = gate.with_name("failed")
        if partition == 1 and not failed.exists():
            deadline = time.monotonic() + 60
            while not gate.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            failed.touch()
            raise ValueError("the gate was reached")
        return f"{partition}"

    records = spark.readStream.schema(COLUMNS).json(str(folder))
    passed = F.udf(pass_gate, "string", useArrow=False)("partition")
    value = F.concat(passed, F.lit(" by task "), F.spark_partition_id().cast("string"))
    rows = with_lineage(records.withColumn("headers", F.lit(None).cast(HEADERS_TYPE)))
    rows = rows.select("lineage", value.cast("binary").alias("value"))
    return sink_rows(rows.withColumn(ERROR_COLUMN, F.lit(None)), F.lit(folder.name))


def test_a_batch_whose_tasks_change_numbers_is_neither_lost_nor_doubled(
    spark: SparkSession, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic = make_topic("out", partitions=1)
    folder = tmp_path / topic
    folder.mkdir()
    write_rows(folder, 0, padding=200)
    write_rows(folder, 1, padding=100)
    gate = tmp_path / "gate"
    target = Target(
        "renumbered",
        "v1",
        tmp_path / "checkpoint",
        (topic,),
        {"availableNow": True},
        one_input_per_task=True,
    )

    def run() -> None:
        rows = rows_of(spark, folder, gate)
        Strict().run(Run(spark, rows, target, broker, lambda line: None, "-"), StopSignal())

    def values() -> Counter[str]:
        return Counter((record.value or b"").decode() for record in read_topic(topic, broker))

    def open_gate() -> None:
        deadline = time.monotonic() + 60
        while sum(values().values()) < ROWS and time.monotonic() < deadline:
            time.sleep(0.1)
        gate.touch()

    watching = threading.Thread(target=open_gate)
    watching.start()
    with pytest.raises(QueryFailedError):
        run()
    watching.join()
    # The first partition was committed by task 0, the second was not.
    assert values() == {"0 by task 0": ROWS}
    write_rows(folder, 0, padding=0)
    run()
    # The second partition was written by a task of the same number.
    assert values() == {"0 by task 0": ROWS, "1 by task 0": ROWS}
