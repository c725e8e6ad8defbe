"""The rows of one side of the join: parsed, with late and malformed records marked.

A stateful operator drops a row whose time is not after the watermark of the previous batch, and
only counts it. That watermark is in the checkpoint; two functions in the JVM (`java/`) provide it
and the batch id to expressions, so that late rows are detected before. A batch that is rerun has
the same late rows.

A row far in the future would advance the watermark for good, and make all others late. Times are
compared with that of the batch: Spark replaces `current_timestamp` by a time that is in the
checkpoint, so a rerun has it again, and that no producer can set, unlike a record's timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import parse_json
from headwater.delivery.sink import ERROR_COLUMN, error_of, no_error
from headwater.errors import InputError
from headwater.join.rule import JoinSide
from headwater.join.spans import millis, span_text
from headwater.join.times import HeartbeatTopic
from headwater.model.dead_letter import FUTURE, LATE, MISSING_FIELD
from headwater.spark.source import parent_lineage
from headwater.spark.utc import utc_text, utc_timestamp

_WATERMARK_FUNCTION = "headwater_late_watermark"
_BATCH_FUNCTION = "headwater_batch_number"

# With `false` Spark would compare with the watermark of the current batch. The setting is not in
# the checkpoint, so a restart with another value would change which rows are late.
LATENESS_CONFIGURATION = {"spark.sql.streaming.statefulOperator.allowMultiple": "true"}


@dataclass(frozen=True)
class SideColumns:
    """One input, and the prefix of its columns."""

    rule: JoinSide
    prefix: str

    def col(self, name: str) -> Column:
        """A column of the join itself."""
        return F.col(f"_{self.prefix}_{name}")

    def field(self, name: str) -> Column:
        """A field of the record."""
        if name == self.rule.time:
            return self.col("at")
        quoted = self.alias(name).replace("`", "``")
        return F.col(f"`{quoted}`")

    def alias(self, name: str) -> str:
        return f"{self.prefix}_{name}"

    @property
    def fields(self) -> Mapping[str, Column]:
        return {name: self.field(name) for name in self.rule.fields}

    @property
    def joinable(self) -> Column:
        """Whether a row can be joined: neither rejected nor a heartbeat, which has no offset."""
        return self.col("offset").isNotNull() & self.col("rejected").isNull()

    @property
    def rejected_offset(self) -> Column:
        return F.when(self.col("rejected").isNotNull(), self.col("offset"))

    @property
    def record(self) -> Column:
        """The fields as a struct; null without a joined record."""
        fields = F.struct(*(column.alias(name) for name, column in self.fields.items()))
        return F.when(self.joinable, fields)

    @property
    def lineage(self) -> Column:
        return parent_lineage(
            F.lit(self.rule.topic),
            self.col("partition"),
            self.col("offset"),
            self.col("rejected")["headers"],
        )


def side_rows(
    records: DataFrame, side: SideColumns, heartbeats: HeartbeatTopic, max_ahead: timedelta
) -> DataFrame:
    """The columns of the state: fields, address, and the content of rejected records, which is null
    for all others."""
    is_record = F.col("topic") != heartbeats.name
    own = records.where(is_record | (F.col("key") == F.lit(heartbeats.key(side.rule.topic))))
    # First, because Spark does not collapse projections across a nondeterministic function.
    rows = _parsed(own.withColumn("_watermark", _watermark_micros()), side.rule, is_record)
    time, watermark = F.col("data")[side.rule.time], F.col("_watermark")
    error = F.coalesce(
        F.col(ERROR_COLUMN),
        _late_error(time, side.rule.time, watermark),
        _future_error(time, side.rule.time, max_ahead),
    )
    rows = rows.withColumn("_error", error)
    joinable = is_record & F.col("_error").isNull() & F.col("value").isNotNull()
    at = F.when(joinable, time).when(~is_record, _heartbeat_time(watermark, max_ahead))
    others = [name for name in side.rule.fields if name != side.rule.time]
    prepared = rows.select(
        at.alias(f"_{side.prefix}_at"),
        *(F.col("data")[name].alias(side.alias(name)) for name in others),
        F.when(is_record, F.col("partition")).alias(f"_{side.prefix}_partition"),
        F.when(is_record, F.col("offset")).alias(f"_{side.prefix}_offset"),
        F.when(is_record & ~joinable, _rejected(watermark)).alias(f"_{side.prefix}_rejected"),
    )
    return _counted(prepared, side).withWatermark(
        f"_{side.prefix}_at", f"{millis(side.rule.delay)} milliseconds"
    )


def _parsed(rows: DataFrame, side: JoinSide, is_record: Column) -> DataFrame:
    """Rows with `data` and `error`."""
    if side.parse is None:
        return parse_json(rows, side.fields, required=side.needed)
    # The parser gets no heartbeats, which are in another format.
    beats = rows.withColumn("_beat", F.when(~is_record, F.col("value")))
    parsed = side.parse(beats.withColumn("value", F.when(is_record, F.col("value"))))
    _check_data(parsed, side)
    error = F.col(ERROR_COLUMN) if ERROR_COLUMN in parsed.columns else no_error()
    missing = no_error()
    for name in reversed(side.needed):
        text = F.lit(f"field {name!r} is missing or null")
        null = F.col("value").isNotNull() & F.col("data")[name].isNull()
        missing = F.when(null, error_of(MISSING_FIELD, text)).otherwise(missing)
    restored = F.coalesce(F.col("value"), F.col("_beat"))
    return parsed.withColumn(ERROR_COLUMN, F.coalesce(error, missing)).withColumn("value", restored)


def _check_data(parsed: DataFrame, side: JoinSide) -> None:
    """Refuse the result of a parser without the fields of the side."""
    kinds = {each.name: each.dataType for each in parsed.schema.fields}
    data: Any = kinds.get("data")
    found = {each.name: each.dataType.simpleString() for each in getattr(data, "fields", ())}
    for name in side.fields:
        kind = found.get(name)
        if kind is None or (name == side.time and kind != "timestamp"):
            raise InputError(
                f"parse of topic {side.topic!r} returns no field {name!r}"
                + (" of type timestamp" if name == side.time else "")
                + f" in the struct `data`: {', '.join(found) or 'there is no struct'}",
                hint="return the rows with a column `data`, a struct with all `fields`",
            )


def _rejected(watermark: Column) -> Column:
    """The content of a record that can't be joined, for the sink."""
    return F.struct(
        F.col("_error").alias("error"),
        F.col("key").alias("key"),
        F.col("value").alias("value"),
        F.col("headers").alias("headers"),
        # An event time for operators after the join: not late, and soon below the watermark.
        F.timestamp_micros(watermark + 1000).alias("due"),
    )


