"""The query plan of the join: one pass, one stateful operator, three output topics.

Records that can't be joined (malformed, late, tombstones, heartbeats) fail a condition on their own
side. Spark then neither stores them nor searches for a match, but outputs them at once, because it
is a full outer join. So rejected records go through the same sink, exactly once, without a second
pass and without state.

A stateful operator drops a row whose time is not after the watermark of the previous batch, and
only counts it. That watermark is in the checkpoint; two functions in the JVM (`java/`) provide it
and the batch id to expressions, so that late rows are detected before. A batch that is rerun has
the same late rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import parse_json
from headwater.delivery.sink import ERROR_COLUMN, RAW_VALUE_COLUMN
from headwater.jobs.visits_ads.rule import ADS, VISITS, JoinRule, millis
from headwater.jobs.visits_ads.times import AD_FIELDS, VISIT_FIELDS, HeartbeatTopic
from headwater.model.dead_letter import LATE
from headwater.spark.source import LINEAGE_COLUMN, join_lineage, parent_lineage
from headwater.spark.utc import IN_UTC, utc_text, utc_timestamp

_ABOUT = ("_of_visit", "_partition", "_offset", "_time")
# Column metadata by which Spark recognizes an event time.
_WATERMARK_METADATA = "spark.watermarkDelayMs"
_WATERMARK_FUNCTION = "headwater_late_watermark"
_BATCH_FUNCTION = "headwater_batch_number"
_LESS_THAN_A_DAY = 86_399_000

# With `false` Spark would compare with the watermark of the current batch. The setting is not in
# the checkpoint, so a restart with another value would change which rows are late.
LATENESS_CONFIGURATION = {"spark.sql.streaming.statefulOperator.allowMultiple": "true"}


@dataclass(frozen=True)
class _Side:
    """One input: its topic, its fields, the time field, and the prefix of its columns."""

    topic: str
    fields: Mapping[str, str]
    time: str
    prefix: str
    delay_millis: int

    def col(self, name: str) -> Column:
        return F.col(self.prefix + name)

    @property
    def joinable(self) -> Column:
        """Whether a row can be joined: neither rejected nor a heartbeat, which has no offset."""
        return self.col("offset").isNotNull() & self.col("rejected").isNull()

    @property
    def lineage(self) -> Column:
        return parent_lineage(
            F.lit(self.topic),
            self.col("partition"),
            self.col("offset"),
            self.col("rejected")["headers"],
        )


def enrich(
    visits: DataFrame, ads: DataFrame, rule: JoinRule, *, heartbeats: HeartbeatTopic
) -> DataFrame:
    """Visits with their ads, and rejected records, as rows for `LineageJob.write`.

    Both inputs are from `LineageJob.read`. Call `register_functions` with the checkpoint of the
    query first.

    Args:
        heartbeats: the additional topic of both inputs; see `idle`.
    """
    visit = _Side(rule.visits, VISIT_FIELDS, "event_time", "visit_", millis(rule.visits_delay))
    ad = _Side(rule.ads, AD_FIELDS, "display_time", "ad_", millis(rule.ads_delay))
    left = _prepared(visits, visit, VISITS, heartbeats)
    right = _prepared(ads, ad, ADS, heartbeats)
    joined = left.join(right, _match(visit, ad, rule), "full_outer")
    # Visits and rejected ads. Unmatched ads and heartbeats, which have no offset, are dropped. The
    # condition is over both sides: with one on visits alone Spark would choose another join type.
    rejected_ad = F.when(ad.col("rejected").isNotNull(), ad.col("offset"))
    kept = joined.where(F.coalesce(visit.col("offset"), rejected_ad).isNotNull())
    output = _output(visit, ad)
    if rule.matches == "first":
        return _first_match(kept, output, visit, ad)
    if rule.matches == "nearest":
        return _nearest_match(kept, output, visit, ad)
    return kept.select(*output)


def _prepared(
    records: DataFrame, side: _Side, counted: str, heartbeats: HeartbeatTopic
) -> DataFrame:
    """The columns of the state: fields, address, and the content of rejected records, which is null
    for all others."""
    is_record = F.col("topic") != heartbeats.name
    own = records.where(is_record | (F.col("key") == F.lit(heartbeats.key(side.topic))))
    # First, because Spark does not collapse projections across a nondeterministic function.
    rows = parse_json(
        own.withColumn("_watermark", _watermark_micros()),
        side.fields,
        required=tuple(side.fields),
    )
    time, watermark = F.col("data")[side.time], F.col("_watermark")
    error = F.coalesce(F.col(ERROR_COLUMN), _late_error(time, side.time, watermark))
    rows = rows.withColumn("_error", error)
    joinable = is_record & F.col("_error").isNull() & F.col("value").isNotNull()
    at = F.when(joinable, time).when(~is_record, _heartbeat_time(watermark))
    others = [name for name in side.fields if name != side.time]
    prepared = rows.select(
        at.alias(f"{side.prefix}at"),
        *(F.col("data")[name].alias(side.prefix + name) for name in others),
        F.when(is_record, F.col("partition")).alias(f"{side.prefix}partition"),
        F.when(is_record, F.col("offset")).alias(f"{side.prefix}offset"),
        F.when(is_record & ~joinable, _rejected(watermark)).alias(f"{side.prefix}rejected"),
    )
    return _counted(prepared, side, counted).withWatermark(
        f"{side.prefix}at", f"{side.delay_millis} milliseconds"
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


def _heartbeat_time(watermark: Column) -> Column:
    """The time of a heartbeat; null if the watermark has reached it."""
    time = utc_timestamp(F.col("value").cast("string"))
    return F.when(F.unix_micros(time) > watermark, time)


def _counted(prepared: DataFrame, side: _Side, name: str) -> DataFrame:
    """Observe the metrics of a side in each micro-batch."""
    kind = side.col("rejected")["error"]["kind"]
    return prepared.observe(
        name,
        F.count(side.col("offset")).alias("records"),
        F.count_if(kind == LATE).alias("late"),
        F.count_if(kind != LATE).alias("malformed"),
        F.unix_millis(F.max(F.when(side.joinable, side.col("at")))).alias("newest_ms"),
    )


def _match(visit: _Side, ad: _Side, rule: JoinRule) -> Column:
    displayed, visited = ad.col("at"), visit.col("at")
    return (
        visit.joinable
        & ad.joinable
        & (visit.col("page") == ad.col("page"))
        & (displayed >= _later(visited, millis(rule.ad_from)))
        & (displayed <= _later(visited, millis(rule.ad_until)))
    )


def _later(time: Column, count: int) -> Column:
    # Evaluated for each visit and ad of a page; the addition is the most expensive part. Spark adds
    # days in the time zone of the session, where they may have 23 or 25 hours.
    while count:
        part = max(-_LESS_THAN_A_DAY, min(count, _LESS_THAN_A_DAY))
        time = time + F.expr(f"INTERVAL '{part / 1000:.3f}' SECOND")
        count -= part
    return time


def _output(visit: _Side, ad: _Side) -> list[Column]:
    """The columns of `LineageJob.write`."""
    rejected = F.coalesce(visit.col("rejected"), ad.col("rejected"))
    enriched = F.to_json(
        F.struct(
            visit.col("visit_id").alias("visit_id"),
            visit.col("at").alias("event_time"),
            visit.col("page").alias("visit_page"),
            ad.col("page").alias("page"),
            ad.col("at").alias("display_time"),
            ad.col("campaign_name").alias("campaign_name"),
        ),
        IN_UTC,
    ).cast("binary")
    lineage = (
        F.when(ad.col("offset").isNull(), visit.lineage)
        .when(visit.col("offset").isNull(), ad.lineage)
        .otherwise(join_lineage(visit.lineage, ad.lineage))
    )
    joined = rejected.isNull()
    return [
        F.when(joined, visit.col("visit_id").cast("binary"))
        .otherwise(rejected["key"])
        .alias("key"),
        F.when(joined, enriched).otherwise(rejected["value"]).alias("value"),
        rejected["value"].alias(RAW_VALUE_COLUMN),
        rejected["error"].alias(ERROR_COLUMN),
        lineage.alias(LINEAGE_COLUMN),
    ]


def _first_match(kept: DataFrame, output: list[Column], visit: _Side, ad: _Side) -> DataFrame:
    """Only the first match that is found for each visit."""
    rows = kept.select(*output, *_about(visit, ad))
    return rows.dropDuplicates(list(_ABOUT)).drop(*_ABOUT)


def _nearest_match(kept: DataFrame, output: list[Column], visit: _Side, ad: _Side) -> DataFrame:
    """Only the match nearest in time for each visit, when no more can come."""
    distance = F.abs(F.unix_micros(ad.col("at")) - F.unix_micros(visit.col("at")))
    # Not null, because the aggregate ignores rows with a null order.
    order = F.struct(
        F.coalesce(distance, F.lit(0)),
        F.coalesce(ad.col("partition"), F.lit(0)),
        F.coalesce(ad.col("offset"), F.lit(0)),
    )
    rows = kept.select(F.struct(*output).alias("_row"), order.alias("_order"), *_about(visit, ad))
    nearest = F.min_by("_row", "_order").alias("_row")
    return rows.groupBy(*_ABOUT).agg(nearest).select("_row.*")


def _about(visit: _Side, ad: _Side) -> list[Column]:
    """The record that a row is about: a visit or a rejected ad; and its event time, by which
    operators after the join drop it from their state."""
    rejected = F.coalesce(visit.col("rejected"), ad.col("rejected"))
    time = F.coalesce(visit.col("at"), rejected["due"])
    about = (
        visit.col("offset").isNotNull(),
        F.coalesce(visit.col("partition"), ad.col("partition")),
        F.coalesce(visit.col("offset"), ad.col("offset")),
    )
    return [
        *(column.alias(name) for column, name in zip(about, _ABOUT, strict=False)),
        time.alias(_ABOUT[-1], metadata={_WATERMARK_METADATA: visit.delay_millis}),
    ]


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
