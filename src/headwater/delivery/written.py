"""Rows of an interrupted batch that are not written yet."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
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
    identity = lineage_identity(F.col(LINEAGE_COLUMN), job_name, F.col(ORDINAL_COLUMN))
    if by_first_parent:
        written = {each.partition(",")[0] for each in written}
        identity = F.substring_index(identity, ",", 1)
    existing = local_rows(rows.sparkSession, ((each,) for each in written), f"{_IDENTITY} string")
    identified = rows.withColumn(_IDENTITY, identity)
    return identified.join(F.broadcast(existing), _IDENTITY, "left_anti")
