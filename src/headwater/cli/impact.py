"""`impact`: the forward question."""

from __future__ import annotations

from typing import Any

import click

from headwater.cli.output import json_option, print_json, print_table, with_settings
from headwater.cli.parsing import parse_batches
from headwater.cli.text import printable
from headwater.cli.trace import tree_lines
from headwater.errors import InputError
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing import Impact, JobOutput, State
from headwater.tracing import impact as impact_of
from headwater.tracing.impact import MAX_RECORDS
from headwater.tracing.lag import IndexLag, index_lag
from headwater.tracing.node import MAX_DEPTH


@click.command()
@click.argument("address", required=False)
@click.option("--job", metavar="NAME", help="Begin with all that this job made.")
@click.option("--job-version", metavar="VERSION", help="Only what this version of it made.")
@click.option("--batches", metavar="A..B", help="Only what these batches made, both included.")
@click.option(
    "--max-depth",
    default=MAX_DEPTH,
    show_default=True,
    # Printing nested objects takes some stack for each hop; Python ends at about 300.
    type=click.IntRange(0, 200),
    help="Hops to show.",
)
@click.option(
    "--max-records",
    default=MAX_RECORDS,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="Records to show; all are counted.",
)
@json_option
@with_settings
def impact(
    settings: Settings,
    address: str | None,
    job: str | None,
    job_version: str | None,
    batches: str | None,
    max_depth: int,
    max_records: int,
    as_json: bool,
) -> None:
    """Show what was made from a record, or from all that a job made, and count it.

    ADDRESS is TOPIC/PARTITION@OFFSET, such as `visits/0@17`. Asks the index that
    `headwater run lineage_index_job` keeps, and says how far that has come; rows of tables are
    counted in the tables themselves.
    """
    asked = _asked(address, job, job_version, batches)
    found = impact_of(asked, settings, max_records=max_records, max_depth=max_depth)
    lag = index_lag(found.indexed, settings)
    content = found.as_json(max_depth=max_depth) | lag.as_json()
    if as_json:
        print_json(content)
    else:
        _show(found, content, lag)
    root = found.root
    if root is not None and root.state is State.UNVERIFIED and root.absence is not None:
        raise InputError(
            f"no record at {address}: {root.reason}",
            hint="`headwater topics describe TOPIC` shows which offsets there are",
        )


def _asked(
    address: str | None, job: str | None, version: str | None, batches: str | None
) -> Address | JobOutput:
    if (address is None) == (job is None):
        raise InputError(
            "impact wants an address or --job, one of them",
            hint="such as `headwater impact visits/0@17` or `headwater impact --job NAME`",
        )
    if address is not None:
        if version is not None or batches is not None:
            raise InputError("--job-version and --batches go with --job, not with an address")
        return Address.parse(address)
    assert job is not None  # noqa: S101 - one of the two is there
    return JobOutput(job, version, None if batches is None else parse_batches(batches))


def _show(found: Impact, content: dict[str, Any], lag: IndexLag) -> None:
    if isinstance(found.asked, JobOutput):
        trees = content["children"]
        left_out = found.truncated
    else:
        trees = [content]
        left_out = False
    for tree in trees:
        for line in tree_lines(tree, "children"):
            click.echo(line)
    if left_out:
        click.echo("… more records of the job, not shown")
    if found.counts:
        more = "+" if found.lower_bound else ""
        rows = [
            (topic, f"{number}{more}", _made_note(found, topic))
            for topic, number in found.counts.items()
        ]
        print_table(("topic", "records", ""), rows)
    elif not found.tables:
        click.echo("nothing that is indexed was made from it")
    if found.tables:
        print_table(("table", "rows"), [(t, str(rows)) for t, rows in found.tables.items()])
    for reason in found.unread_tables.values():
        click.echo(printable(f"not counted: {reason}".encode()))
    if found.cut:
        click.echo(f"there may be more: {found.cut}")
    for topic, number in found.unlisted.items():
        click.echo(f"{number} edges to {topic} are not listed in headers, and not followed")
    for line in lag.lines():
        click.echo(printable(line.encode()))


def _made_note(found: Impact, topic: str) -> str:
    made = found.made.get(topic)
    return f"{made} made by the job itself" if made else ""
