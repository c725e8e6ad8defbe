"""The transactional mode when Spark numbers the tasks of a batch differently in a rerun.

Kafka's source has a fixed order; files are ordered by size, so that rewriting one with less
padding changes the order. The rows are the same.
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
from tests.waiting import wait_until

from headwater.delivery.modes import Delivery, Transactional
from headwater.delivery.sink import (
    ERROR_COLUMN,
    OutputTopics,
    SinkTarget,
    has_shuffle,
    sink_rows,
)
from headwater.errors import QueryFailedError
from headwater.kafka import ensure_topic, read_topic
from headwater.model.topic_names import dead_letter_topic
from headwater.settings import Settings
from headwater.spark.query_runner import QueryRun, StopSignal
from headwater.spark.source import HEADERS_TYPE, with_lineage
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(120)]

ROWS = 50
COLUMNS = "topic string, partition int, offset bigint"


def write_rows(folder: Path, partition: int, padding: int) -> None:
    """Write rows of one input partition to a file, padded with spaces."""
    lines = [
        json.dumps({"topic": "in", "partition": partition, "offset": n}) + " " * padding
        for n in range(ROWS)
    ]
    (folder / f"{partition}.json").write_text("\n".join(lines))


def rows_of(spark: SparkSession, folder: Path, gate: Path, tasks: int | None = None) -> DataFrame:
    """Rows for the sink. Those of one task wait for the gate, and fail the first time.

    Args:
        tasks: number of tasks after a shuffle; None: one for each file, without a shuffle.
    """

    def pass_gate(waits: bool, text: str) -> str:
        failed = gate.with_name("failed")
        if waits and not failed.exists():
            # Not `wait_until`: this runs in a worker, which can't import the tests.
            deadline = time.monotonic() + 60
            while not gate.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            failed.touch()
            raise ValueError("the gate was reached")
        return text

    records = spark.readStream.schema(COLUMNS).json(str(folder))
    task = F.spark_partition_id()
    if tasks is None:
        waits, text = F.col("partition") == 1, F.col("partition")
    else:
        records = records.repartition(tasks, "partition", "offset")
        waits, text = task == 0, F.concat_ws("@", "partition", "offset")
    passed = F.udf(pass_gate, "string", useArrow=False)(waits, text.cast("string"))
    value = F.concat(passed, F.lit(" by task "), task.cast("string")) if tasks is None else passed
    rows = with_lineage(records.withColumn("headers", F.lit(None).cast(HEADERS_TYPE)))
    rows = rows.select("lineage", value.cast("binary").alias("value"))
    return sink_rows(rows.withColumn(ERROR_COLUMN, F.lit(None)), F.lit(folder.name))


class Batch:
    """One batch of two files, which tests run several times."""

    def __init__(self, spark: SparkSession, settings: Settings, topic: str, home: Path) -> None:
        self.folder = home / topic
        self.folder.mkdir()
        write_rows(self.folder, 0, padding=200)
        write_rows(self.folder, 1, padding=100)
        self._spark, self._settings, self._topic = spark, settings, topic
        self._gate = home / "gate"
        self._checkpoint = home / "checkpoint"

    def run(self, tasks: int | None = None) -> None:
        target = SinkTarget(
            "renumbered",
            "v1",
            self._checkpoint,
            OutputTopics((self._topic,)),
            {"availableNow": True},
            one_input_per_task=tasks is None,
        )
        rows = rows_of(self._spark, self.folder, self._gate, tasks)
        run = QueryRun("-", StopSignal())
        Transactional().deliver(Delivery(self._spark, rows, target, self._settings, run))

    def run_until_one_task_is_committed(self, tasks: int | None = None) -> None:
        """The other task fails as soon as the records of the first can be read."""
        watcher = threading.Thread(target=self._open_gate)
        watcher.start()
        with pytest.raises(QueryFailedError, match="the gate was reached"):
            self.run(tasks)
        watcher.join()

    def values(self) -> Counter[str]:
        records = read_topic(self._topic, self._settings.kafka)
        return Counter((record.value or b"").decode() for record in records)

    def _open_gate(self) -> None:
        try:
            wait_until(self.values, 60, "records of the first task", pause_seconds=0.1)
        finally:
            self._gate.touch()


@pytest.fixture
def batch(spark: SparkSession, broker: Settings, make_topic: TopicMaker, tmp_path: Path) -> Batch:
    topic = make_topic("out", partitions=1)
    ensure_topic(dead_letter_topic(topic), 1, broker.kafka)
    return Batch(spark, broker, topic, tmp_path)


def test_a_batch_with_renumbered_tasks_has_no_loss_and_no_duplicates(batch: Batch) -> None:
    batch.run_until_one_task_is_committed()
    assert batch.values() == {"0 by task 0": ROWS}
    write_rows(batch.folder, 0, padding=0)
    batch.run()
    # Both partitions were written by tasks with the same number.
    assert batch.values() == {"0 by task 0": ROWS, "1 by task 0": ROWS}


def test_a_batch_after_a_shuffle_is_not_rerun_with_another_number_of_tasks(
    batch: Batch,
) -> None:
    batch.run_until_one_task_is_committed(tasks=2)
    committed = batch.values()
    assert 0 < len(committed) < 2 * ROWS
    with pytest.raises(QueryFailedError, match="was started with 2 tasks and is rerun with 1"):
        batch.run(tasks=1)
    assert batch.values() == committed
    batch.run(tasks=2)
    assert batch.values() == {f"{p}@{n}": 1 for p in (0, 1) for n in range(ROWS)}


def test_operators_after_which_a_task_may_have_rows_of_several_partitions_are_known(
    spark: SparkSession,
) -> None:
    rows = spark.readStream.format("rate").load()
    small = spark.range(3).withColumnRenamed("id", "value")
    assert not has_shuffle(rows.where("value > 3").selectExpr("value * 2 as value"))
    assert not has_shuffle(rows.union(rows))
    for moved in (
        rows.limit(5),
        rows.coalesce(1),
        rows.repartition(2),
        rows.groupBy("value").count(),
        rows.dropDuplicates(["value"]),
        # Moves no rows, but is a join: the transactions belong to tasks.
        rows.join(F.broadcast(small), "value"),
    ):
        assert has_shuffle(moved)
