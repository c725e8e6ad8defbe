"""Copies visits unchanged, with lineage headers."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headwater.jobs.options import StreamOptions, stream_options
from headwater.model.header import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.replay import Transform
from headwater.settings import Settings

HEADER_ORDER = (JOB_VERSION, JOB_NAME, BATCH_VERSION)


def decorate(visits: DataFrame) -> DataFrame:
    """Key and value unchanged."""
    return visits.select("key", "value", "lineage")


VISITS_DECORATOR = Transform(
    "visits_decorator",
    decorate,
    input_topic="visits",
    output_topic="visits-decorated",
    header_order=HEADER_ORDER,
)


@stream_options(job_name="visits_decorator", input_topic="visits", output_topic="visits-decorated")
def main(settings: Settings, options: StreamOptions) -> None:
    """Copy `visits` to `visits-decorated`, with job and batch in the headers."""
    job = options.lineage_job(settings)
    visits = job.read(options.input_topic, starting_offsets=options.starting_offsets)
    options.write(job, decorate(visits), header_order=HEADER_ORDER)


if __name__ == "__main__":
    main()
