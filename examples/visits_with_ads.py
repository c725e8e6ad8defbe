"""Visits with the ads that were shown on their page within two minutes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import LineageJob


def with_ads(visits: DataFrame, ads: DataFrame) -> DataFrame:
    left = _fields(visits, "event_time").alias("visit")
    right = _fields(ads, "display_time").alias("ad")
    soon = F.expr(
        "visit.page = ad.page and ad.at between visit.at and visit.at + interval 2 minutes"
    )
    return left.join(right, soon).select(
        F.col("visit.key").alias("key"),
        F.to_json(F.struct("visit.page", "visit.at", F.col("ad.at").alias("shown"))).alias("value"),
    )


def _fields(records: DataFrame, time: str) -> DataFrame:
    value = records.value.cast("string")
    return records.select(
        "key",
        F.get_json_object(value, "$.page").alias("page"),
        F.to_timestamp(F.get_json_object(value, f"$.{time}")).alias("at"),
    ).withWatermark("at", "10 minutes")


if __name__ == "__main__":
    job = LineageJob("visits_with_ads", version="1.0.0")
    joined = with_ads(job.read("visits"), job.read("ads"))
    job.write(joined, "visits-with-ads", trigger={"availableNow": True})
