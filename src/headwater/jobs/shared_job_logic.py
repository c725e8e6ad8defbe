"""The visits converter, shared by the streaming job and the reprocessing job."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import parse_json
from headwater.replay import Transform
from headwater.spark.utc import IN_UTC

FIELDS = {
    "event_id": "string",
    "visit_id": "bigint",
    "event_time": "timestamp",
    "page": "string",
}


def convert_visits(visits: DataFrame) -> DataFrame:
    """The four fields under longer names, in this order; invalid visits get an error."""
    rows = parse_json(visits, FIELDS, required=tuple(FIELDS))
    converted = F.struct(
        F.col("data.event_id").alias("event_identifier"),
        F.col("data.visit_id").alias("visit_identifier"),
        F.col("data.event_time").alias("event_time"),
        F.col("data.page").alias("visited_page"),
    )
    return rows.select(
        "key",
        F.when(F.col("value").isNotNull(), F.to_json(converted, IN_UTC)).alias("value"),
        F.col("value").alias("raw_value"),
        "error",
        "lineage",
    )


VISITS_CONVERTER = Transform(
    "visits_converter",
    convert_visits,
    input_topic="visits",
    output_topic="visits_transformed",
    fields=FIELDS,
)
