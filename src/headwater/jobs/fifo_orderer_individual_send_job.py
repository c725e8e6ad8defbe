"""Copies visits unchanged; each is sent after the acknowledgement of the previous one."""

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
    """Copy `visits` to `visits-individual-send`, each after the acknowledgement of the previous."""
    copy_in_order(settings, options)


if __name__ == "__main__":
    main()
