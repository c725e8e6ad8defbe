"""Rows as they are handed to a sink: good and bad ones in one pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import (
    ERROR_COLUMN,
    RAW_VALUE_COLUMN,
    dead_letter_value,
    size_error,
)
from headwater.delivery.sink import sink_rows
from headwater.errors import InputError
from headwater.model.dead_letter import LATE
from headwater.model.topic_names import parents_topic
from headwater.spark.lineage_columns import LINEAGE_COLUMN

# Steps of a plan behind which a task has rows of more than one partition.
_SHUFFLES = re.compile(
    r"\b(Aggregate|Join|Repartition\w*|Sort|Distinct|Deduplicate\w*|Window|Coalesce|Rebalance\w*"
    r"|\w*MapGroups\w*|TransformWithState\w*)\b"
)


def rows_to_send(records: DataFrame, topics: tuple[str, ...], limit: int) -> DataFrame:
    """Good and bad records in one pass; each row names the topic that it goes to.

    Args:
        topics: the output, its dead letter and, if there is one, the topic of late records.
        limit: values with more bytes are set aside.
    """
    rows = _with_errors(records, limit)
    error, raw = F.col(ERROR_COLUMN), F.col(RAW_VALUE_COLUMN)
    failed = error.isNotNull()
    value = F.when(failed, dead_letter_value(raw, error, limit)).otherwise(F.col("value"))
    topic = F.when(failed, F.lit(topics[1])).otherwise(F.lit(topics[0]))
    for late in topics[2:]:
        topic = F.when(error["kind"] == LATE, F.lit(late)).otherwise(topic)
    return sink_rows(rows.withColumn("value", value), topic)


def _with_errors(records: DataFrame, limit: int) -> DataFrame:
    """Rows with binary values, their raw ones, and an error where there is one."""
    columns = records.columns
    rows = records.withColumn("value", F.col("value").cast("binary"))
    if RAW_VALUE_COLUMN not in columns:
        rows = rows.withColumn(RAW_VALUE_COLUMN, F.col("value"))
    error = size_error(F.col("value"), limit)
    if ERROR_COLUMN in columns:
        error = F.coalesce(F.col(ERROR_COLUMN), error)
    return rows.withColumn(ERROR_COLUMN, error)


def has_shuffle(records: DataFrame) -> bool:
    """Whether a task may have rows of more than one partition of the input."""
    return shuffles_of(records) > 0


def shuffles_of(records: DataFrame) -> int:
    """How many steps of the plan move rows between tasks, or out of their order."""
    return len(_SHUFFLES.findall(_plan(records)))


def topics_for_parents(records: DataFrame, topic: str) -> list[str]:
    """A topic for parents beyond those that a header lists, where rows are aggregated."""
    return [parents_topic(topic)] if re.search(r"\bAggregate\b", _plan(records)) else []


def _plan(records: DataFrame) -> str:
    return str(records._jdf.queryExecution().analyzed().toString())  # noqa: SLF001


_LINEAGE_NEEDED = (LINEAGE_COLUMN, "made by `read`; keep it in every select")


def check_topic_columns(records: DataFrame, topic: str) -> None:
    """Refuse rows that can't be written with their lineage."""
    value = ("value", "the record's value, text or binary")
    _check_needed(records, f"topic {topic!r}", (value, _LINEAGE_NEEDED))


def check_table_columns(rows: DataFrame, table: str | Path) -> None:
    _check_needed(rows, f"table {str(table)!r}", (_LINEAGE_NEEDED,))
    if ERROR_COLUMN in rows.columns:
        raise InputError(
            f"rows for table {str(table)!r} have a column {ERROR_COLUMN!r}, but a table has no "
            "dead letter",
            hint="write bad records to a topic in a job of their own, and drop the column here",
        )


def _check_needed(rows: DataFrame, target: str, columns: Sequence[tuple[str, str]]) -> None:
    for needed, why in columns:
        if needed not in rows.columns:
            raise InputError(
                f"rows for {target} have no column {needed!r}: {', '.join(rows.columns)}",
                hint=f"`{needed}` is {why}",
            )
