"""Visits in an Iceberg table; the lineage of each row names the record it was made from."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import LineageJob


def columns(visits: DataFrame) -> DataFrame:
    value = visits.value.cast("string")
    return visits.select(
        F.get_json_object(value, "$.visit_id").alias("visit_id"),
        F.get_json_object(value, "$.page").alias("page"),
        F.to_timestamp(F.get_json_object(value, "$.event_time")).alias("event_time"),
    )


if __name__ == "__main__":
    job = LineageJob("visits_table", version="1.0.0", connectors=("kafka", "iceberg"))
    job.write_table(
        columns(job.read("visits")),
        "demo.web.visits",
        table_format="iceberg",
        trigger={"availableNow": True},
    )
