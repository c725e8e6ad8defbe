"""The lineage of rows whose query does not keep the column `lineage`.

The plan is rewritten in the JVM (`java/…/rowlineage`): every row gets its parents from the Kafka
sources below, as it does with the extension for jobs that are not changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame

from headwater.errors import InputError, NotInstalledError
from headwater.spark.session import own_class, refuse_connect
from headwater.spark.source import LINEAGE_COLUMN

EXACT = "exact"


@dataclass(frozen=True)
class RowCoverage:
    """How much is known of the parents of a query's rows.

    Attributes:
        kind: `exact`; `ranges` if parents are known to be within ranges of offsets; `unknown`;
            `off`.
        steps: the steps of the query because of which parents are not exact.
        reason: why it is off.
    """

    kind: str = EXACT
    steps: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class RowsWithLineage:
    """Rows with the column `lineage`.

    Attributes:
        shared_by: the step after which several rows may have the same parents and ordinal; None
            if no two rows have, or the job numbers its rows in its own column `ordinal`.
    """

    rows: DataFrame
    coverage: RowCoverage = RowCoverage()
    shared_by: str | None = None


def with_row_lineage(rows: DataFrame) -> DataFrame:
    """Rows of a query that reads Kafka, with a column `lineage` for `LineageJob.write`, and
    a column `ordinal` if one record has several outputs.

    For sessions without the extension for row lineage, such as on platforms that don't allow one.
    Rows that have the column are returned as they are.

    Raises:
        InputError: no row comes from Kafka, or the rows are of Spark Connect.
    """
    return add_row_lineage(rows).rows


def add_row_lineage(rows: DataFrame) -> RowsWithLineage:
    """The rows with their lineage, and how exact it is."""
    refuse_connect(rows)
    frame = rows._jdf  # noqa: SLF001
    if LINEAGE_COLUMN in rows.columns:
        # Added by `with_row_lineage`, or kept by the job.
        try:
            return _result(own_class("rowlineage.RowLineage").known(frame), rows)
        except NotInstalledError:
            return RowsWithLineage(rows)
    try:
        found = own_class("rowlineage.RowLineage").withRowLineage(frame)
    except IllegalArgumentException as error:
        reason = str(error)
        raise InputError(
            f"the rows have no column {LINEAGE_COLUMN!r}, and it can't be added: {reason}",
            hint="write rows that come from `read`, or keep the column in every select",
        ) from None
    return _result(found, DataFrame(found.rows(), rows.sparkSession))


def _result(found: Any, rows: DataFrame) -> RowsWithLineage:
    coverage = RowCoverage(found.kind(), tuple(found.steps()))
    return RowsWithLineage(rows, coverage, found.sharedBy())


def coverage_of_query(name: str) -> RowCoverage | None:
    """What the extension did for the last start of a plain query.

    None if the extension is not loaded, or the query reads no topic.
    """
    try:
        status = own_class("rowlineage.RowLineageStatus").json(name)
    except NotInstalledError:
        return None
    if status is None:
        return None
    known = json.loads(status)
    return RowCoverage(known["kind"], tuple(known["steps"]), known["reason"])


def original_plan(plan: Any) -> Any:
    """The plan of a query in the JVM, without the columns that the extension has added."""
    try:
        return own_class("rowlineage.OriginalPlan").of(plan)
    except NotInstalledError:
        return plan
