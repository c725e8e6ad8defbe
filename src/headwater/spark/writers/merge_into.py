"""Merges rows into an Iceberg table by a key: one row for each, whoever wrote it before.

A merge reads its source twice, first for the files to rewrite, then for the rows. So the source
is kept while it runs: two readings of a changing source would not fit together. Of two merges at
once Iceberg refuses the later one; as a merge by a key may be done twice, it is tried again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headwater.errors import InputError, LineageTableError
from headwater.spark.conf import configured

_SOURCE = "headwater_merge_source"
_PLACE = "_headwater_place"
# Of a snapshot: how many rows were merged in it.
ROWS = "headwater.rows"
_SNAPSHOT = "spark.sql.iceberg.snapshot-property."
_TASKS, _DEFAULT_TASKS, _LEAST_TASKS = "spark.sql.shuffle.partitions", "200", 16
# A merge beside another one that never ends would else wait for ever.
_TRIES = 8
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
# What Iceberg says when somebody else has committed meanwhile; nothing is written then.
_CONFLICTS = (
    "org.apache.iceberg.exceptions.ValidationException",
    "org.apache.iceberg.exceptions.CommitFailedException",
)


@dataclass(frozen=True)
class MergeRule:
    """How rows of one key become one row.

    Attributes:
        key: the column that identifies a row; rows without it are refused.
        newest: names of columns; of several rows of a key in one batch the greatest by them stays.
        unless: a condition in SQL over `t`, the row that is there, and `s`, the new one, under
            which the row that is there stays as it is.
        deleted: a column that is no column of the table; where it is true the row is deleted.
    """

    key: str
    newest: Sequence[str]
    unless: str | None = None
    deleted: str | None = None

    def __post_init__(self) -> None:
        for name in (self.key, *(path.partition(".")[0] for path in self.newest)):
            if not name.isidentifier():
                raise InputError(f"not the name of a column to merge by: {name!r}")

    def clauses(self, columns: Sequence[str]) -> str:
        """What happens to rows that are there, and to new ones. Other columns than these, which
        somebody has added to the table, stay as they are, and are null in new rows."""
        given = [f"`{name}`" for name in columns if name != self.deleted]
        update = f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in given)}"
        values = ", ".join(f"s.{name}" for name in given)
        insert = f"INSERT ({', '.join(given)}) VALUES ({values})"  # noqa: S608 - columns of ours
        # A comparison with null is not true.
        old = f" AND NOT coalesce({self.unless}, false)" if self.unless else ""
        if self.deleted is None:
            return f"WHEN MATCHED{old} THEN {update} WHEN NOT MATCHED THEN {insert}"
        return (
            f"WHEN MATCHED{old} AND s.{self.deleted} THEN DELETE "
            f"WHEN MATCHED{old} THEN {update} "
            f"WHEN NOT MATCHED AND NOT s.{self.deleted} THEN {insert}"
        )

    def one_per_key(self, rows: DataFrame) -> DataFrame:
        """The newest row of each key."""
        newest_first = (F.desc_nulls_last(name) for name in self.newest)
        place = F.row_number().over(Window.partitionBy(self.key).orderBy(*newest_first))
        return rows.withColumn(_PLACE, place).where(F.col(_PLACE) == 1).drop(_PLACE)


def merge(table: str, rows: DataFrame, rule: MergeRule, marks: Mapping[str, str]) -> int:
    """Merge in one commit, whose snapshot carries the marks; gives how many rows, one for each key
    that is not deleted.

    Raises:
        LineageTableError: others commit to the table all the time.
    """
    session = rows.sparkSession
    with configured(session, _few_tasks(session)):
        newest = rule.one_per_key(rows).persist()
        try:
            # Both readings of the merge begin at once: without this each would make the rows.
            kept = _count(newest, rule)
            newest.createOrReplaceTempView(_SOURCE)
            statement = (
                f"MERGE INTO {table} t USING {_SOURCE} s ON t.{rule.key} = s.{rule.key} "
                + rule.clauses(newest.columns)
            )
            # A statement has no options of its own; the session is the micro-batch's, or one job's.
            told = {**marks, ROWS: str(kept)}
            with configured(session, {f"{_SNAPSHOT}{name}": told[name] for name in told}):
                _until_it_fits(session, table, statement)
        finally:
            session.catalog.dropTempView(_SOURCE)
            newest.unpersist()
    return kept


def _count(newest: DataFrame, rule: MergeRule) -> int:
    stays = F.lit(True) if rule.deleted is None else ~F.col(rule.deleted)
    found = newest.agg(F.count_if(stays)).head()
    return int(found[0]) if found else 0


def _until_it_fits(session: SparkSession, table: str, statement: str) -> None:
    pause = _FIRST_PAUSE_SECONDS
    for left in reversed(range(_TRIES)):
        try:
            _run(session, statement)
            return
        except Exception as error:
            if not _is_conflict(error):
                raise
            if not left:
                raise LineageTableError(
                    f"table {table}: {_TRIES} merges in a row met commits of others: {error}",
                    hint="let fewer jobs write it at once, or make their commits rarer, such as "
                    "by a longer --trigger",
                    table=table,
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _run(session: SparkSession, statement: str) -> None:
    session.sql(statement)


def _is_conflict(error: BaseException) -> bool:
    return any(name in f"{error}" for name in _CONFLICTS)


def _few_tasks(session: SparkSession) -> dict[str, str]:
    """On one machine Spark's 200 tasks for each step take longer than their rows."""
    context = session.sparkContext
    if not (context.master or "").startswith("local") or session.conf.get(_TASKS) != _DEFAULT_TASKS:
        return {}
    return {_TASKS: str(max(_LEAST_TASKS, 2 * context.defaultParallelism))}
