"""The query plan of the join: one pass, one stateful operator, three output topics.

Records that can't be joined (malformed, late, tombstones, heartbeats) fail a condition on their own
side. Spark then neither stores them nor searches for a match, but outputs them at once, because it
is a full outer join. So rejected records go through the same sink, exactly once, without a second
pass and without state. A filter after the join makes it an inner, left or right outer join.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.delivery.sink import ERROR_COLUMN, RAW_VALUE_COLUMN
from headwater.join.output import ColumnOf, default_key, default_value
from headwater.join.rule import JoinRule
from headwater.join.side_rows import SideColumns, side_rows
from headwater.join.spans import millis
from headwater.join.times import HeartbeatTopic
from headwater.spark.source import LINEAGE_COLUMN, join_lineage

LEFT_COLUMN, RIGHT_COLUMN = "left", "right"

_ABOUT = ("_of_primary", "_partition", "_offset", "_time")
# Column metadata by which Spark recognizes an event time.
_WATERMARK_METADATA = "spark.watermarkDelayMs"
_LESS_THAN_A_DAY = 86_399_000


def join_rows(
    inputs: Mapping[str, DataFrame],
    rule: JoinRule,
    *,
    heartbeats: HeartbeatTopic,
    max_ahead: timedelta,
    key: ColumnOf | None = None,
    value: ColumnOf | None = None,
) -> DataFrame:
    """Joined rows and rejected records, as rows for `LineageJob.write`.

    Call `register_functions` with the checkpoint of the query first.

    Args:
        inputs: rows of `LineageJob.read` by topic.
        heartbeats: a topic that both inputs contain in addition; see `heartbeats`.
        max_ahead: records further ahead of their micro-batch are dead letters.
    """
    left, right = SideColumns(rule.left, "left"), SideColumns(rule.right, "right")
    left_rows, right_rows = (
        side_rows(inputs[side.rule.topic], side, heartbeats, max_ahead) for side in (left, right)
    )
    joined = left_rows.join(right_rows, _match(left, right, rule), "full_outer")
    kept = joined.where(_kept(left, right, rule).isNotNull())
    primary, other = (right, left) if rule.primary is rule.right else (left, right)
    output = _output(
        left,
        right,
        lineage=_lineage(primary, other),
        key=key or default_key(rule),
        value=value or default_value(rule),
    )
    records = [left.record.alias(LEFT_COLUMN), right.record.alias(RIGHT_COLUMN)]
    if rule.matches == "first":
        rows = kept.select(*output, *records, *_about(primary, other))
        return rows.dropDuplicates(list(_ABOUT)).drop(*_ABOUT)
    if rule.matches == "nearest":
        return _nearest_match(kept, output, records, primary, other)
    return kept.select(*output, *records)


def _kept(left: SideColumns, right: SideColumns, rule: JoinRule) -> Column:
    """Not null in rows that are kept: joined rows, unmatched ones of the join type, and rejected
    records. Heartbeats have no offset.

    One expression over both sides: with a condition on one of them Spark would choose another join
    type.
    """
    of_left, of_right = left.col("offset"), right.col("offset")
    kept = {
        "inner": (
            left.rejected_offset,
            right.rejected_offset,
            F.when(of_left.isNotNull(), of_right),
        ),
        "left_outer": (of_left, right.rejected_offset),
        "right_outer": (of_right, left.rejected_offset),
        "full_outer": (of_left, of_right),
    }
    return F.coalesce(*kept[rule.how])


def _match(left: SideColumns, right: SideColumns, rule: JoinRule) -> Column:
    match = left.joinable & right.joinable
    for ours, theirs in zip(rule.left.keys, rule.right.keys, strict=True):
        match &= left.field(ours) == right.field(theirs)
    time, base = right.col("at"), left.col("at")
    return (
        match
        & (time >= _later(base, millis(rule.lower)))
        & (time <= _later(base, millis(rule.upper)))
    )


def _later(time: Column, count: int) -> Column:
    # Evaluated for each pair of records with one key; the addition is the most expensive part.
    # Spark adds days in the time zone of the session, where they may have 23 or 25 hours.
    while count:
        part = max(-_LESS_THAN_A_DAY, min(count, _LESS_THAN_A_DAY))
        time = time + F.expr(f"INTERVAL '{part / 1000:.3f}' SECOND")
        count -= part
    return time


def _output(
    left: SideColumns, right: SideColumns, *, lineage: Column, key: ColumnOf, value: ColumnOf
) -> list[Column]:
    """The columns of `LineageJob.write`."""
    rejected = F.coalesce(left.col("rejected"), right.col("rejected"))
    joined = rejected.isNull()
    fields = (left.fields, right.fields)
    return [
        F.when(joined, key(*fields).cast("binary")).otherwise(rejected["key"]).alias("key"),
        F.when(joined, value(*fields).cast("binary")).otherwise(rejected["value"]).alias("value"),
        rejected["value"].alias(RAW_VALUE_COLUMN),
        rejected["error"].alias(ERROR_COLUMN),
        lineage.alias(LINEAGE_COLUMN),
    ]


def _lineage(primary: SideColumns, other: SideColumns) -> Column:
    """The primary side first: with `first`, an interrupted batch is completed by first parents."""
    return (
        F.when(other.col("offset").isNull(), primary.lineage)
        .when(primary.col("offset").isNull(), other.lineage)
        .otherwise(join_lineage(primary.lineage, other.lineage))
    )


def _nearest_match(
    kept: DataFrame,
    output: list[Column],
    records: list[Column],
    primary: SideColumns,
    other: SideColumns,
) -> DataFrame:
    """Only the match nearest in time for each record of the primary side, when no more can come."""
    distance = F.abs(F.unix_micros(other.col("at")) - F.unix_micros(primary.col("at")))
    # Not null, because the aggregate ignores rows with a null order.
    order = F.struct(
        F.coalesce(distance, F.lit(0)),
        F.coalesce(other.col("partition"), F.lit(0)),
        F.coalesce(other.col("offset"), F.lit(0)),
    )
    rows = kept.select(
        F.struct(*output).alias("_row"), *records, order.alias("_order"), *_about(primary, other)
    )
    # Spark removes `left` and `right` from the state if they are not used.
    chosen = [F.min_by(name, "_order").alias(name) for name in ("_row", LEFT_COLUMN, RIGHT_COLUMN)]
    return rows.groupBy(*_ABOUT).agg(*chosen).select("_row.*", LEFT_COLUMN, RIGHT_COLUMN)


def _about(primary: SideColumns, other: SideColumns) -> list[Column]:
    """The record that a row is about: of the primary side, or an unmatched or rejected one of the
    other; and its event time, by which operators after the join drop it from their state."""
    rejected = F.coalesce(primary.col("rejected"), other.col("rejected"))
    time = F.coalesce(primary.col("at"), other.col("at"), rejected["due"])
    about = (
        primary.col("offset").isNotNull(),
        F.coalesce(primary.col("partition"), other.col("partition")),
        F.coalesce(primary.col("offset"), other.col("offset")),
    )
    return [
        *(column.alias(name) for column, name in zip(about, _ABOUT, strict=False)),
        time.alias(_ABOUT[-1], metadata={_WATERMARK_METADATA: millis(primary.rule.delay)}),
    ]
