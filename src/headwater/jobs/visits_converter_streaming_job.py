"""Converts visits as they arrive; `visits_converter_reprocessing_job` converts archived ones."""

from __future__ import annotations

from headwater.jobs.options import StreamOptions, stream_options
from headwater.jobs.shared_job_logic import VISITS_CONVERTER
from headwater.settings import Settings

_PARTITIONS = 1


@stream_options(
    job_name=VISITS_CONVERTER.job_name,
    input_topic=VISITS_CONVERTER.input_topic,
    output_topic=VISITS_CONVERTER.output_topic,
)
def main(settings: Settings, options: StreamOptions) -> None:
    """Write `visits` to `visits_transformed` with longer field names."""
    job = options.lineage_job(settings)
    visits = job.read(
        options.input_topic, starting_offsets=options.starting_offsets, partitions=_PARTITIONS
    )
    records = VISITS_CONVERTER.function(visits)
    options.write(job, records, header_order=VISITS_CONVERTER.header_order)


if __name__ == "__main__":
    main()
