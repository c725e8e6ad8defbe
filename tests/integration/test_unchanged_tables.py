"""Row lineage of plain jobs that write to Delta and Iceberg tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.edge_tables import scan, write_index
from tests.lines.environments import fills_missing_columns, needs_delta, needs_iceberg
from tests.unchanged import ENABLED, Ledger

from headwater.kafka import create_topic
from headwater.model import Address
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.storage.index.contract import index_path
from headwater.storage.tables.contract import TYPE
from headwater.tracing import impact

pytestmark = [pytest.mark.kafka, pytest.mark.spark, needs_delta, pytest.mark.lines]

TOPIC = "unchanged-tables"
TYPES = ["string", "array<string>", TYPE]


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 60)
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
    ledger: Ledger,
    table: str | None = None,
    path: Path | None = None,
    kind: str = "iceberg",
) -> None:
    ledger._queries += 1
    rows = ledger.read(TOPIC).select("n", "k")
    with configured(ledger.spark, ENABLED):
        writer = (
            rows.writeStream.format("delta" if path else kind)
            .option("checkpointLocation", str(ledger.checkpoint()))
            .queryName(f"into_table_{ledger._queries}")
            .trigger(availableNow=True)
        )
        query = writer.start(str(path)) if path else writer.toTable(str(table))
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


def test_a_stream_into_a_delta_table_of_the_catalog_fills_the_lineage_column(
    ledger: Ledger,
) -> None:
    ledger.spark.sql("CREATE TABLE unchanged_to (n int, lineage array<string>, k int) USING delta")
    try:
        stream(ledger, table="unchanged_to", kind="delta")
        check(ledger.spark.table("unchanged_to"), ledger)
    finally:
        ledger.spark.sql("DROP TABLE unchanged_to")


def test_impact_finds_rows_in_a_table_of_the_settings(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    ledger.spark.sql(f"CREATE TABLE delta.`{folder}` (n int, k int, lineage {TYPE}) USING delta")
    stream(ledger, path=folder)
    changed = {"table": tmp_path / "index", "tables": [folder]}
    index = ledger.settings.index.model_copy(update=changed)
    settings = ledger.settings.model_copy(update={"home": tmp_path / "home", "index": index})
    write_index(index_path(settings), [scan(f"{TOPIC}/0@0", 30)])
    assert impact(Address(TOPIC, 0, 3), settings).tables == {str(folder): 1}


def test_tables_without_a_lineage_column_stay_as_they_are(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    stream(ledger, path=folder)
    rows = ledger.spark.read.format("delta").load(str(folder))
    assert rows.columns == ["n", "k"]
    assert rows.count() == 60


@needs_iceberg
def test_a_stream_into_iceberg_fills_the_lineage_column(ledger: Ledger) -> None:
    ledger.spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.unchanged")
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

    def write(batch: DataFrame) -> None:
        assert batch.columns == ["n", "k"]
        batch.write.format("delta").mode("append").save(str(folder))
        batch.write.format("delta").mode("append").saveAsTable("unchanged_delta")

    try:
        ledger.in_batches(TOPIC, write, name="in_batches")
        for rows in (spark.read.format("delta").load(str(folder)), spark.table("unchanged_delta")):
            check(rows, ledger)
            assert {row.lineage.job_name for row in rows.collect()} == {"in_batches"}
    finally:
        spark.sql("DROP TABLE unchanged_delta")


@fills_missing_columns
def test_an_append_by_name_to_delta_fills_the_lineage_column(ledger: Ledger) -> None:
    ledger.spark.sql(f"CREATE TABLE unchanged_by (n int, k int, lineage {TYPE}) USING delta")
    try:
        ledger.in_batches(TOPIC, lambda batch: batch.writeTo("unchanged_by").append())
        check(ledger.spark.table("unchanged_by"), ledger)
    finally:
        ledger.spark.sql("DROP TABLE unchanged_by")


@needs_iceberg
@fills_missing_columns
@pytest.mark.parametrize("way", ["writeTo", "saveAsTable"])
def test_appends_to_iceberg_in_foreach_batch_fill_the_lineage_column(
    ledger: Ledger, way: str
) -> None:
    table = f"demo.unchanged.appended_{way}"
    ledger.spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.unchanged")
    ledger.spark.sql(f"CREATE TABLE {table} (n int, k int, lineage {TYPE}) USING iceberg")

    def write(batch: DataFrame) -> None:
        if way == "writeTo":
            batch.writeTo(table).append()
        else:
            batch.write.format("iceberg").mode("append").saveAsTable(table)

    ledger.in_batches(TOPIC, write)
    check(ledger.spark.table(table), ledger)


def test_a_column_that_the_job_writes_itself_is_kept(ledger: Ledger, tmp_path: Path) -> None:
    folder = tmp_path / "table"
    ledger.spark.sql(f"CREATE TABLE delta.`{folder}` (n int, lineage string) USING delta")

    def write(batch: DataFrame) -> None:
        rows = batch.selectExpr("n", "'mine' AS lineage")
        rows.write.format("delta").mode("append").save(str(folder))

    ledger.in_batches(TOPIC, write)
    rows = ledger.spark.read.format("delta").load(str(folder)).collect()
    assert {row.lineage for row in rows} == {"mine"}
