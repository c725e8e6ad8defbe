"""Shared by the three FIFO jobs, which differ only in their delivery mode."""

from __future__ import annotations

from headwater.jobs.options import StreamOptions
from headwater.settings import Settings


def copy_in_order(settings: Settings, options: StreamOptions) -> None:
    """Copy key, value and headers unchanged, in the order of the input partition.

    Without a shuffle, one task reads and writes a partition in the order of its offsets.
    """
    job = options.lineage_job(settings)
    visits = job.read(options.input_topic, starting_offsets=options.starting_offsets)
    options.write(job, visits.select("key", "value", "lineage"))
