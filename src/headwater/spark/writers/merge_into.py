"""Merges rows into a Delta or Iceberg table by a key.

A merge reads its source twice, first to find the files to rewrite, then for the rows. So the source
is cached: two reads of a changing source would be inconsistent. Of two concurrent merges both
formats refuse the later one; as a merge by a key is idempotent, it is retried.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headwater.errors import InputError, LineageTableError
from headwater.spark.compat import ICEBERG_PROPERTIES, run_with_properties
from headwater.spark.configuration import configured

_SOURCE = "headwater_merge_source"
_RANK = "_headwater_rank"
# Snapshot property: number of rows that were merged.
ROWS = "headwater.rows"
_TASKS, _DEFAULT_TASKS, _MIN_TASKS = "spark.sql.shuffle.partitions", "200", 16
# Bounded, because another writer may commit without end.
_ATTEMPTS = 8
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 5.0
# Errors for a concurrent commit; nothing is written then.
_CONFLICTS = (
    "io.delta.exceptions.Concurrent",
    "org.apache.spark.sql.delta.Concurrent",
    "org.apache.iceberg.exceptions.ValidationException",
    "org.apache.iceberg.exceptions.CommitFailedException",
)


@dataclass(frozen=True)
class MergeRule:
    """How the rows of a key are merged.

    Attributes:
        key: the column that identifies a row.
        newest: columns by which the greatest of several rows of a key in one batch is chosen.
        unless: a SQL condition over `t`, the existing row, and `s`, the new row, under which the
            existing row is not changed.
        deleted: a column that is not in the table; rows with true are deleted.
    """

    key: str
    newest: Sequence[str]
    unless: str | None = None
    deleted: str | None = None

    def __post_init__(self) -> None:
        for name in (self.key, *(path.partition(".")[0] for path in self.newest)):
            if not name.isidentifier():
                raise InputError(f"not a column name to merge by: {name!r}")

    def clauses(self, columns: Sequence[str]) -> str:
        """The WHEN clauses of the MERGE. Other columns of the table are not changed, and null in
        new rows."""
        written = [f"`{name}`" for name in columns if name != self.deleted]
        update = f"UPDATE SET {', '.join(f't.{name} = s.{name}' for name in written)}"
        values = ", ".join(f"s.{name}" for name in written)
        insert = f"INSERT ({', '.join(written)}) VALUES ({values})"  # noqa: S608 - names of columns
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
        rank = F.row_number().over(Window.partitionBy(self.key).orderBy(*newest_first))
        return rows.withColumn(_RANK, rank).where(F.col(_RANK) == 1).drop(_RANK)


def merge(
    table: str,
    rows: DataFrame,
    rule: MergeRule,
    commit: Mapping[str, str],
    *,
    first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
) -> int:
    """Merge in one commit and return the number of rows, one for each key that is not deleted.

    Args:
        commit: configuration of the session that identifies the commit, as a statement has no
            options.
        first_pause_seconds: pause before the first retry; it doubles with each further one.

    Raises:
        LineageTableError: all attempts conflicted with concurrent commits.
    """
    session = rows.sparkSession
    with configured(session, _few_tasks(session)):
        newest = rule.one_per_key(rows).persist()
        try:
            # Fills the cache: both reads of the merge start at once and would compute the rows.
            merged = _count(newest, rule)
            newest.createOrReplaceTempView(_SOURCE)
            statement = (
                f"MERGE INTO {table} t USING {_SOURCE} s ON t.{rule.key} = s.{rule.key} "
                + rule.clauses(newest.columns)
            )
            # The session belongs to the micro-batch or to one job.
            commit = {**commit, **snapshot_configuration({ROWS: str(merged)})}
            with configured(session, commit):
                _run_with_retries(session, table, statement, commit, first_pause_seconds)
        finally:
            session.catalog.dropTempView(_SOURCE)
            newest.unpersist()
    return merged


def snapshot_configuration(properties: Mapping[str, str]) -> dict[str, str]:
    """Configuration by which an Iceberg snapshot gets these properties."""
    return {f"{ICEBERG_PROPERTIES}{name}": value for name, value in properties.items()}


def _count(newest: DataFrame, rule: MergeRule) -> int:
    remains = F.lit(True) if rule.deleted is None else ~F.col(rule.deleted)
    count = newest.agg(F.count_if(remains)).head()
    return int(count[0]) if count else 0


def _run_with_retries(
    session: SparkSession, table: str, statement: str, commit: Mapping[str, str], pause: float
) -> None:
    for attempts_left in reversed(range(_ATTEMPTS)):
        try:
            _run(session, statement, commit)
            return
        except Exception as error:
            if not _is_conflict(error):
                raise
            if not attempts_left:
                raise LineageTableError(
                    f"table {table}: {_ATTEMPTS} merges in a row conflicted with other commits: "
                    f"{error}",
                    hint="reduce the number of concurrent writers, or let them commit less often, "
                    "such as with a longer --trigger",
                    table=table,
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)


def _run(session: SparkSession, statement: str, commit: Mapping[str, str]) -> None:
    properties = {
        name.removeprefix(ICEBERG_PROPERTIES): value
        for name, value in commit.items()
        if name.startswith(ICEBERG_PROPERTIES)
    }
    run_with_properties(session, statement, properties)


def _is_conflict(error: BaseException) -> bool:
    return any(name in f"{error}" for name in _CONFLICTS)


def _few_tasks(session: SparkSession) -> dict[str, str]:
    """On one machine, starting Spark's default of 200 tasks takes longer than the work."""
    context = session.sparkContext
    if not (context.master or "").startswith("local") or session.conf.get(_TASKS) != _DEFAULT_TASKS:
        return {}
    return {_TASKS: str(max(_MIN_TASKS, 2 * context.defaultParallelism))}
