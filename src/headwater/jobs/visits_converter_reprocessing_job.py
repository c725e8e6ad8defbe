"""Converts archived visits again, with the logic of the streaming job and beside it.

    headwater run visits_converter_reprocessing_job 0 2

`headwater replay visits_converter` can do more: this is its short form.
"""

from __future__ import annotations

import logging
from typing import Any

import click

from headwater.errors import InputError
from headwater.jobs.options import JobCommand
from headwater.jobs.shared_job_logic import VISITS_CONVERTER
from headwater.logs import job_logging
from headwater.replay.offsets import Range
from headwater.replay.operation import Session, replay
from headwater.replay.planning import Request
from headwater.replay.selection import Selection, check_range, parse_offsets
from headwater.settings import Settings, fault_points, load
from headwater.storage.archive.reader import Archive

_LOG = logging.getLogger(__name__)

_NAME = "visits_converter"


@click.command(
    "visits_converter_reprocessing_job",
    cls=JobCommand,
    # `-1` and `-2` are offsets here, no options.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("first", type=int, required=False)
@click.argument("last", type=int, required=False)
@click.option("--partition", type=click.IntRange(min=0), help="Needed where there are several.")
@click.option("--offsets", metavar="JSON", help="Ranges of several partitions.")
@click.option("--input-topic", default=VISITS_CONVERTER.input_topic, show_default=True)
@click.option("--output-topic", default=VISITS_CONVERTER.output_topic, show_default=True)
@click.option("--job-version", help="Default: the setting jobs.version.")
@click.option(
    "--delivery",
    type=click.Choice(["exactly-once", "strict"]),
    default="exactly-once",
    show_default=True,
    help="How records are handed to Kafka: docs/concepts/delivery.md.",
)
@click.option("--skip-existing", is_flag=True, help="Leave out what is there with this content.")
@click.option("--allow-gaps", is_flag=True, help="Go on without records that are not archived.")
@click.option("--again", is_flag=True, help="Do it though the same was done before.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.pass_obj
def main(settings: Settings | None, /, **given: Any) -> None:
    """Convert archived visits from offset FIRST to LAST again, both ends included.

    -2 is the earliest offset, -1 the latest.
    """
    settings = settings or load()
    fault_points.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")
    with job_logging(_NAME, quiet=given["quiet"]):
        _reprocess(settings, **given)


def _reprocess(settings: Settings, **given: Any) -> None:
    request = Request(
        name=_NAME,
        logic=VISITS_CONVERTER,
        selection=_selection(settings, **given),
        job_version=given["job_version"] or settings.jobs.version,
        target=given["output_topic"],
        allow_gaps=given["allow_gaps"],
        skip_existing=given["skip_existing"],
        again=given["again"],
        delivery=given["delivery"],
    )
    outcome = replay(request, settings, Session(settings))
    manifest = outcome.manifest
    if manifest is None:
        # Stopped by a signal, after a step.
        click.get_current_context().exit(1)
    if not outcome.new:
        _LOG.info("replay %s is already done: nothing is written", outcome.folder.replay_id)
        return
    result = manifest.result
    _LOG.info(
        "replay %s: %d records read, %d written to %s",
        outcome.folder.replay_id,
        result.read.records,
        result.outputs.records,
        request.target,
    )


def _selection(settings: Settings, **given: Any) -> Selection:
    topic, whole = given["input_topic"], (given["first"], given["last"])
    if given["offsets"] is not None:
        if whole != (None, None):
            raise InputError("FIRST and LAST, or --offsets: not both")
        topic, offsets = parse_offsets(given["offsets"])
        return Selection(topic, offsets)
    if None in whole:
        raise InputError("FIRST and LAST are needed", hint="such as `0 2`: offsets 0, 1 and 2")
    return Selection(topic, {_partition(topic, given["partition"], settings): (_range(whole),)})


def _range(whole: Any) -> Range:
    return check_range(list(whole), f"{whole[0]} {whole[1]}")


def _partition(topic: str, given: int | None, settings: Settings) -> int:
    """A bare range is one of one partition: in several it would mean other records in each."""
    if given is not None:
        return given
    partitions = sorted(Archive.open(topic, settings).coverage())
    if len(partitions) > 1:
        raise InputError(
            f"the archive of {topic!r} has partitions {', '.join(map(str, partitions))}: "
            "a range of offsets means other records in each",
            hint="choose one with --partition, or ranges with --offsets",
        )
    return partitions[0] if partitions else 0


if __name__ == "__main__":
    main()
