"""Writes each visit unchanged: the next is sent when the one before is acknowledged."""

from __future__ import annotations

from headwater.jobs.fifo import copy_in_order
from headwater.jobs.options import StreamOptions, stream_options
from headwater.settings import Settings


@stream_options(
    job_name="fifo_orderer_individual_send",
    input_topic="visits",
    output_topic="visits-individual-send",
    trigger="5 seconds",
    delivery="individual",
)
def main(settings: Settings, options: StreamOptions) -> None:
    """Copy `visits` to `visits-individual-send`, each record behind the ack of the one before."""
    copy_in_order(settings, options)


if __name__ == "__main__":
    main()
