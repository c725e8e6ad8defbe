"""Rows are merged into tables that others change and write at the same time."""

# ruff: noqa: S608 - the names of tables are made here

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.errors import LineageTableError
from headwater.spark.writers import merge_into as merging
from headwater.spark.writers.merge_into import ROWS, MergeRule, merge
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


def test_columns_that_only_the_table_has_stay_as_they_are_and_are_null_in_new_rows(
    spark: SparkSession, table: str
) -> None:
    spark.sql(f"ALTER TABLE {table} ADD COLUMN note string")
    spark.sql(f"UPDATE {table} SET note = 'kept'")
    given = [("a", 1, False), ("a", 2, False), ("b", 2, True), ("d", 2, False), ("e", 2, True)]
    rows = spark.createDataFrame(given, COLUMNS)
    check_columns(table_of(spark, table, "iceberg"), rows.drop("gone"))
    assert merge(table, rows, RULE, {"mark": "17"}) == 2
    assert rows_of(spark, table) == {"a": (2, "kept"), "c": (1, "kept"), "d": (2, None)}
    last = spark.table(f"{table}.snapshots").orderBy("committed_at").tail(1)[0]["summary"]
    assert (last["mark"], last[ROWS]) == ("17", "2")


def test_a_column_that_has_to_be_filled_is_refused_before_the_first_batch(
    spark: SparkSession, table: str
) -> None:
    strict = f"{table}_strict"
    spark.sql(f"CREATE TABLE {strict} (id string, n int, owner string NOT NULL) USING iceberg")
    rows = spark.createDataFrame([("a", 1)], "id string, n int")
    with pytest.raises(LineageTableError, match="column `owner` must not be null") as caught:
        check_columns(table_of(spark, strict, "iceberg"), rows)
    assert caught.value.hint == "ALTER TABLE … ALTER COLUMN owner DROP NOT NULL"
    spark.sql(f"DROP TABLE {strict}")


def test_of_two_merges_at_once_the_later_one_is_done_again(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)
    run, is_conflict = merging._run, merging._is_conflict
    begun: set[int] = set()
    conflicts: list[BaseException] = []
    troubles: list[BaseException] = []

    def run_at_once(session: SparkSession, statement: str) -> None:
        if threading.get_ident() not in begun:
            begun.add(threading.get_ident())
            both.wait()
        run(session, statement)

    def count(error: BaseException) -> bool:
        found = is_conflict(error)
        if found:
            conflicts.append(error)
        return found

    monkeypatch.setattr(merging, "_run", run_at_once)
    monkeypatch.setattr(merging, "_is_conflict", count)
    context: Any = spark.sparkContext

    def work(given: list[tuple[str, int, bool]]) -> None:
        try:
            # Of a micro-batch and of a job beside it; each has its own session.
            session = SparkSession(context, spark._jsparkSession.cloneSession())
            merge(table, session.createDataFrame(given, COLUMNS), RULE, {})
        except BaseException as error:
            troubles.append(error)

    workers = [
        threading.Thread(target=work, args=([(name, 5, False), ("d", 5, False)],)) for name in "ab"
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert not troubles
    assert conflicts, "both merges were done one behind the other: nothing is proven"
    assert rows_of(spark, table) == {"a": (5,), "b": (5,), "c": (1,), "d": (5,)}


def test_a_merge_that_never_fits_ends_with_an_error_that_says_what_to_do(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def refuse(session: SparkSession, statement: str) -> None:
        tried.append(statement)
        raise RuntimeError("org.apache.iceberg.exceptions.CommitFailedException: stale")

    monkeypatch.setattr(merging, "_run", refuse)
    monkeypatch.setattr(merging, "_FIRST_PAUSE_SECONDS", 0.0)
    rows = spark.createDataFrame([("a", 2, False)], COLUMNS)
    with pytest.raises(LineageTableError, match="8 merges in a row met commits of others"):
        merge(table, rows, RULE, {})
    assert len(tried) == 8

    def break_down(session: SparkSession, statement: str) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(merging, "_run", break_down)
    with pytest.raises(RuntimeError, match="the disk is full"):
        merge(table, rows, RULE, {})


def test_two_first_starts_make_the_table_once(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, schema = table_of(spark, table, "iceberg"), spark.table(table).schema
    # The other start makes it between a look and the making.
    monkeypatch.setattr(type(spark.catalog), "tableExists", lambda catalog, name: False)
    there.ensure(schema)
    assert set(rows_of(spark, table)) == {"a", "b", "c"}


def test_a_table_of_many_days_is_written_one_file_at_a_time(
    spark: SparkSession, table: str
) -> None:
    by_day, plain = (table_of(spark, f"{table}_{name}", "iceberg") for name in ("by_day", "plain"))
    given = spark.sql(
        "SELECT cast(id AS string) id, 1 AS n, timestamp_seconds(id * 86400) AS at FROM range(40)"
    )
    schema = given.schema
    by_day.ensure(schema, ("days(at)",))
    plain.ensure(schema)
    assert merge(by_day.name, given.selectExpr("*", "false AS gone"), RULE, {}) == 40
    # With a file open for each day, 1 GB of heap ended at some hundred of them.
    written = "write.spark.fanout.enabled"
    assert properties(spark, by_day.name)[written] == "false"
    assert written not in properties(spark, plain.name)
    spark.sql(f"DROP TABLE {by_day.name}")
    spark.sql(f"DROP TABLE {plain.name}")


def properties(spark: SparkSession, table: str) -> dict[str, str]:
    return {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
