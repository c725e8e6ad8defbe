"""Archived records as rows with the columns of Spark's Kafka source, in order.

Each partition is read by one task and sorted by offset: the streaming job had the same
partitioning, and rows keep their order up to the sink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import parse_json
from headwater.model.local_files import file_uri
from headwater.replay.identities import register_digest_udf
from headwater.replay.predicate import checked_predicate
from headwater.spark.compat import json_column
from headwater.spark.local_rows import local_rows
from headwater.spark.source import address_text
from headwater.storage.archive.contract import COLUMNS as ARCHIVE_COLUMNS
from headwater.storage.archive.contract import PARTITIONED_BY, VALUE_SQL
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

# The columns of Spark's Kafka source.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")

# The columns of a file; partition columns are in the names of its folders.
_SCHEMA = ", ".join(
    f"`{name}` {kind}" for name, kind in ARCHIVE_COLUMNS.items() if name not in PARTITIONED_BY
)
# With more comparisons per row than this, a lookup of the offset is faster.
_MAX_COMPARISONS = 64
_RECORD = "_record"
# For a query on rows in order: otherwise Spark merges the single tasks of all partitions into one.
ORDER_CONFIGURATION = {"spark.sql.unionOutputPartitioning": "false"}


@dataclass(frozen=True)
class ArchivedRows:
    """The rows of an archive that pass a replay's filters."""

    spark: SparkSession
    archive: Archive
    filters: Mapping[str, Any] = field(default_factory=dict)
    # The schema of a JSON value, for the predicate.
    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        archive: Archive,
        filters: Mapping[str, Any],
        fields: Mapping[str, str],
    ) -> ArchivedRows:
        """The rows of this version of an archive."""
        register_digest_udf(spark)
        return cls(spark, archive, filters, fields)

    def in_order(self, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
        """The records at these offsets; each partition in one task, in order."""
        parts = [
            self._matching(partition, ranges).coalesce(1).sortWithinPartitions("offset")
            for partition, ranges in sorted(offsets.items())
        ]
        return reduce(DataFrame.unionAll, parts)

    def count(self, offsets: Mapping[int, OffsetRanges]) -> list[PartitionCount]:
        """The number of matching records by partition, and their first and last offset."""
        parts = [self._matching(partition, ranges) for partition, ranges in sorted(offsets.items())]
        rows = reduce(DataFrame.unionAll, parts).groupBy("partition")
        counts = rows.agg(
            F.count("*").alias("records"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )
        return [PartitionCount(**row.asDict()) for row in counts.orderBy("partition").collect()]

    def _matching(self, partition: int, offsets: OffsetRanges) -> DataFrame:
        files = self.archive.files_of({partition: offsets})
        rows = _at(self._read(files).where(F.col("partition") == partition), offsets)
        filters = self.filters
        if filters.get("since_ms") is not None:
            rows = rows.where(F.col("timestamp") >= _time(filters["since_ms"]))
        if filters.get("until_ms") is not None:
            rows = rows.where(F.col("timestamp") < _time(filters["until_ms"]))
        if filters.get("key") is not None:
            rows = rows.where(F.col("key") == F.lit(bytearray(filters["key"].encode())))
        if filters.get("where") is not None:
            rows = self._where(rows, filters["where"])
        return rows

    def _read(self, files: Sequence[Path]) -> DataFrame:
        """Read these files directly: the archive knows which of them contain an offset."""
        existing = [file_uri(file) for file in files if file.is_file()]
        if existing:
            rows = self.spark.read.schema(_SCHEMA).parquet(*existing)
        else:
            rows = local_rows(self.spark, (), _SCHEMA)
        return rows.withColumn("value", F.expr(VALUE_SQL)).select(*COLUMNS)

    def _where(self, rows: DataFrame, text: str) -> DataFrame:
        """The rows that match a user's predicate on columns and decoded fields."""
        decoded = decode(rows, self.fields)
        condition = checked_predicate(decoded.drop(_RECORD), text)
        return decoded.where(condition).select(f"{_RECORD}.*")


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """The number of records of a partition, and their first and last offset."""

    partition: int
    records: int
    first: int
    last: int


def decode(rows: DataFrame, fields: Mapping[str, str]) -> DataFrame:
    """The columns that a predicate may use: those of the record with key and value as text,
    `json` for the fields of any value, and the transform's fields by name."""
    record = F.struct(*COLUMNS).alias(_RECORD)
    text = F.col("value").cast("string")
    unchanged: list[Column | str] = ["topic", "partition", "offset", "timestamp"]
    decoded = [name for name in fields if name not in (*COLUMNS, "json")]
    if decoded:
        rows = parse_json(rows, dict(fields))
    return rows.select(
        record,
        F.col("key").cast("string").alias("key"),
        text.alias("value"),
        *unchanged,
        *(column.alias(name) for name, column in json_column(text).items()),
        *(F.col("data")[name].alias(name) for name in decoded),
    )


def _at(rows: DataFrame, offsets: OffsetRanges) -> DataFrame:
    offset = F.col("offset")
    ranges = offsets.ranges()
    rows = rows.where(offset.between(ranges[0][0], ranges[-1][1]))
    if len(ranges) <= _MAX_COMPARISONS:
        return rows.where(reduce(Column.__or__, (offset.between(*pair) for pair in ranges)))
    # Scattered offsets are joined: one row for each, exploded inside the JVM.
    wanted = local_rows(rows.sparkSession, ranges, "first bigint, last bigint").select(
        F.explode(F.sequence("first", "last")).alias("offset")
    )
    return rows.join(F.broadcast(wanted), "offset", "left_semi").select(*COLUMNS)


def _time(milliseconds: int) -> Column:
    return F.timestamp_millis(F.lit(milliseconds))


def archived_address() -> Column:
    """The address of an archived record, as text."""
    return address_text(F.col("topic"), F.col("partition"), F.col("offset"))
