"""Rows of an interrupted batch that are not written yet."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.sink import ORDINAL_COLUMN
from headwater.spark.local_rows import local_rows
from headwater.spark.source import LINEAGE_COLUMN, lineage_identity

_IDENTITY = "_identity"


def without_written(
    rows: DataFrame, written: Collection[str], job_name: str, *, by_first_parent: bool = False
) -> DataFrame:
    """Rows for the sink without those whose identities are written; the order is kept.

    Args:
        by_first_parent: a first parent has one output, whatever its other parents.
    """
    if not written:
        return rows
    identity = _identity_in(job_name)
    if by_first_parent:
        written = {each.partition(",")[0] for each in written}
        identity = F.substring_index(identity, ",", 1)
    identified = rows.withColumn(_IDENTITY, identity)
    return identified.join(_rows_of(written, rows.sparkSession), _IDENTITY, "left_anti")


def shared_identity(rows: DataFrame, written: Collection[str], job_name: str) -> str | None:
    """A written identity that several of the rows have, some of which may not be written; runs a
    Spark job if any are written."""
    if not written:
        return None
    identities = rows.select(_identity_in(job_name).alias(_IDENTITY))
    found = identities.join(_rows_of(written, rows.sparkSession), _IDENTITY, "left_semi")
    shared = found.groupBy(_IDENTITY).count().where("count > 1").agg(F.min(_IDENTITY)).first()
    return shared[0] if shared else None


def _identity_in(job_name: str) -> Column:
    return lineage_identity(F.col(LINEAGE_COLUMN), job_name, F.col(ORDINAL_COLUMN))


def _rows_of(written: Collection[str], spark: SparkSession) -> DataFrame:
    return F.broadcast(local_rows(spark, ((each,) for each in written), f"{_IDENTITY} string"))
