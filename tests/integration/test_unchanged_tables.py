"""Row lineage of plain jobs that write to Delta and Iceberg tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from tests.unchanged import ENABLED, Ledger

from headwater.kafka import create_topic
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.storage.tables.contract import TYPE

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "unchanged-tables"
TYPES = ["string", "array<string>", TYPE]


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 60)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.unchanged")
    return ledger


def parents(row: Row) -> set[str]:
    """The addresses in the column `lineage` of any of its types."""
    lineage = row.lineage
    if isinstance(lineage, str):
        return set(lineage.split(","))
    if isinstance(lineage, list):
        return set(lineage)
    if lineage.parents:
        return set(lineage.parents)
    return {f"{lineage.topic}/{lineage.partition}@{lineage.offset}"}


def check(rows: DataFrame, ledger: Ledger) -> None:
    found = rows.collect()
    assert len(found) == 60
    for row in found:
        assert {ledger.numbers[each] for each in parents(row)} == {row.n}


def stream(
    ledger: Ledger, table: str | None = None, path: Path | None = None, **kinds: str
) -> None:
    ledger._queries += 1
    rows = ledger.read(TOPIC).select("n", "k")
    with configured(ledger.spark, ENABLED):
        writer = (
            rows.writeStream.format("delta" if path else "iceberg")
            .option("checkpointLocation", str(ledger.checkpoint()))
            .queryName(f"into_table_{ledger._queries}")
            .trigger(availableNow=True)
        )
        query = writer.start(str(path)) if path else writer.toTable(str(table))
    query.awaitTermination(120)
    assert not query.isActive


def in_batches(ledger: Ledger, write: Callable[[DataFrame], None], **options: Any) -> None:
    ledger._queries += 1
    with configured(ledger.spark, ENABLED):
        query = (
            ledger.read(TOPIC, **options)
            .select("n", "k")
            .writeStream.foreachBatch(lambda batch, _: write(batch))
            .option("checkpointLocation", str(ledger.checkpoint()))
            .queryName("in_batches")
            .trigger(availableNow=True)
            .start()
        )
    query.awaitTermination(120)
    assert not query.isActive


@pytest.mark.parametrize("kind", TYPES)
def test_a_stream_into_delta_fills_the_lineage_column(
    ledger: Ledger, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "table"
    ledger.spark.sql(f"CREATE TABLE delta.`{folder}` (n int, lineage {kind}, k int) USING delta")
    stream(ledger, path=folder)
    rows = ledger.spark.read.format("delta").load(str(folder))
    check(rows, ledger)
    if kind == TYPE:
        first = rows.first()
        assert first is not None
        assert (first.lineage.job_name, first.lineage.batch_version) == (
            f"into_table_{ledger._queries}",
            0,
        )


def test_tables_without_a_lineage_column_stay_as_they_are(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    stream(ledger, path=folder)
    rows = ledger.spark.read.format("delta").load(str(folder))
    assert rows.columns == ["n", "k"]
    assert rows.count() == 60


def test_a_stream_into_iceberg_fills_the_lineage_column(ledger: Ledger) -> None:
    ledger.spark.sql(
        "CREATE TABLE demo.unchanged.streamed (n int, lineage array<string>, k int) USING iceberg"
    )
    stream(ledger, table="demo.unchanged.streamed")
    check(ledger.spark.table("demo.unchanged.streamed"), ledger)


def test_appends_in_foreach_batch_fill_the_lineage_column(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    columns = f"(n int, k int, lineage {TYPE})"
    spark = ledger.spark
    spark.sql(f"CREATE TABLE delta.`{folder}` {columns} USING delta")
    spark.sql(f"CREATE TABLE unchanged_delta {columns} USING delta")
    spark.sql(f"CREATE TABLE demo.unchanged.appended {columns} USING iceberg")

    def write(batch: DataFrame) -> None:
        assert batch.columns == ["n", "k"]
        batch.write.format("delta").mode("append").save(str(folder))
        batch.write.format("delta").mode("append").saveAsTable("unchanged_delta")
        batch.writeTo("demo.unchanged.appended").append()

    try:
        in_batches(ledger, write)
        tables = [spark.table("unchanged_delta"), spark.table("demo.unchanged.appended")]
        for rows in (spark.read.format("delta").load(str(folder)), *tables):
            check(rows, ledger)
            assert {row.lineage.job_name for row in rows.collect()} == {"in_batches"}
    finally:
        spark.sql("DROP TABLE unchanged_delta")


def test_a_column_that_the_job_writes_itself_is_kept(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    ledger.spark.sql(f"CREATE TABLE delta.`{folder}` (n int, lineage string) USING delta")

    def write(batch: DataFrame) -> None:
        rows = batch.selectExpr("n", "'mine' AS lineage")
        rows.write.format("delta").mode("append").save(str(folder))

    in_batches(ledger, write)
    rows = ledger.spark.read.format("delta").load(str(folder)).collect()
    assert {row.lineage for row in rows} == {"mine"}


def test_merges_into_delta_in_foreach_batch_fill_the_lineage_column(ledger: Ledger) -> None:
    spark = ledger.spark
    columns = "(k int, n int, seen int, lineage array<string>)"
    spark.sql(f"CREATE TABLE unchanged_merged {columns} USING delta")

    def write(batch: DataFrame) -> None:
        newest = batch.groupBy("k").agg(F.max("n").alias("n"))
        newest.createOrReplaceTempView("unchanged_batch")
        batch.sparkSession.sql(
            """MERGE INTO unchanged_merged t USING unchanged_batch s ON t.k = s.k
               WHEN MATCHED AND s.k < 5 THEN UPDATE SET k = s.k, n = s.n, seen = 1
               WHEN MATCHED THEN UPDATE SET n = s.n
               WHEN NOT MATCHED THEN INSERT (k, n, seen) VALUES (s.k, s.n, 0)"""
        )

    try:
        # Two micro-batches: rows are inserted by the first, and updated by the second.
        in_batches(ledger, write, maxOffsetsPerTrigger=30)
        rows = {row.k: row for row in spark.table("unchanged_merged").collect()}
    finally:
        spark.sql("DROP TABLE unchanged_merged")
    assert len(rows) == 10
    for key, row in rows.items():
        found = {ledger.numbers[each] for each in row.lineage if each != "?"}
        assert found == {number for number in range(30, 60) if number % 10 == key}
        # A row that keeps a value of its former version has further parents.
        assert ("?" in row.lineage) == (key >= 5)
