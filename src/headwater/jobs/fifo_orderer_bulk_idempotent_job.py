"""Copies visits unchanged with an idempotent producer and up to five requests in flight."""

from __future__ import annotations

from headwater.jobs.fifo import copy_in_order
from headwater.jobs.options import StreamOptions, stream_options
from headwater.settings import Settings


@stream_options(
    job_name="fifo_orderer_bulk_idempotent",
    input_topic="visits",
    output_topic="visits-idempotent",
    trigger="5 seconds",
    delivery="idempotent",
)
def main(settings: Settings, options: StreamOptions) -> None:
    """Copy `visits` to `visits-idempotent` with up to five requests in flight."""
    copy_in_order(settings, options)


if __name__ == "__main__":
    main()
