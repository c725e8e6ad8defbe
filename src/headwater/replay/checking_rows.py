"""The part of a check for which rows have to be looked at by Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.replay.digest import Checksum
from headwater.replay.digest_columns import (
    checksum_metrics,
    checksum_of,
    record_hash,
    register_digest_udf,
)
from headwater.replay.identities import CONTENT
from headwater.replay.plan import Plan
from headwater.replay.rows import ArchiveRows, address_text
from headwater.replay.table_target import rows_of_run
from headwater.settings import Settings
from headwater.storage.archive.reader import Archive


def read_checksum(plan: Plan, spark: SparkSession, settings: Settings) -> Checksum:
    """Of the archived records that the plan selects now."""
    archive = Archive.open(plan.topic, settings)
    # The predicate was checked when the plan was made; fields are those of the logic.
    rows = ArchiveRows.open(spark, archive, plan.filters, plan.fields).in_order(plan.offsets)
    return _checksum(rows.select(record_hash(address_text(), F.col("key"), F.col("value"))))


def written_checksum(plan: Plan, run_id: str, spark: SparkSession) -> Checksum:
    """Of the rows that a replay has in a table."""
    register_digest_udf(spark)
    return _checksum(rows_of_run(spark, plan.target, run_id).select(CONTENT))


def _checksum(hashes: DataFrame) -> Checksum:
    (row,) = hashes.agg(*checksum_metrics(F.col(hashes.columns[0]))).collect()
    return checksum_of(row.asDict())
