"""The join as a plan: one pass, one stateful operator, three topics.

Spark's operator joins what is fit to be joined. What is not (malformed, late, a tombstone, a
heartbeat) fails a condition on its own side alone; Spark then neither keeps it nor looks for a
match, but hands it on at once, because the join is a full outer one. So records that are set aside
leave by the same sink, exactly once, without a second pass and without a byte of state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import ERROR_COLUMN, RAW_VALUE_COLUMN, parse_json
from headwater.jobs.visits_ads.lateness import late_error, watermark_micros
from headwater.jobs.visits_ads.rule import ADS, VISITS, JoinRule, millis
from headwater.jobs.visits_ads.times import AD_FIELDS, VISIT_FIELDS, HeartbeatTopic
from headwater.model.dead_letter import LATE
from headwater.spark.lineage_columns import LINEAGE_COLUMN, join_lineage, parent_lineage

_ABOUT = ("_of_visit", "_partition", "_offset", "_time")
# Spark knows an event time by this note on the column.
_WATERMARK_NOTE = "spark.watermarkDelayMs"


@dataclass(frozen=True)
class _Side:
    """One input: its topic, its fields and which of them is the time, a prefix for its columns."""

    topic: str
    fields: Mapping[str, str]
    time: str
    prefix: str
    delay_millis: int

    def col(self, name: str) -> Column:
        return F.col(self.prefix + name)

    @property
    def fit(self) -> Column:
        """A record that can be joined: neither set aside nor a heartbeat, which has no offset."""
        return self.col("offset").isNotNull() & self.col("aside").isNull()

    @property
    def lineage(self) -> Column:
        return parent_lineage(
            F.lit(self.topic),
            self.col("partition"),
            self.col("offset"),
            self.col("aside")["headers"],
        )


def enrich(
    visits: DataFrame, ads: DataFrame, rule: JoinRule, *, heartbeats: HeartbeatTopic
) -> DataFrame:
    """Visits with their ads, and all that is set aside, as rows for `LineageJob.write`.

    Both inputs are records as `LineageJob.read` gives them; `register_functions` was called with
    the checkpoint of the query.

    Args:
        heartbeats: the topic that both inputs have beside their own; see `idle`.
    """
    visit = _Side(rule.visits, VISIT_FIELDS, "event_time", "visit_", millis(rule.visits_delay))
    ad = _Side(rule.ads, AD_FIELDS, "display_time", "ad_", millis(rule.ads_delay))
    left = _prepared(visits, visit, VISITS, heartbeats)
    right = _prepared(ads, ad, ADS, heartbeats)
    joined = left.join(right, _match(visit, ad, rule), "full_outer")
    # Visits, and ads that are set aside. An ad whose time passed without a visit ends here, and so
    # does a heartbeat, which has no offset. The condition is over both sides: one on visits alone
    # would let Spark choose another kind of join.
    set_aside = F.when(ad.col("aside").isNotNull(), ad.col("offset"))
    kept = joined.where(F.coalesce(visit.col("offset"), set_aside).isNotNull())
    output = _output(visit, ad)
    if rule.matches == "first":
        return _first_match(kept, output, visit, ad)
    if rule.matches == "nearest":
        return _nearest_match(kept, output, visit, ad)
    return kept.select(*output)


def _prepared(
    records: DataFrame, side: _Side, counted: str, heartbeats: HeartbeatTopic
) -> DataFrame:
    """The columns that the state keeps: fields, address, and what a record needs that is set aside,
    which is null for all others."""
    is_record = F.col("topic") != heartbeats.name
    mine = records.where(is_record | (F.col("key") == F.lit(heartbeats.key(side.topic))))
    # Below all else: Spark merges no steps across a function that is not deterministic.
    rows = parse_json(
        mine.withColumn("_watermark", watermark_micros()),
        side.fields,
        required=tuple(side.fields),
    )
    time, watermark = F.col("data")[side.time], F.col("_watermark")
    error = F.coalesce(F.col(ERROR_COLUMN), late_error(time, side.time, watermark))
    rows = rows.withColumn("_error", error)
    fit = is_record & F.col("_error").isNull() & F.col("value").isNotNull()
    at = F.when(fit, time).when(~is_record, _heartbeat_time(watermark))
    others = [name for name in side.fields if name != side.time]
    prepared = rows.select(
        at.alias(f"{side.prefix}at"),
        *(F.col("data")[name].alias(side.prefix + name) for name in others),
        F.when(is_record, F.col("partition")).alias(f"{side.prefix}partition"),
        F.when(is_record, F.col("offset")).alias(f"{side.prefix}offset"),
        F.when(is_record & ~fit, _aside(watermark)).alias(f"{side.prefix}aside"),
    )
    return _counted(prepared, side, counted).withWatermark(
        f"{side.prefix}at", f"{side.delay_millis} milliseconds"
    )


def _aside(watermark: Column) -> Column:
    """What the sink needs of a record that can't be joined."""
    return F.struct(
        F.col("_error").alias("error"),
        F.col("key").alias("key"),
        F.col("value").alias("value"),
        F.col("headers").alias("headers"),
        # A time for operators behind the join: not late, and soon past.
        F.timestamp_micros(watermark + 1000).alias("due"),
    )


