"""Keeps four fields of each visit, with visit, job and batch in the headers."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import parse_json
from headwater.jobs.options import StreamOptions, stream_options
from headwater.model.header import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.replay import Transform
from headwater.settings import Settings
from headwater.spark.utc import IN_UTC

HEADER_ORDER = (JOB_NAME, JOB_VERSION, BATCH_VERSION)
FIELDS = {
    "visit_id": "string",
    "event_time": "timestamp",
    "user_id": "string",
    "page": "string",
}


def reduce_visits(visits: DataFrame) -> DataFrame:
    """The four fields in this order; invalid visits get an error."""
    rows = parse_json(visits, FIELDS, required=tuple(FIELDS))
    reduced = F.when(F.col("value").isNotNull(), F.to_json("data", IN_UTC))
    return rows.select(
        "key",
        reduced.alias("value"),
        F.col("value").alias("raw_value"),
        "error",
        "lineage",
    )


VISITS_REDUCER = Transform(
    "visits_reducer",
    reduce_visits,
    input_topic="visits-decorated",
    output_topic="visits-reduced",
    fields=FIELDS,
    header_order=HEADER_ORDER,
)


@stream_options(
    job_name="visits_reducer", input_topic="visits-decorated", output_topic="visits-reduced"
)
def main(settings: Settings, options: StreamOptions) -> None:
    """Write `visit_id, event_time, user_id, page` of `visits-decorated` to `visits-reduced`."""
    job = options.lineage_job(settings)
    visits = job.read(options.input_topic, starting_offsets=options.starting_offsets)
    options.write(job, reduce_visits(visits), header_order=HEADER_ORDER)


if __name__ == "__main__":
    main()
