"""Row lineage of plain jobs that merge their rows into Delta and Iceberg tables."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from tests.unchanged import Ledger

from headwater.kafka import create_topic
from headwater.settings import Settings
from headwater.storage.tables.contract import TYPE

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "unchanged-merges"
MODES = ["copy-on-write", "merge-on-read"]


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 60)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.merges")
    return ledger


def create(ledger: Ledger, name: str, columns: str, mode: str) -> str:
    table = f"demo.merges.{name}_{mode.replace('-', '_')}"
    ledger.spark.sql(
        f"""CREATE TABLE {table} ({columns}) USING iceberg
            TBLPROPERTIES ('format-version' = '2', 'write.merge.mode' = '{mode}')"""
    )
    return table


def newest(batch: DataFrame) -> DataFrame:
    return batch.groupBy("k").agg(F.max("n").alias("n"))


def found(ledger: Ledger, lineage: list[str]) -> set[int]:
    return {ledger.numbers[each] for each in lineage if each != "?"}


def numbers_of(key: int, first: int, last: int = 60) -> set[int]:
    return {number for number in range(first, last) if number % 10 == key}


def rows_of(ledger: Ledger, table: str) -> dict[int, Row]:
    return {row.k: row for row in ledger.spark.table(table).collect()}


@pytest.mark.parametrize("mode", MODES)
def test_merges_into_iceberg_fill_the_lineage_column(ledger: Ledger, mode: str) -> None:
    tables = [
        create(ledger, "filled", "k int, n int, lineage array<string>, seen int", mode),
        create(ledger, "plain", "k int, n int, seen int", mode),
    ]
    for table in tables:
        ledger.spark.sql(f"INSERT INTO {table} (k, n, seen) VALUES (9, 0, 0), (100, 0, 0)")  # noqa: S608

    def write(batch: DataFrame) -> None:
        newest(batch).createOrReplaceTempView("merged_batch")
        for table in tables:
            batch.sparkSession.sql(
                f"""MERGE INTO {table} t USING merged_batch s ON t.k = s.k
                    WHEN MATCHED AND s.k < 3 THEN UPDATE SET k = s.k, n = s.n, seen = 1
                    WHEN MATCHED AND s.k < 6 THEN UPDATE SET n = s.n
                    WHEN MATCHED AND s.k = 6 THEN DELETE
                    WHEN NOT MATCHED THEN INSERT (k, n, seen) VALUES (s.k, s.n, 0)
                    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET seen = seen + 1"""  # noqa: S608
            )

    # Two micro-batches: rows are inserted by the first, and updated by the second.
    ledger.in_batches(TOPIC, write, maxOffsetsPerTrigger=30)
    plain = ledger.spark.table(tables[1])
    assert plain.columns == ["k", "n", "seen"]
    written = ledger.spark.table(tables[0]).select(plain.columns)
    assert sorted(written.collect()) == sorted(plain.collect())
    rows = rows_of(ledger, tables[0])
    assert sorted(rows) == [0, 1, 2, 3, 4, 5, 7, 8, 9, 100]
    # Neither a row that no clause changes nor one without a source row gets lineage.
    assert rows[9].lineage is None
    assert (rows[100].lineage, rows[100].seen) == (None, 2)
    for key in range(6):
        assert found(ledger, rows[key].lineage) == numbers_of(key, 30)
        # A row that keeps a value of its former version has further parents.
        assert ("?" in rows[key].lineage) == (key >= 3)
    for key in (7, 8):
        assert found(ledger, rows[key].lineage) == numbers_of(key, 0, 30)


@pytest.mark.parametrize("mode", MODES)
def test_merges_by_the_data_frame_api_fill_the_struct(ledger: Ledger, mode: str) -> None:
    table = create(ledger, "frame", f"k int, n int, _lineage {TYPE}", mode)

    def write(batch: DataFrame) -> None:
        target = F.col(f"{table}.k")
        (
            batch.where("n % 2 = 0")
            .alias("s")
            .mergeInto(table, target == F.col("s.n"))
            .whenMatched()
            .update({"n": F.lit(-1)})
            .whenNotMatched(F.col("s.n") < 20)
            .insert({"k": F.col("s.n"), "n": F.col("s.k")})
            .whenNotMatched()
            .insert({"k": F.col("s.n"), "n": F.lit(100)})
            .merge()
        )

    ledger.in_batches(TOPIC, write, name="by_frame")
    rows = rows_of(ledger, table)
    assert sorted(rows) == list(range(0, 60, 2))
    for number, row in rows.items():
        address = f"{row._lineage.topic}/{row._lineage.partition}@{row._lineage.offset}"
        assert ledger.numbers[address] == number
        assert row._lineage.job_name == "by_frame"


@pytest.mark.parametrize("clauses", ["INSERT *", "INSERT (k, n) VALUES (s.k, s.n)"])
def test_merges_that_only_insert_fill_the_lineage_column(ledger: Ledger, clauses: str) -> None:
    mode = "merge-on-read"
    table = create(ledger, f"inserted{len(clauses)}", "k int, n int, lineage string", mode)

    def write(batch: DataFrame) -> None:
        newest(batch).createOrReplaceTempView("inserted_batch")
        batch.sparkSession.sql(
            f"""MERGE INTO {table} t USING inserted_batch s ON t.k = s.k
                WHEN NOT MATCHED THEN {clauses}"""
        )

    ledger.in_batches(TOPIC, write, maxOffsetsPerTrigger=30)
    rows = rows_of(ledger, table)
    assert len(rows) == 10
    for key, row in rows.items():
        assert found(ledger, row.lineage.split(",")) == numbers_of(key, 0, 30)


def test_stars_of_a_merge_stand_for_the_columns_of_the_source(ledger: Ledger) -> None:
    table = create(ledger, "stars", "k int, n int, lineage array<string>", "copy-on-write")

    def write(batch: DataFrame) -> None:
        newest(batch).createOrReplaceTempView("star_batch")
        batch.sparkSession.sql(
            f"""MERGE INTO {table} t USING star_batch s ON t.k = s.k
                WHEN MATCHED AND t.n < s.n THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
        )

    ledger.in_batches(TOPIC, write, maxOffsetsPerTrigger=30)
    rows = rows_of(ledger, table)
    assert len(rows) == 10
    for key, row in rows.items():
        assert "?" not in row.lineage
        assert found(ledger, row.lineage) == numbers_of(key, 30)
        assert row.n == 50 + key
    # Without row lineage, Spark refuses a star that has no value for a column.
    ledger.spark.range(1).selectExpr("1 AS k", "2 AS n").createOrReplaceTempView("other_rows")
    with pytest.raises(AnalysisException, match="lineage"):
        ledger.spark.sql(
            f"""MERGE INTO {table} t USING other_rows s ON t.k = s.k
                WHEN NOT MATCHED THEN INSERT *"""
        )


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
        ledger.in_batches(TOPIC, write, maxOffsetsPerTrigger=30)
        rows = {row.k: row for row in spark.table("unchanged_merged").collect()}
    finally:
        spark.sql("DROP TABLE unchanged_merged")
    assert len(rows) == 10
    for key, row in rows.items():
        found = {ledger.numbers[each] for each in row.lineage if each != "?"}
        assert found == {number for number in range(30, 60) if number % 10 == key}
        # A row that keeps a value of its former version has further parents.
        assert ("?" in row.lineage) == (key >= 5)
