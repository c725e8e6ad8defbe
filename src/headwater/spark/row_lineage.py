"""The lineage of rows whose query does not keep the column `lineage`.

The plan is rewritten in the JVM (`java/…/rowlineage`): every row gets its parents from the Kafka
sources below, as it does with the extension for jobs that are not changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame

from headwater.errors import InputError
from headwater.spark.session import own_class
from headwater.spark.source import LINEAGE_COLUMN

EXACT = "exact"


@dataclass(frozen=True)
class RowsWithLineage:
    """Rows with the column `lineage`.

    Attributes:
        coverage: `exact`; `ranges` if parents are known to be within ranges of offsets; `unknown`.
        steps: the steps of the query because of which parents are not exact.
    """

    rows: DataFrame
    coverage: str = EXACT
    steps: tuple[str, ...] = ()


def with_row_lineage(rows: DataFrame) -> DataFrame:
    """Rows of a query that reads Kafka, with a column `lineage` for `LineageJob.write`, and
    a column `ordinal` if one record has several outputs.

    For sessions without the extension for row lineage, such as on platforms that don't allow one.
    Rows that have the column are returned as they are.

    Raises:
        InputError: no row comes from Kafka.
    """
    return add_row_lineage(rows).rows


def add_row_lineage(rows: DataFrame) -> RowsWithLineage:
    """The rows with their lineage, and how exact it is."""
    if LINEAGE_COLUMN in rows.columns:
        return RowsWithLineage(rows)
    try:
        found = own_class("rowlineage.RowLineage").withRowLineage(rows._jdf)  # noqa: SLF001
    except IllegalArgumentException as error:
        reason = str(error)
        raise InputError(
            f"the rows have no column {LINEAGE_COLUMN!r}, and it can't be added: {reason}",
            hint="write rows that come from `read`, or keep the column in every select",
        ) from None
    return RowsWithLineage(
        DataFrame(found.rows(), rows.sparkSession), found.kind(), tuple(found.steps())
    )
