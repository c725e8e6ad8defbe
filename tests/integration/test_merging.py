"""Merging into tables that other writers change at the same time."""

# ruff: noqa: S608 - table names are created here

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.lines.environments import needs_delta, needs_iceberg

from headwater.errors import LineageTableError
from headwater.spark.writers import merge_into as merging
from headwater.spark.writers.merge_into import ROWS, MergeRule, merge, snapshot_configuration
from headwater.spark.writers.table import check_columns, table_of

pytestmark = pytest.mark.spark

RULE = MergeRule(key="id", newest=("n",), deleted="gone")
COLUMNS = "id string, n int, gone boolean"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    name = f"demo.{tmp_path.name.replace('-', '_')}.merged"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.rpartition('.')[0]}")
    spark.sql(f"CREATE TABLE {name} (id string, n int) USING iceberg")
    spark.sql(f"INSERT INTO {name} VALUES ('a', 1), ('b', 1), ('c', 1)")
    yield name
    spark.sql(f"DROP TABLE {name}")


def rows_of(spark: SparkSession, table: str) -> dict[str, Any]:
    spark.sql(f"REFRESH TABLE {table}")
    return {row[0]: tuple(row[1:]) for row in spark.table(table).collect()}


@needs_iceberg
@pytest.mark.lines
def test_other_columns_of_the_table_are_kept_and_null_in_new_rows(
    spark: SparkSession, table: str
) -> None:
    spark.sql(f"ALTER TABLE {table} ADD COLUMN note string")
    spark.sql(f"UPDATE {table} SET note = 'kept'")
    values = [("a", 1, False), ("a", 2, False), ("b", 2, True), ("d", 2, False), ("e", 2, True)]
    rows = spark.createDataFrame(values, COLUMNS)
    check_columns(table_of(spark, table, "iceberg"), rows.drop("gone"))
    assert merge(table, rows, RULE, snapshot_configuration({"mark": "17"})) == 2
    assert rows_of(spark, table) == {"a": (2, "kept"), "c": (1, "kept"), "d": (2, None)}
    last = spark.table(f"{table}.snapshots").orderBy("committed_at").tail(1)[0]["summary"]
    assert (last["mark"], last[ROWS]) == ("17", "2")


@needs_delta
@pytest.mark.lines
def test_a_batch_is_merged_into_a_delta_table_once(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(spark, tmp_path / "merged", "delta")
    table.ensure(spark.createDataFrame([("a", 1)], "id string, n int").schema)

    def merge_batch(batch: int, *values: tuple[str, int, bool]) -> None:
        table.merge(spark.createDataFrame(values, COLUMNS), RULE, "query", batch)

    def rows() -> dict[str, int]:
        found = spark.read.format("delta").load(str(tmp_path / "merged")).collect()
        return {row["id"]: row["n"] for row in found}

    merge_batch(0, ("a", 1, False), ("b", 1, False), ("b", 3, False))
    assert rows() == {"a": 1, "b": 3}
    merge_batch(1, ("a", 1, True), ("c", 5, False))
    assert rows() == {"b": 3, "c": 5}
    # The same batch again, as after a kill, changes nothing, whatever it contains.
    merge_batch(1, ("b", 9, False), ("d", 9, False))
    assert rows() == {"b": 3, "c": 5}


@needs_iceberg
def test_a_required_column_is_refused_before_the_first_batch(
    spark: SparkSession, table: str
) -> None:
    owned = f"{table}_owned"
    spark.sql(f"CREATE TABLE {owned} (id string, n int, owner string NOT NULL) USING iceberg")
    rows = spark.createDataFrame([("a", 1)], "id string, n int")
    with pytest.raises(LineageTableError, match="column `owner` must not be null") as caught:
        check_columns(table_of(spark, owned, "iceberg"), rows)
    assert caught.value.hint == "ALTER TABLE … ALTER COLUMN owner DROP NOT NULL"
    spark.sql(f"DROP TABLE {owned}")


@needs_iceberg
def test_of_two_concurrent_merges_the_later_one_is_retried(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)
    run, is_conflict = merging._run, merging._is_conflict
    started: set[int] = set()
    conflicts: list[BaseException] = []
    errors: list[BaseException] = []

    def run_at_once(session: SparkSession, *statement: Any) -> None:
        if threading.get_ident() not in started:
            started.add(threading.get_ident())
            both.wait()
        run(session, *statement)

    def count(error: BaseException) -> bool:
        conflict = is_conflict(error)
        if conflict:
            conflicts.append(error)
        return conflict

    monkeypatch.setattr(merging, "_run", run_at_once)
    monkeypatch.setattr(merging, "_is_conflict", count)
    context: Any = spark.sparkContext

    def work(values: list[tuple[str, int, bool]]) -> None:
        try:
            # Like a micro-batch and another job, each with its own session.
            session = SparkSession(context, spark._jsparkSession.cloneSession())
            merge(table, session.createDataFrame(values, COLUMNS), RULE, {})
        except BaseException as error:
            errors.append(error)

    workers = [
        threading.Thread(target=work, args=([(name, 5, False), ("d", 5, False)],)) for name in "ab"
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not errors
    assert conflicts, "the merges were not concurrent"
    assert rows_of(spark, table) == {"a": (5,), "b": (5,), "c": (1,), "d": (5,)}


@needs_iceberg
def test_a_merge_that_always_conflicts_fails_after_some_attempts(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[str] = []

    def refuse(session: SparkSession, statement: str, commit: object) -> None:
        attempts.append(statement)
        raise RuntimeError("org.apache.iceberg.exceptions.CommitFailedException: stale")

    monkeypatch.setattr(merging, "_run", refuse)
    rows = spark.createDataFrame([("a", 2, False)], COLUMNS)
    with pytest.raises(LineageTableError, match="8 merges in a row conflicted with other commits"):
        merge(table, rows, RULE, {}, first_pause_seconds=0.0)
    assert len(attempts) == 8

    def fail(session: SparkSession, statement: str, commit: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(merging, "_run", fail)
    with pytest.raises(RuntimeError, match="the disk is full"):
        merge(table, rows, RULE, {})


@needs_iceberg
def test_two_first_starts_create_the_table_once(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    existing, schema = table_of(spark, table, "iceberg"), spark.table(table).schema
    # As if the other start created it between the check and the creation.
    monkeypatch.setattr(type(spark.catalog), "tableExists", lambda catalog, name: False)
    existing.ensure(schema)
    assert set(rows_of(spark, table)) == {"a", "b", "c"}


@needs_iceberg
def test_a_partitioned_table_is_written_with_one_open_file_per_task(
    spark: SparkSession, table: str
) -> None:
    by_day, plain = (table_of(spark, f"{table}_{name}", "iceberg") for name in ("by_day", "plain"))
    rows = spark.sql(
        "SELECT cast(id AS string) id, 1 AS n, timestamp_seconds(id * 86400) AS at FROM range(40)"
    )
    schema = rows.schema
    by_day.ensure(schema, ("days(at)",))
    plain.ensure(schema)
    assert merge(by_day.name, rows.selectExpr("*", "false AS gone"), RULE, {}) == 40
    # With an open file for each day, some hundred days would fill 1 GB of heap.
    setting = "write.spark.fanout.enabled"
    assert properties(spark, by_day.name)[setting] == "false"
    assert setting not in properties(spark, plain.name)
    spark.sql(f"DROP TABLE {by_day.name}")
    spark.sql(f"DROP TABLE {plain.name}")


def properties(spark: SparkSession, table: str) -> dict[str, str]:
    return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
