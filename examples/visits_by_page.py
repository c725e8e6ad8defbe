"""Visits per page and hour, updated with every micro-batch; the lineage lists the visits."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import LineageJob


def count_by_page(visits: DataFrame) -> DataFrame:
    value = visits.value.cast("string")
    rows = visits.select(
        F.get_json_object(value, "$.page").alias("page"),
        F.to_timestamp(F.get_json_object(value, "$.event_time")).alias("event_time"),
    ).withWatermark("event_time", "10 minutes")
    groups = rows.groupBy(F.window("event_time", "1 hour"), "page")
    counts = groups.agg(F.count("*").alias("visits"))
    value = F.to_json(F.struct("page", F.col("window.start").alias("hour"), "visits"))
    return counts.select(F.col("page").alias("key"), value.alias("value"))


if __name__ == "__main__":
    with LineageJob("visits_by_page", version="1.0.0") as job:
        counts = count_by_page(job.read("visits"))
        job.write(counts, "visits-by-page", output_mode="update", trigger={"availableNow": True})
