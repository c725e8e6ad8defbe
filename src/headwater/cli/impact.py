"""`impact`: the records that were made from a record or by a job."""

from __future__ import annotations

from typing import Any

import click

from headwater.cli.app import with_settings
from headwater.cli.options import RenamedOption
from headwater.cli.output import json_option, print_json, print_table
from headwater.cli.parsing import parse_batches
from headwater.cli.text import printable
from headwater.cli.trace import tree_lines
from headwater.errors import InputError
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing import Impact, JobOutput, RecordState
from headwater.tracing import impact as impact_of
from headwater.tracing.impact import MAX_RECORDS
from headwater.tracing.lag import IndexLag, index_lag
from headwater.tracing.node import MAX_DEPTH


@click.command()
@click.argument("address", required=False)
@click.option("--job", metavar="NAME", help="Start from all output of this job.")
@click.option("--job-version", metavar="VERSION", help="Only output of this version of the job.")
@click.option("--batches", metavar="A..B", help="Only output of these batches, both included.")
@click.option(
    "--depth",
    cls=RenamedOption,
    former=["--max-depth"],
    default=MAX_DEPTH,
    show_default=True,
    # Printing nested objects is recursive; Python's limit is reached at about 300 hops.
    type=click.IntRange(0, 200),
    help="Hops to show.",
)
@click.option(
    "--limit",
    cls=RenamedOption,
    former=["--max-records"],
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
    depth: int,
    limit: int,
    as_json: bool,
) -> None:
    """Show and count the records that were made from a record, or from the output of a job.

    ADDRESS is TOPIC/PARTITION@OFFSET, such as `visits/0@17`. Reads the index that
    `headwater run lineage_index_job` maintains, and shows its lag; rows of tables are counted in
    the tables themselves.
    """
    start = _start(address, job, job_version, batches)
    result = impact_of(start, settings, max_records=limit, max_depth=depth)
    lag = index_lag(result.indexed, settings)
    content = result.as_json(max_depth=depth) | lag.as_json()
    if as_json:
        print_json(content)
    else:
        _show(result, content, lag)
    root = result.root
    if root is not None and root.state is RecordState.UNVERIFIED and root.absence is not None:
        raise InputError(
            f"no record at {address}: {root.reason}",
            hint="`headwater topics describe TOPIC` shows which offsets there are",
        )


def _start(
    address: str | None, job: str | None, version: str | None, batches: str | None
) -> Address | JobOutput:
    if (address is None) == (job is None):
        raise InputError(
            "impact needs either an address or --job",
            hint="for example `headwater impact visits/0@17` or `headwater impact --job NAME`",
        )
    if address is not None:
        if version is not None or batches is not None:
            raise InputError("--job-version and --batches require --job")
        return Address.parse(address)
    assert job is not None  # noqa: S101 - one of the two is there
    return JobOutput(job, version, None if batches is None else parse_batches(batches))


def _show(result: Impact, content: dict[str, Any], lag: IndexLag) -> None:
    if isinstance(result.start, JobOutput):
        trees = content["children"]
        truncated = result.truncated
    else:
        trees = [content]
        truncated = False
    for tree in trees:
        for line in tree_lines(tree, "children"):
            click.echo(line)
    if truncated:
        click.echo("… more records of the job, not shown")
    if result.counts:
        more = "+" if result.lower_bound else ""
        rows = [
            (topic, f"{number}{more}", _made_note(result, topic))
            for topic, number in result.counts.items()
        ]
        print_table(("topic", "records", ""), rows)
    elif not result.tables and not result.within_counts and not result.tables_within:
        click.echo("no indexed record was made from it")
    if result.within_counts:
        within = [(topic, str(number)) for topic, number in result.within_counts.items()]
        print_table(("topic", "records within ranges, which may be made from it"), within)
    if result.tables:
        print_table(("table", "rows"), [(t, str(rows)) for t, rows in result.tables.items()])
    for table, number in result.tables_within.items():
        click.echo(
            printable(f"{number} rows of {table} may be made from it: within ranges".encode())
        )
    for reason in result.unread_tables.values():
        click.echo(printable(f"not counted: {reason}".encode()))
    if result.cut:
        click.echo(f"there may be more: {result.cut}")
    for topic, number in result.unlisted.items():
        click.echo(f"{number} edges to {topic} are not listed in headers, and not followed")
    for line in lag.lines():
        click.echo(printable(line.encode()))


def _made_note(result: Impact, topic: str) -> str:
    made = result.made.get(topic)
    return f"{made} made by the job itself" if made else ""
