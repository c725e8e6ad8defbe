"""The latest visit of each user in a Delta table, merged by user; its lineage names the record."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import LineageJob


def columns(visits: DataFrame) -> DataFrame:
    value = visits.value.cast("string")
    return visits.select(
        F.get_json_object(value, "$.user_id").alias("user_id"),
        F.get_json_object(value, "$.page").alias("page"),
        F.to_timestamp(F.get_json_object(value, "$.event_time")).alias("event_time"),
    )


if __name__ == "__main__":
    with LineageJob("latest_visits", version="1.0.0", connectors=("kafka", "delta")) as job:
        job.write_table(
            columns(job.read("visits")),
            "tables/latest-visits",
            merge_on="user_id",
            newest_by=["event_time"],
            trigger={"availableNow": True},
        )
