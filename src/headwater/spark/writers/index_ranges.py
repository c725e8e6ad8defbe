"""Joins rows with consecutive offsets into ranges.

A job that copies creates records n, n+1, n+2 from records m, m+1, m+2, which one row represents.
Filtered or shuffled records need a row for each edge.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headwater.spark.writers.index_parse import READ, WITHOUT_LINEAGE
from headwater.storage.index.contract import COLUMNS, EDGE, MADE, SCAN, WITHIN

_SHIFT = "_shift"
_EDGE_KEYS = ("parent_topic", "parent_partition", "topic", "partition", _SHIFT)
_RANGE = ("parent_topic", "parent_partition", "parent_first", "parent_last")
_WITHIN_KEYS = (*_RANGE, "topic", "partition")
_MADE_KEYS = ("topic", "partition", "job_name", "job_version", "batch_version", "run_id")
_SCAN_KEYS = ("topic", "partition")
SCAN_SUMS = ("records", "without_lineage", "unreadable", "refused", "unlisted")


def edges_of(parsed: DataFrame) -> DataFrame:
    """The edges from parents to records, in ranges."""
    singles = parsed.select("topic", "partition", "offset", F.explode("parents").alias("parent"))
    return join_edges(
        singles.select(
            F.col("parent.topic").alias("parent_topic"),
            F.col("parent.partition").alias("parent_partition"),
            F.col("parent.offset").alias("parent_first"),
            F.col("parent.offset").alias("parent_last"),
            "topic",
            "partition",
            F.col("offset").alias("first"),
        )
    )


def within_of(parsed: DataFrame) -> DataFrame:
    """The records with ranges; consecutive ones of the same range are one row."""
    singles = parsed.select("topic", "partition", "offset", F.explode("ranges").alias("range"))
    return join_within(
        singles.select(
            F.col("range.topic").alias("parent_topic"),
            F.col("range.partition").alias("parent_partition"),
            F.col("range.first").alias("parent_first"),
            F.col("range.last").alias("parent_last"),
            "topic",
            "partition",
            F.col("offset").alias("first"),
            F.col("offset").alias("last"),
        )
    )


def made_of(parsed: DataFrame) -> DataFrame:
    """Which job, version, batch and run produced which records."""
    by_a_job = F.col("job_name").isNotNull() & F.col("lineage").isin(READ, WITHOUT_LINEAGE)
    offset = F.col("offset")
    return join_made(
        parsed.where(by_a_job).select(
            *_MADE_KEYS, offset.alias("first"), offset.alias("last"), "unlisted"
        )
    )


def join_edges(edges: DataFrame) -> DataFrame:
    """Join edges with consecutive parents and consecutive children."""
    # With one distance between parent and child, consecutive parents have consecutive children.
    shifted = edges.withColumn(_SHIFT, F.col("first") - F.col("parent_first"))
    joined = _join(shifted, _EDGE_KEYS, "parent_first", "parent_last")
    return joined.withColumn("first", F.col("parent_first") + F.col(_SHIFT)).drop(_SHIFT)


def join_within(rows: DataFrame) -> DataFrame:
    """Join consecutive records with the same range."""
    return _join(rows, _WITHIN_KEYS, "first", "last")


def join_made(made: DataFrame) -> DataFrame:
    """Join consecutive records of one batch."""
    return _join(made, _MADE_KEYS, "first", "last", ("unlisted",))


def join_scans(scans: DataFrame) -> DataFrame:
    """Join consecutive ranges of offsets that were read."""
    return _join(scans, _SCAN_KEYS, "first", "last", SCAN_SUMS)


JOINS = {EDGE: join_edges, WITHIN: join_within, MADE: join_made, SCAN: join_scans}


def as_rows(kind: str, level: int, rows: DataFrame) -> DataFrame:
    """All columns of the table; those of other kinds are null."""

    def column(name: str, type_: str) -> Column:
        value = F.col(name) if name in rows.columns else F.lit(None)
        return value.cast(type_).alias(name)

    columns = [column(name, type_) for name, type_ in COLUMNS.items()]
    return rows.select(F.lit(kind).alias("kind"), F.lit(level).alias("level"), *columns)


def _join(
    rows: DataFrame, keys: Sequence[str], first: str, last: str, sums: Sequence[str] = ()
) -> DataFrame:
    """Gaps and islands: a row that does not continue the previous ones starts a new range."""
    in_order = Window.partitionBy(*keys).orderBy(first)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    begins = F.col(first) > F.max(last).over(before) + 1
    marked = rows.withColumn("_begins", F.coalesce(begins, F.lit(True)).cast("int"))
    island = F.sum("_begins").over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    grouped = marked.withColumn("_island", island).groupBy(*keys, "_island")
    joined = grouped.agg(
        F.min(first).alias(first),
        F.max(last).alias(last),
        *(F.sum(name).alias(name) for name in sums),
    )
    return joined.drop("_island")
