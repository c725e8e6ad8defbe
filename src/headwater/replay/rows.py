"""Archived records as rows, as a Kafka source would give them, in their order.

Each partition is read by one task, sorted by offset: the streaming job had the same division,
and no row changes its place on the way to the sink.
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
from headwater.replay.digest_columns import register_digest_udf
from headwater.replay.predicate import checked_predicate
from headwater.storage.archive.contract import COLUMNS as ARCHIVE_COLUMNS
from headwater.storage.archive.contract import PARTITIONED_BY, VALUE_SQL
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges

# As Spark's Kafka source names them.
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")

# What a file holds; the columns of its folder's name are not among them.
_SCHEMA = ", ".join(
    f"`{name}` {kind}" for name, kind in ARCHIVE_COLUMNS.items() if name not in PARTITIONED_BY
)
# More comparisons than this for each row are slower than looking its offset up.
_MAX_COMPARISONS = 64
_RECORD = "_record"


@dataclass(frozen=True)
class ArchiveRows:
    """The rows of an archive that pass a replay's filters."""

    spark: SparkSession
    archive: Archive
    filters: Mapping[str, Any] = field(default_factory=dict)
    # Of a JSON value, for the predicate.
    fields: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        archive: Archive,
        filters: Mapping[str, Any],
        fields: Mapping[str, str],
    ) -> ArchiveRows:
        """Read this version of an archive."""
        register_digest_udf(spark)
        # Spark would otherwise put the only tasks of all partitions into one.
        spark.conf.set("spark.sql.unionOutputPartitioning", "false")
        return cls(spark, archive, filters, fields)

    def in_order(self, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
        """The records at these offsets; those of a partition in one task and in their order."""
        parts = [
            self._matching(partition, of).coalesce(1).sortWithinPartitions("offset")
            for partition, of in sorted(offsets.items())
        ]
        return reduce(DataFrame.unionAll, parts)

    def count(self, offsets: Mapping[int, OffsetRanges]) -> list[Counted]:
        """How many records match, by partition, and between which offsets they lie."""
        parts = [self._matching(partition, of) for partition, of in sorted(offsets.items())]
        rows = reduce(DataFrame.unionAll, parts).groupBy("partition")
        found = rows.agg(
            F.count("*").alias("records"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )
        return [Counted(**row.asDict()) for row in found.orderBy("partition").collect()]

    def _matching(self, partition: int, offsets: OffsetRanges) -> DataFrame:
        files = self.archive.files_of({partition: offsets})
        rows = _at(self._read(files).where(F.col("partition") == partition), offsets)
        given = self.filters
        if given.get("since_ms") is not None:
            rows = rows.where(F.col("timestamp") >= _time(given["since_ms"]))
        if given.get("until_ms") is not None:
            rows = rows.where(F.col("timestamp") < _time(given["until_ms"]))
        if given.get("key") is not None:
            rows = rows.where(F.col("key") == F.lit(bytearray(given["key"].encode())))
        if given.get("where") is not None:
            rows = self._where(rows, given["where"])
        return rows

    def _read(self, files: Sequence[Path]) -> DataFrame:
        """Exactly these files: which ones hold an offset is known, and Delta need not look."""
        there = [f"file://{file}" for file in files if file.is_file()]
        if there:
            rows = self.spark.read.schema(_SCHEMA).parquet(*there)
        else:
            rows = self.spark.createDataFrame([], _SCHEMA)
        return rows.withColumn("value", F.expr(VALUE_SQL)).select(*COLUMNS)

    def _where(self, rows: DataFrame, text: str) -> DataFrame:
        """The rows for which a user's predicate holds: of plain columns and of decoded fields."""
        decoded = decode(rows, self.fields)
        condition = checked_predicate(decoded.drop(_RECORD), text)
        return decoded.where(condition).select(f"{_RECORD}.*")


@dataclass(frozen=True, slots=True)
class Counted:
    """Records of a partition: how many, the first and the last."""

    partition: int
    records: int
    first: int
    last: int


def decode(rows: DataFrame, fields: Mapping[str, str]) -> DataFrame:
    """What a predicate may compare: columns of the record with key and value as text, `json`
    for the fields of any value, and the fields that the logic knows by their names."""
    record = F.struct(*COLUMNS).alias(_RECORD)
    text = F.col("value").cast("string")
    plain: list[Column | str] = ["topic", "partition", "offset", "timestamp"]
    own = [name for name in fields if name not in (*COLUMNS, "json")]
    if own:
        rows = parse_json(rows, dict(fields))
    return rows.select(
        record,
        F.col("key").cast("string").alias("key"),
        text.alias("value"),
        *plain,
        F.try_parse_json(text).alias("json"),
        *(F.col("data")[name].alias(name) for name in own),
    )


def _at(rows: DataFrame, offsets: OffsetRanges) -> DataFrame:
    offset = F.col("offset")
    ranges = offsets.ranges()
    rows = rows.where(offset.between(ranges[0][0], ranges[-1][1]))
    if len(ranges) <= _MAX_COMPARISONS:
        return rows.where(reduce(Column.__or__, (offset.between(*one) for one in ranges)))
    # Scattered ones are looked up; one row for each, exploded inside the JVM.
    wanted = rows.sparkSession.createDataFrame(ranges, "first bigint, last bigint").select(
        F.explode(F.sequence("first", "last")).alias("offset")
    )
    return rows.join(F.broadcast(wanted), "offset", "left_semi").select(*COLUMNS)


def _time(milliseconds: int) -> Column:
    return F.timestamp_millis(F.lit(milliseconds))


def address_text() -> Column:
    """The address of an archived record, as it is written."""
    return F.concat(
        F.col("topic"),
        F.lit("/"),
        F.col("partition").cast("string"),
        F.lit("@"),
        F.col("offset").cast("string"),
    )
