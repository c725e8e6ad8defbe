"""The column `lineage` of the rows that a job writes, and what a delivery mode needs of it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headwater.delivery.modes import Mode
from headwater.errors import InputError
from headwater.spark.row_lineage import EXACT, RowsWithLineage, add_row_lineage


def with_lineage_column(rows: DataFrame, mode: Mode | None = None) -> RowsWithLineage:
    """The rows with the column `lineage`, which is added where they don't have it.

    Raises:
        InputError: no row comes from Kafka; or the mode finds records by their parents, and these
            are not known exactly, or several rows may have the same.
    """
    found = add_row_lineage(rows)
    if mode is None or not mode.identifies_records:
        return found
    if found.coverage.kind != EXACT:
        raise InputError(
            f"{mode.name} delivery needs the exact parents of every record, which are not known "
            f"after {', '.join(found.coverage.steps)}",
            hint="let the function keep the column `lineage`, or use another delivery mode, such "
            "as transactional",
        )
    if found.shared_by is not None:
        raise InputError(
            f"{mode.name} delivery finds records by their parents, but several rows may have the "
            f"same parents after {found.shared_by}",
            hint="add a column `ordinal` whose numbers differ between rows of the same parents, "
            "or use delivery=transactional",
        )
    return found
