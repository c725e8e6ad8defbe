"""Merges rows into an Iceberg table by a key: one row for each, whoever wrote it before.

A merge reads its source twice, first for the files to rewrite, then for the rows. So the source
is kept while it runs: two readings of a changing source would not fit together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headwater.errors import InputError
from headwater.sparkconf import configured

_SOURCE = "headwater_merge_source"
_PLACE = "_headwater_place"
_SNAPSHOT = "spark.sql.iceberg.snapshot-property."
_TASKS, _DEFAULT_TASKS, _LEAST_TASKS = "spark.sql.shuffle.partitions", "200", 16


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

    def clauses(self) -> str:
        """What happens to rows that are there, and to new ones."""
        # A comparison with null is not true.
        old = f" AND NOT coalesce({self.unless}, false)" if self.unless else ""
        if self.deleted is None:
            return f"WHEN MATCHED{old} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        return (
            f"WHEN MATCHED{old} AND s.{self.deleted} THEN DELETE "
            f"WHEN MATCHED{old} THEN UPDATE SET * "
            f"WHEN NOT MATCHED AND NOT s.{self.deleted} THEN INSERT *"
        )

    def one_per_key(self, rows: DataFrame) -> DataFrame:
        """The newest row of each key."""
        newest_first = (F.desc_nulls_last(name) for name in self.newest)
        place = F.row_number().over(Window.partitionBy(self.key).orderBy(*newest_first))
        return rows.withColumn(_PLACE, place).where(F.col(_PLACE) == 1).drop(_PLACE)


def merge(table: str, rows: DataFrame, rule: MergeRule, marks: Mapping[str, str]) -> None:
    """Merge in one commit, whose snapshot carries the marks."""
    session = rows.sparkSession
    newest = rule.one_per_key(rows).persist()
    # A statement has no options of its own; the session is the micro-batch's, or one job's.
    chosen = {f"{_SNAPSHOT}{name}": value for name, value in marks.items()}
    with configured(session, {**chosen, **_few_tasks(session)}):
        try:
            # Both readings of the merge begin at once: without this each would make the rows.
            newest.count()
            newest.createOrReplaceTempView(_SOURCE)
            session.sql(
                f"MERGE INTO {table} t USING {_SOURCE} s ON t.{rule.key} = s.{rule.key} "
                + rule.clauses()
            )
        finally:
            session.catalog.dropTempView(_SOURCE)
            newest.unpersist()


def _few_tasks(session: SparkSession) -> dict[str, str]:
    """On one machine Spark's 200 tasks for each step take longer than their rows."""
    context = session.sparkContext
    if not (context.master or "").startswith("local") or session.conf.get(_TASKS) != _DEFAULT_TASKS:
        return {}
    return {_TASKS: str(max(_LEAST_TASKS, 2 * context.defaultParallelism))}
