"""Tables that others change, maintain or roll back between two starts of a job.

A batch is interrupted as by a kill after its commit in the table: Spark's commit is removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.lines.environments import needs_iceberg

from headwater import LineageJob
from headwater.errors import CheckpointError
from headwater.kafka import RecordProducer
from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.storage.tables.contract import TableFormat
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Run = Callable[..., None]


@pytest.fixture(params=["delta", pytest.param("iceberg", marks=needs_iceberg)])
def table_format(request: pytest.FixtureRequest) -> TableFormat:
    chosen: TableFormat = request.param
    return chosen


@pytest.fixture
def table(table_format: TableFormat, tmp_path: Path) -> str:
    """Its name in SQL."""
    if table_format == "delta":
        return f"delta.`{tmp_path / 'numbers'}`"
    return f"demo.{tmp_path.name.replace('-', '_')}.numbers"


@pytest.fixture
def run(
    spark: SparkSession,
    broker: Settings,
    make_topic: TopicMaker,
    tmp_path: Path,
    table: str,
    table_format: TableFormat,
) -> Run:
    """Sends numbers, and appends them to the table."""
    topic = make_topic("in", partitions=1)

    def append(
        numbers: range = range(0),
        accept: tuple[str, ...] = (),
        merge_on: str | None = None,
        input_topic: str = topic,
        name: str = "to_table",
    ) -> None:
        with RecordProducer(broker.kafka) as producer:
            for number in numbers:
                producer.send(input_topic, str(number).encode())
        checkpoint = tmp_path / "checkpoint"
        job = LineageJob(name, settings=broker, checkpoint=checkpoint, accept=accept)
        read = job.read(input_topic)
        rows = read.selectExpr("cast(cast(value as string) as int) as n", "lineage")
        target = tmp_path / "numbers" if table_format == "delta" else table
        job.write_table(
            rows,
            target,
            table_format=table_format,
            merge_on=merge_on,
            trigger={"availableNow": True},
        )

    return append


def interrupt(checkpoint: Path) -> None:
    batch = read_progress(checkpoint).committed
    (checkpoint / "commits" / str(batch)).unlink()
    assert read_progress(checkpoint).cut_off == batch


def numbers(spark: SparkSession, table: str) -> list[int]:
    return sorted(row["n"] for row in spark.sql(f"SELECT n FROM {table}").collect())  # noqa: S608


def test_rows_that_others_changed_and_compacted_are_not_written_again(
    spark: SparkSession, run: Run, table: str, table_format: TableFormat, tmp_path: Path
) -> None:
    run(range(10))
    interrupt(tmp_path / "checkpoint")
    spark.sql(f"DELETE FROM {table} WHERE n = 3")  # noqa: S608
    spark.sql(f"UPDATE {table} SET n = 40 WHERE n = 4")  # noqa: S608
    if table_format == "delta":
        spark.sql(f"OPTIMIZE {table}")
        spark.sql(f"VACUUM {table}")
    else:
        catalog, _, name = table.partition(".")
        spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{name}')")
    run(range(10, 12))
    assert numbers(spark, table) == [0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 40]


def test_a_checkpoint_that_is_older_than_the_table_is_refused(
    spark: SparkSession, run: Run, table: str, tmp_path: Path
) -> None:
    run(range(10))
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    run(range(10, 20))
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "copy").rename(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="its newest batch is 0, but the table has batch 1"):
        run()
    assert numbers(spark, table) == list(range(20))


def test_a_lost_checkpoint_is_refused_unless_rows_are_merged_or_duplicates_accepted(
    spark: SparkSession, run: Run, table: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    def lose_checkpoint() -> None:
        shutil.rmtree(tmp_path / "checkpoint")

    run(range(3))
    lose_checkpoint()
    with pytest.raises(CheckpointError, match=r"is new, but table .*numbers was written by"):
        run()
    assert numbers(spark, table) == [0, 1, 2]
    run(merge_on="n")
    assert numbers(spark, table) == [0, 1, 2]
    lose_checkpoint()
    # Another job, and this one with another input, have not written these rows.
    run(range(3, 5), name="another", input_topic=make_topic("second"))
    lose_checkpoint()
    run(range(5, 6), input_topic=make_topic("third"))
    assert numbers(spark, table) == list(range(6))
    lose_checkpoint()
    run(accept=("duplicates",))
    assert numbers(spark, table) == [0, 0, 1, 1, 2, 2, 3, 4, 5]


@needs_iceberg
@pytest.mark.parametrize("table_format", ["iceberg"], indirect=True)
def test_an_interrupted_batch_whose_snapshot_has_expired_is_refused(
    spark: SparkSession, run: Run, table: str, tmp_path: Path
) -> None:
    run(range(10))
    interrupt(tmp_path / "checkpoint")
    spark.sql(f"INSERT INTO {table} SELECT 100, lineage FROM {table} LIMIT 1")  # noqa: S608
    # The commit is known while its snapshot is there.
    run()
    assert numbers(spark, table) == [*range(10), 100]
    interrupt(tmp_path / "checkpoint")
    catalog, _, name = table.partition(".")
    expired = spark.sql(
        f"CALL {catalog}.system.expire_snapshots(table => '{name}', "
        "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )
    assert expired.collect()
    assert spark.table(f"{table}.snapshots").count() == 1
    with pytest.raises(CheckpointError, match=f"snapshots of table {table} have expired since"):
        run()
    assert numbers(spark, table) == [*range(10), 100]
    run(accept=("duplicates",))
    assert numbers(spark, table) == sorted([*range(10), *range(10), 100])
