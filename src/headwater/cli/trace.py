"""`trace` and `verify`: the questions about records."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import click

from headwater.cli.frame import json_option, messages, print_json, print_table, with_settings
from headwater.cli.text import printable
from headwater.errors import InputError
from headwater.model import Address
from headwater.settings import Settings
from headwater.trace import State, VerifyReport
from headwater.trace import trace as trace_record
from headwater.trace import verify as verify_topic
from headwater.trace.node import MAX_DEPTH
from headwater.trace.report import Finding

# Printing nested objects takes some stack for each hop; Python ends at about 300.
_DEPTHS = click.IntRange(0, 200)


@click.command()
@click.argument("address")
@click.option("--depth", default=MAX_DEPTH, show_default=True, type=_DEPTHS, help="Hops to follow.")
@click.option("--values", is_flag=True, help="Show the values of the records, too.")
@json_option
@with_settings
def trace(settings: Settings, address: str, depth: int, values: bool, as_json: bool) -> None:
    """Show what a record was made from, back to the records that no job made.

    ADDRESS is TOPIC/PARTITION@OFFSET, such as `visits/0@17`. Each record is found, archived,
    expired (Kafka no longer holds it) or unverified (what a header claims does not hold).
    """
    node = trace_record(Address.parse(address), settings, max_depth=depth, values=values)
    content = node.as_json(max_depth=depth, values=values)
    if as_json:
        print_json(content)
    else:
        for line in _tree(content):
            click.echo(line)
    # A claim of somebody else is told and passed over; one of the caller is an error.
    if node.state is State.UNVERIFIED and node.absence is not None:
        raise InputError(
            f"no record at {address}: {node.reason}",
            hint="`headwater topics describe TOPIC` shows which offsets there are",
        )


@click.command()
@click.argument("topic")
@click.option("--source", required=True, metavar="TOPIC", help="The topic it was made from.")
@click.option("--order", is_flag=True, help="Show examples of gaps, duplicates and disorder.")
@json_option
@click.pass_context
@with_settings
def verify(
    settings: Settings, ctx: click.Context, topic: str, source: str, order: bool, as_json: bool
) -> None:
    """Hold a topic against its source: lost, duplicate, out of order, without lineage.

    Dead-lettered records are counted apart, not as missing. Exits 0 only if every record of the
    source is accounted for, once, in order per key; an empty source is no pass.
    """
    # Both topics are read whole; a million records take some twenty seconds.
    with messages.status(f"reading {topic} and {source}"):
        report = verify_topic(topic, source, settings)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
        if order:
            _show_examples(report)
    ctx.exit(0 if report.passed else 1)


def _tree(root: dict[str, Any]) -> Iterator[str]:
    # Not recursive, and not by rich, which is: a chain may be long.
    waiting: list[tuple[dict[str, Any] | str, str, str]] = [(root, "", "")]
    while waiting:
        node, lead, indent = waiting.pop()
        if isinstance(node, str):
            yield lead + node
            continue
        yield lead + _line(node)
        below = [*node["parents"], *_left_out(node)]
        if "value" in node:
            yield f"{indent}{'│' if below else ' '}   {_plain(node['value'])}"
        for number in range(len(below) - 1, -1, -1):
            last = number == len(below) - 1
            branch, rail = ("└── ", "    ") if last else ("├── ", "│   ")
            waiting.append((below[number], indent + branch, indent + rail))


def _left_out(node: dict[str, Any]) -> Iterator[str]:
    if node["truncated"]:
        yield "… more parents, not followed"
    if node["unlisted"]:
        yield f"… {node['unlisted']} more parents, which the header does not list"


def _line(node: dict[str, Any]) -> str:
    parts = [f"{node['topic']}/{node['partition']}@{node['offset']}", node["state"]]
    if node["job_name"] is not None:
        made_by = f"{_plain(node['job_name'])} {_plain(node['job_version'])}"
        parts.append(f"{made_by}, batch {_plain(node['batch_version'])}")
        if node["run_id"]:
            parts.append(f"run {node['run_id']}")
    elif node["state"] in {"found", "archived"} and node["reason"] is None:
        parts.append("source record")
    if node["reason"]:
        parts.append(node["reason"])
    return "  ".join(parts)


def _plain(content: Any) -> str:
    """What JSON holds of the bytes of others, as one line that is safe to print."""
    if isinstance(content, dict):
        return printable(base64.b64decode(content["base64"]))
    return "null" if content is None else printable(str(content).encode())


def _show(report: VerifyReport) -> None:
    # Rounded down: a million with one missing are not 100 %.
    share = int(report.coverage * 10_000) / 100
    click.echo(
        f"{report.topic}, made from {report.source}: {report.state.value}, "
        f"{share:g} % of the source accounted for"
    )
    rows = [
        ("expected", report.expected, "records of the source"),
        ("found", report.found, "with an output"),
        ("missing", report.missing, f"without; ranges of offsets: {report.gaps}"),
        ("dead-lettered", report.dead_lettered, "without, and told why"),
        ("filtered", report.filtered, "without, on purpose"),
        ("scanned", report.scanned, "records of the topic"),
        ("duplicates", report.duplicates, "copies of an earlier record"),
        ("out of order", report.out_of_order, "behind a later one of the same key"),
        ("without lineage", report.without_lineage, ""),
    ]
    # Of these nobody wants to hear unless there are some.
    special = [
        ("unreadable", report.unreadable, "lineage headers"),
        ("unknown parents", report.unknown_parents, "outputs of records that never were"),
        ("gone parents", report.gone_parents, "no longer in the source"),
        ("unlisted parents", report.unlisted_parents, "not listed in headers, so not found"),
        ("without key", report.without_key, "not held to an order"),
    ]
    print_table(("what", "number", ""), rows + [row for row in special if row[1]])


def _show_examples(report: VerifyReport) -> None:
    for gap in report.gap_examples:
        until = f" to {gap.last}" if gap.last != gap.first else ""
        click.echo(f"missing: {gap.first}{until}")
    for kind, findings in report.examples.items():
        for finding in findings:
            click.echo(f"{kind.replace('_', ' ')}: {_example(finding)}")


def _example(finding: Finding) -> str:
    text = str(finding.record)
    if finding.parent is not None:
        text += f", made from {finding.parent}"
    if finding.after is not None:
        text += f", comes after one made from {finding.after}, key {printable(finding.key)}"
    return text
