"""Spark columns that identify the outputs of a replay and their content, and their checksum."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from headwater.model.header import IDENTITY_REGEX, JOB_NAME, LINEAGE, RUN_REGEX, SINGLE_PARENT_REGEX
from headwater.replay.manifest import NO_IDENTITY, Checksum
from headwater.spark.compat import try_cast
from headwater.storage.offset_ranges import OffsetRanges

IDENTITY, CONTENT = "_identity", "_content"

_DIGEST_FUNCTION = "headwater_record_digest"
_DIGEST_CLASS = "dev.headwater.delivery.RecordDigest"


def register_digest_udf(spark: SparkSession) -> None:
    """Register the function that `record_hash` calls with a session."""
    if not spark.catalog.functionExists(_DIGEST_FUNCTION):
        spark.udf.registerJavaFunction(_DIGEST_FUNCTION, _DIGEST_CLASS, LongType())


def record_hash(identity: Column, key: Column, value: Column) -> Column:
    """64 bits of the SHA-256 of a record, as a number; key and value are binary."""
    text = F.coalesce(identity, F.lit(NO_IDENTITY))
    return F.call_function(_DIGEST_FUNCTION, text.cast("binary"), key, value)


def checksum_metrics(hashes: Column) -> list[Column]:
    """Metrics for `observe`: the number of hashes and their exclusive or; nulls are ignored."""
    return [F.count(hashes).alias("records"), F.bit_xor(hashes).alias("checksum")]


def checksum_of(metrics: Mapping[str, Any]) -> Checksum:
    """The checksum that was observed; without rows it is 0."""
    return Checksum(int(metrics["records"] or 0), int(metrics["checksum"] or 0) % 2**64)


def in_topic(
    records: DataFrame, job_name: str, run_id: str, other_runs: Collection[str] = ()
) -> DataFrame:
    """Identity and content of the records that a job wrote to a topic, except in one run.

    Args:
        other_runs: of the job; the only mark of records with a compact stamp.
    """
    lineage = _header_text(LINEAGE)
    # Null, which equals nothing, for records that were made from ranges of inputs.
    identity = F.nullif(F.regexp_extract(lineage, IDENTITY_REGEX, 1), F.lit(""))
    run, job = F.regexp_extract(lineage, RUN_REGEX, 1), _header_text(JOB_NAME)
    own = job == job_name
    if other_runs:
        own = own | (job.isNull() & run.isin(*other_runs))
    return records.where(own & (run != run_id)).select(
        identity.alias(IDENTITY),
        record_hash(identity, F.col("key"), F.col("value")).alias(CONTENT),
    )


def from_inputs(existing: DataFrame, topic: str, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
    """The results that these inputs may produce again; all results of several parents."""
    identity = F.col(IDENTITY)
    single = identity.rlike(SINGLE_PARENT_REGEX)

    def part(number: int) -> Column:
        return F.regexp_extract(identity, SINGLE_PARENT_REGEX, number)

    partition, offset = try_cast(part(2), "int"), try_cast(part(3), "bigint")
    near = reduce(
        Column.__or__,
        (
            (partition == number) & offset.between(int(ranges.first[0]), int(ranges.last[-1]))
            for number, ranges in offsets.items()
        ),
    )
    return existing.where(~single | ((part(1) == topic) & near))


def without(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """The rows that do not exist with the same content, in their order."""
    known = F.broadcast(existing.select(IDENTITY, CONTENT).distinct())
    return rows.join(known, [IDENTITY, CONTENT], "left_anti")


def _header_text(name: str) -> Column:
    """The first header of that name, as text."""
    matching = F.filter("headers", lambda header: header["key"] == name)
    return F.try_element_at(matching, F.lit(1))["value"].cast("string")
