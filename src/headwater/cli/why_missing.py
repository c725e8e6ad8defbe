"""`why-missing`: what became of a record."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.cli.output import json_option, print_json, reading_progress, with_settings
from headwater.cli.text import printable
from headwater.jobs.visits_ads.waiting import JoinExplainer
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing import Verdict, WhyMissing
from headwater.tracing import why_missing as ask_why_missing


@click.command("why-missing")
@click.argument("address")
@click.option("--in", "topic", required=True, metavar="TOPIC", help="Where it should have gone.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Of a job on the way, if it is not in HEADWATER_HOME/checkpoints.",
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
    """Tell what became of a record on its way into a topic, over one job or several.

    ADDRESS is TOPIC/PARTITION@OFFSET of an input record. Exits 0 if the topic has a record made
    from it, 1 if not: dead-lettered, late, waiting for a match, unmatched, not yet read, never
    read, filtered, uncertain, expired, or never was.
    """
    record = Address.parse(address)
    with reading_progress() as progress:
        found = ask_why_missing(
            record,
            topic,
            settings,
            checkpoint=checkpoint,
            explainers=[JoinExplainer(settings)],
            progress=progress,
        )
    if as_json:
        print_json(found.as_json())
    else:
        _show(found)
    ctx.exit(0 if found.present else 1)


def _show(found: WhyMissing) -> None:
    click.echo(f"{found.record} in {found.topic}: {_fate(found.verdict)}")
    for hop in found.hops:
        click.echo(f"  {_fate(hop)}: {printable(hop.sentence.encode())}")


def _fate(verdict: Verdict) -> str:
    return f"{verdict.fate.value} (an estimate)" if verdict.estimate else verdict.fate.value