def _heartbeat_time(watermark: Column, max_ahead: timedelta) -> Column:
    """The time of a heartbeat; null if the watermark has reached it, or if it is too far ahead: any
    client with write access to the topic can write heartbeats."""
    time = utc_timestamp(F.col("value").cast("string"))
    valid = (F.unix_micros(time) > watermark) & ~_is_ahead(time, max_ahead)
    return F.when(valid, time)


def _is_ahead(time: Column, max_ahead: timedelta) -> Column:
    limit = F.unix_millis(F.current_timestamp()) + F.lit(millis(max_ahead))
    return F.unix_millis(time) > limit


def _future_error(time: Column, field: str, max_ahead: timedelta) -> Column:
    """The `error` of a row too far in the future, with its batch; null for other rows."""
    message = F.concat(
        F.lit(f"{field} "),
        utc_text(time),
        F.lit(f" is more than {span_text(max_ahead)} after the micro-batch of "),
        utc_text(F.current_timestamp()),
        F.lit("; jobs.max_ahead_seconds allows more"),
    )
    return F.when(_is_ahead(time, max_ahead), error_of(FUTURE, message))


def _counted(prepared: DataFrame, side: SideColumns) -> DataFrame:
    """Observe the metrics of a side in each micro-batch."""
    kind = side.col("rejected")["error"]["kind"]
    return prepared.observe(
        side.rule.label,
        F.count(side.col("offset")).alias("records"),
        F.count_if(kind == LATE).alias("late"),
        F.count_if(kind != LATE).alias("malformed"),
        F.unix_millis(F.max(F.when(side.joinable, side.col("at")))).alias("newest_ms"),
    )


def register_functions(spark: SparkSession, checkpoint: str) -> None:
    """Register the functions in the session, for a query with this checkpoint."""
    jvm: Any = spark._jvm  # noqa: SLF001
    session: Any = spark._jsparkSession  # noqa: SLF001
    jvm.dev.headwater.join.BatchFunctions.register(
        session, checkpoint, _WATERMARK_FUNCTION, _BATCH_FUNCTION
    )


def _watermark_micros() -> Column:
    """The watermark that determines late rows of the current batch, in microseconds."""
    return F.expr(f"{_WATERMARK_FUNCTION}()")


def _late_error(time: Column, field: str, watermark: Column) -> Column:
    """The `error` of a late row, with delay, watermark and batch; null for other rows."""
    micros = F.unix_micros(time)
    message = F.concat(
        F.lit("late by "),
        F.format_string("%.3f", (watermark - micros) / 1_000_000),
        F.lit(f" s: {field} "),
        utc_text(time),
        F.lit(", watermark "),
        utc_text(F.timestamp_micros(watermark)),
        F.lit(", batch "),
        F.expr(f"{_BATCH_FUNCTION}()").cast("string"),
    )
    error = F.struct(F.lit(LATE).alias("kind"), message.alias("message"))
    return F.when(micros <= watermark, error)
