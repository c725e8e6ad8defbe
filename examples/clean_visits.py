"""Public visits with fewer fields; malformed ones go to `visits-clean-dead-letter`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import LineageJob, parse_json

FIELDS = {
    "visit_id": "string",
    "event_time": "timestamp",
    "page": "string",
    "keep_private": "boolean",
}


def clean(visits: DataFrame) -> DataFrame:
    rows = parse_json(visits, FIELDS, required=["visit_id", "event_time"])
    public = rows.where("error is not null or not coalesce(data.keep_private, false)")
    return public.select(
        "key",
        F.to_json(F.struct("data.visit_id", "data.event_time", "data.page")).alias("value"),
        F.col("value").alias("raw_value"),
        "error",
    )


if __name__ == "__main__":
    job = LineageJob("clean_visits", version="1.0.0")
    job.write(clean(job.read("visits")), "visits-clean", trigger={"availableNow": True})
