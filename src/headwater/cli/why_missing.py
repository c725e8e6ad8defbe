"""`why-missing`: what became of a record."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, print_json, reading_progress
from headwater.cli.text import printable
from headwater.join.fates import why_missing as find_why_missing
from headwater.model import Address
from headwater.settings import Settings
from headwater.settings.path_option import PathOption
from headwater.tracing import Verdict, WhyMissing


@click.command("why-missing")
@click.argument("address")
@click.option(
    "--in",
    "topic",
    required=True,
    metavar="TOPIC",
    help="The output topic.",
)
@click.option(
    "--checkpoint",
    type=PathOption(exists=True, file_okay=False),
    help="Checkpoint of a job in between, if not in HEADWATER_HOME/checkpoints.",
)
@json_option
@click.pass_context
@with_settings
def why_missing(
    settings: Settings,
    ctx: click.Context,
    address: str,
    topic: str,
    checkpoint: Path | None,
    as_json: bool,
) -> None:
    """Show what became of a record between its topic and another, over one or more jobs.

    ADDRESS is TOPIC/PARTITION@OFFSET of an input record. Exits 0 if the topic has an output of it,
    else 1: within ranges (an output may be made from it), dead-lettered, late, waiting for a match,
    unmatched, not yet read, never read, filtered, uncertain, expired, or never was.
    """
    record = Address.parse(address)
    with reading_progress() as progress:
        result = find_why_missing(
            record,
            topic,
            settings,
            checkpoint=checkpoint,
            progress=progress,
        )
    if as_json:
        print_json(result.as_json())
    else:
        _show(result)
    ctx.exit(0 if result.present else 1)


def _show(result: WhyMissing) -> None:
    click.echo(f"{result.record} in {result.topic}: {_fate(result.verdict)}")
    for hop in result.hops:
        click.echo(f"  {_fate(hop)}: {printable(hop.sentence.encode())}")


def _fate(verdict: Verdict) -> str:
    return f"{verdict.fate.value} (an estimate)" if verdict.estimate else verdict.fate.value
