"""Writes each visit unchanged; up to five requests on their way, a retry doubles nothing."""

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
    """Copy `visits` to `visits-idempotent`, up to five requests on their way."""
    copy_in_order(settings, options)


if __name__ == "__main__":
    main()
