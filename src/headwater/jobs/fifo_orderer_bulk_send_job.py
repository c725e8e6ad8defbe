"""Copies visits unchanged in batches, with one request in flight."""

from __future__ import annotations

from headwater.jobs.fifo import copy_in_order
from headwater.jobs.options import StreamOptions, stream_options
from headwater.settings import Settings


@stream_options(
    job_name="fifo_orderer_bulk_send",
    input_topic="visits",
    output_topic="visits-batched",
    trigger="5 seconds",
    delivery="batched",
)
def main(settings: Settings, options: StreamOptions) -> None:
    """Copy `visits` to `visits-batched` with one request in flight."""
    copy_in_order(settings, options)


if __name__ == "__main__":
    main()
