"""Converts archived visits again, with the transform of the streaming job.

    headwater run visits_converter_reprocessing_job 0 2

This is a short form of `headwater replay visits_converter`, which has more options.
"""

from __future__ import annotations

import logging
from typing import Any

import click

from headwater.errors import InputError
from headwater.jobs.options import JobCommand
from headwater.jobs.shared_job_logic import VISITS_CONVERTER
from headwater.process import job_logging
from headwater.replay.operation import LazySparkSession, replay
from headwater.replay.request import build_request
from headwater.replay.selection import Selection, check_range, parse_offsets
from headwater.settings import Settings, arm_fault_points, load
from headwater.storage.archive.reader import Archive

_LOG = logging.getLogger(__name__)

_NAME = "visits_converter"


@click.command(
    "visits_converter_reprocessing_job",
    cls=JobCommand,
    # `-1` and `-2` are offsets here, not options.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("first", type=int, required=False)
@click.argument("last", type=int, required=False)
@click.option("--partition", type=click.IntRange(min=0), help="Required if there are several.")
@click.option("--offsets", metavar="JSON", help="Ranges of several partitions.")
@click.option("--input-topic", default=VISITS_CONVERTER.input_topic, show_default=True)
@click.option("--output-topic", default=VISITS_CONVERTER.output_topic, show_default=True)
@click.option("--job-version", help="Default: the setting jobs.version.")
@click.option(
    "--delivery",
    type=click.Choice(["exactly-once", "transactional", "strict"]),
    metavar="[exactly-once|transactional]",
    default="exactly-once",
    show_default=True,
    help="Delivery mode: docs/concepts/delivery.md.",
)
@click.option("--skip-existing", is_flag=True, help="Skip records that already exist.")
@click.option("--allow-gaps", is_flag=True, help="Continue without records that are not archived.")
@click.option("--again", is_flag=True, help="Run even if the same replay was done before.")
@click.option("--quiet", is_flag=True, help="Log warnings and errors only.")
@click.pass_obj
def main(settings: Settings | None, /, **options: Any) -> None:
    """Convert archived visits from offset FIRST to LAST again, both ends included.

    -2 is the earliest offset, -1 the latest one.
    """
    settings = settings or load()
    arm_fault_points(settings)
    with job_logging(_NAME, quiet=options["quiet"]):
        _reprocess(settings, **options)


def _reprocess(settings: Settings, **options: Any) -> None:
    selection = _selection(settings, **options)
    target = options["output_topic"]
    request = build_request(_NAME, VISITS_CONVERTER, selection, target, settings, options)
    outcome = replay(request, settings, LazySparkSession(settings))
    manifest = outcome.manifest
    if manifest is None:
        # Stopped by a signal between two steps.
        click.get_current_context().exit(1)
    if not outcome.new:
        _LOG.info("replay %s was done before: nothing was written", outcome.folder.replay_id)
        return
    result = manifest.result
    _LOG.info(
        "replay %s: %d records read, %d written to %s",
        outcome.folder.replay_id,
        result.read.records,
        result.outputs.records,
        target,
    )


def _selection(settings: Settings, **options: Any) -> Selection:
    topic, bounds = options["input_topic"], (options["first"], options["last"])
    if options["offsets"] is not None:
        if bounds != (None, None):
            raise InputError("use either FIRST and LAST, or --offsets, not both")
        topic, offsets = parse_offsets(options["offsets"])
        return Selection(topic, offsets)
    if None in bounds:
        raise InputError("FIRST and LAST are required", hint="such as `0 2`: offsets 0, 1 and 2")
    partition = _partition(topic, options["partition"], settings)
    offset_range = check_range(list(bounds), f"{bounds[0]} {bounds[1]}")
    return Selection(topic, {partition: (offset_range,)})


def _partition(topic: str, chosen: int | None, settings: Settings) -> int:
    """The partition of FIRST and LAST: the only one, unless --partition chooses."""
    if chosen is not None:
        return chosen
    partitions = sorted(Archive.open(topic, settings).coverage())
    if len(partitions) > 1:
        raise InputError(
            f"the archive of {topic!r} has partitions {', '.join(map(str, partitions))}: "
            "a range of offsets needs one of them",
            hint="choose one with --partition, or ranges with --offsets",
        )
    return partitions[0] if partitions else 0


if __name__ == "__main__":
    main()
