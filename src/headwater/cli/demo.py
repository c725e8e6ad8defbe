"""`demo [NAME]`: runs the demos."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console

from headwater.cli.app import with_settings
from headwater.cli.output import download_progress
from headwater.demo import NEEDED_CONNECTORS, STORIES, Story, missing_connectors
from headwater.errors import NotInstalledError
from headwater.jvm.installed import SHORT_LIVED
from headwater.service.processes import pid_file
from headwater.settings import Settings

_NEXT_COMMANDS = {
    "unchanged": (
        "headwater consume unchanged-1.visits-by-page --from-beginning --headers",
        "headwater trace unchanged-1.visit-pages/0@0",
    ),
    "tracker": (
        "headwater consume visits-reduced --from-beginning --headers",
        "headwater trace visits-reduced/0@0",
    ),
    "joiner": (
        "headwater run visits_ads_enrichment_job --explain",
        "headwater consume joiner-1.visits-enriched --from-beginning --headers",
    ),
    "fifo": (
        "headwater consume visits-individual-send --from-beginning --timestamps --show-address",
        "headwater verify visits-individual-send --source visits --order --follow",
    ),
    "reprocessor": (
        "headwater consume clicks_transformed --format table",
        "headwater replay list",
        "headwater archive status",
    ),
    "lakehouse": (
        "headwater doctor",
        "curl http://localhost:5000/api/v1/namespaces/neuronews/jobs/BatchWriteRawWithLineage",
    ),
}


@contextmanager
def _without_warnings(logger_name: str) -> Iterator[None]:
    """The last demo starts the lineage service; until then events are queued, as intended."""
    logger = logging.getLogger(logger_name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _possible(names: tuple[str, ...], settings: Settings, console: Console) -> list[str]:
    """The demos to run: those that are named, or all that this Spark has the connectors for.

    Raises:
        NotInstalledError: a demo that is named needs a connector that this Spark does not have.
    """
    missing = missing_connectors(settings)
    possible = []
    for name in names or STORIES:
        connector = NEEDED_CONNECTORS.get(name, "")
        if connector not in missing:
            possible.append(name)
        elif names:
            raise NotInstalledError(
                f"the demo {name!r} needs the connector {connector!r}: {missing[connector]}",
                hint="use another version of Spark, or run the other demos",
            )
        else:
            console.print(f"skipping {name}: {missing[connector]}", soft_wrap=True)
    return possible


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(STORIES)))
@click.pass_context
@with_settings
def demo(settings: Settings, ctx: click.Context, names: tuple[str, ...]) -> None:
    """Run demos on the real stack, step by step, and check them; without a name: all."""
    spark = {"log_level": "ERROR", "java_options": settings.spark.java_options or SHORT_LIVED}
    quiet = settings.model_copy(update={"spark": settings.spark.model_copy(update=spark)})
    console = Console(highlight=False)
    chosen = _possible(names, settings, console)
    began = time.monotonic()
    with (
        pid_file("demo", settings.home_dir),
        download_progress() as progress,
        _without_warnings("headwater.openlineage"),
    ):
        story = Story(quiet, console, progress)
        for name in chosen:
            STORIES[name](story)
    seconds = time.monotonic() - began
    console.print()
    if story.failed:
        console.print(f"{len(story.failed)} of {story.passed + len(story.failed)} checks failed.")
        ctx.exit(1)
    console.print(f"All {story.passed} checks passed in {seconds:.0f} s.")
    console.print("The services are still running; `headwater down` stops them. To see more:")
    for name in chosen:
        for command in _NEXT_COMMANDS.get(name, ()):
            console.print(f"  {command}", soft_wrap=True)
