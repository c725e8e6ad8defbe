"""What the three ordering jobs have in common: they differ in their delivery mode only."""

from __future__ import annotations

from headwater.jobs.options import StreamOptions
from headwater.model.headers import STAMP_HEADERS
from headwater.settings import Settings


def copy_in_order(settings: Settings, options: StreamOptions) -> None:
    """Key, value and headers as bytes, in the order of the input partition.

    Nothing is shuffled: a partition is read, and written, by one task in the order of its offsets.
    """
    job = options.lineage_job(settings, header_order=STAMP_HEADERS)
    visits = job.read(options.input_topic, starting_offsets=options.starting_offsets)
    options.write(job, visits.select("key", "value", "lineage"))