def _heartbeat_time(watermark: Column) -> Column:
    """What a heartbeat says; null if the watermark is there already."""
    time = F.col("value").cast("string").try_cast("timestamp")
    return F.when(F.unix_micros(time) > watermark, time)


def _counted(prepared: DataFrame, side: _Side, name: str) -> DataFrame:
    """What each micro-batch tells of a side, on the way."""
    kind = side.col("aside")["error"]["kind"]
    return prepared.observe(
        name,
        F.count(side.col("offset")).alias("records"),
        F.count_if(kind == LATE).alias("late"),
        F.count_if(kind != LATE).alias("malformed"),
        F.unix_millis(F.max(F.when(side.fit, side.col("at")))).alias("newest_ms"),
    )


def _match(visit: _Side, ad: _Side, rule: JoinRule) -> Column:
    shown, begun = ad.col("at"), visit.col("at")
    return (
        visit.fit
        & ad.fit
        & (visit.col("page") == ad.col("page"))
        & (shown >= _later(begun, millis(rule.ad_from)))
        & (shown <= _later(begun, millis(rule.ad_until)))
    )


def _later(time: Column, count: int) -> Column:
    # Asked of each visit and ad of a page; adding is the most expensive part of it.
    return time if count == 0 else time + F.expr(f"INTERVAL '{count / 1000:.3f}' SECOND")


def _output(visit: _Side, ad: _Side) -> list[Column]:
    """The columns of `LineageJob.write`."""
    aside = F.coalesce(visit.col("aside"), ad.col("aside"))
    enriched = F.to_json(
        F.struct(
            visit.col("visit_id").alias("visit_id"),
            visit.col("at").alias("event_time"),
            visit.col("page").alias("visit_page"),
            ad.col("page").alias("page"),
            ad.col("at").alias("display_time"),
            ad.col("campaign_name").alias("campaign_name"),
        )
    ).cast("binary")
    lineage = (
        F.when(ad.col("offset").isNull(), visit.lineage)
        .when(visit.col("offset").isNull(), ad.lineage)
        .otherwise(join_lineage(visit.lineage, ad.lineage))
    )
    joined = aside.isNull()
    return [
        F.when(joined, visit.col("visit_id").cast("binary")).otherwise(aside["key"]).alias("key"),
        F.when(joined, enriched).otherwise(aside["value"]).alias("value"),
        aside["value"].alias(RAW_VALUE_COLUMN),
        aside["error"].alias(ERROR_COLUMN),
        lineage.alias(LINEAGE_COLUMN),
    ]


def _first_match(kept: DataFrame, output: list[Column], visit: _Side, ad: _Side) -> DataFrame:
    """Of the matches of a visit, the one that is found first; the others are dropped."""
    rows = kept.select(*output, *_about(visit, ad))
    return rows.dropDuplicates(list(_ABOUT)).drop(*_ABOUT)


def _nearest_match(kept: DataFrame, output: list[Column], visit: _Side, ad: _Side) -> DataFrame:
    """Of the matches of a visit, the one that is nearest in time, once no more can come."""
    away = F.abs(F.unix_micros(ad.col("at")) - F.unix_micros(visit.col("at")))
    # An order for all rows, or the aggregate would pass those without an ad over.
    order = F.struct(
        F.coalesce(away, F.lit(0)),
        F.coalesce(ad.col("partition"), F.lit(0)),
        F.coalesce(ad.col("offset"), F.lit(0)),
    )
    rows = kept.select(F.struct(*output).alias("_row"), order.alias("_order"), *_about(visit, ad))
    nearest = F.min_by("_row", "_order").alias("_row")
    return rows.groupBy(*_ABOUT).agg(nearest).select("_row.*")


def _about(visit: _Side, ad: _Side) -> list[Column]:
    """Which record a row is about: a visit, or an ad that is set aside; and its event time, by
    which an operator behind the join forgets it."""
    aside = F.coalesce(visit.col("aside"), ad.col("aside"))
    time = F.coalesce(visit.col("at"), aside["due"])
    about = (
        visit.col("offset").isNotNull(),
        F.coalesce(visit.col("partition"), ad.col("partition")),
        F.coalesce(visit.col("offset"), ad.col("offset")),
    )
    return [
        *(column.alias(name) for column, name in zip(about, _ABOUT, strict=False)),
        time.alias(_ABOUT[-1], metadata={_WATERMARK_NOTE: visit.delay_millis}),
    ]
