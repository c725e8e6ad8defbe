"""`trace`: the ancestors of a record."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import click

from headwater.cli.app import with_settings
from headwater.cli.output import download_progress, json_option, messages, print_json
from headwater.cli.text import printable
from headwater.errors import InputError
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing import RecordState
from headwater.tracing import trace as trace_record
from headwater.tracing.node import MAX_DEPTH, ResolutionState, TraceNode

# Printing nested objects is recursive; Python's limit is reached at about 300 hops.
_DEPTHS = click.IntRange(0, 200)


@click.command()
@click.argument("address")
@click.option("--depth", default=MAX_DEPTH, show_default=True, type=_DEPTHS, help="Hops to follow.")
@click.option("--values", is_flag=True, help="Also show the values of the records.")
@click.option(
    "--resolve",
    is_flag=True,
    help="If its parents are within ranges, find them by replay; starts Spark.",
)
@click.option(
    "--transform",
    help="With --resolve: the transform of its job; default: as in the setting replay.transforms.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    help="With --resolve: maximum number of records in the ranges.",
)
@click.option(
    "--max-runs",
    type=click.IntRange(1),
    help="With --resolve: how often the transform may be run on a part of the records.",
)
@json_option
@click.pass_context
@with_settings
def trace(
    settings: Settings,
    ctx: click.Context,
    /,
    address: str,
    depth: int,
    values: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Show what a record was made from, back to the records that no job made.

    ADDRESS is TOPIC/PARTITION@OFFSET, such as `visits/0@17`. Each record is found, archived,
    expired (no longer in Kafka) or unverified (the header's claim is invalid). Of a range, as
    `within visits/0@3..17`, is not known which of its records are parents; it is not followed.

    With --resolve, the records of these ranges are run through the job's transform again, to find
    those that make the record; exits with 1 if they are not found.
    """
    if options["resolve"]:
        node = _resolved(address, settings, depth, values, options)
    else:
        node = trace_record(Address.parse(address), settings, max_depth=depth, values=values)
    content = node.as_json(max_depth=depth, values=values)
    if as_json:
        print_json(content)
    else:
        for line in tree_lines(content, "parents"):
            click.echo(line)
    # Invalid claims in headers are shown; an invalid address from the caller is an error.
    if node.state is RecordState.UNVERIFIED and node.absence is not None:
        raise InputError(
            f"no record at {address}: {node.reason}",
            hint="`headwater topics describe TOPIC` shows which offsets there are",
        )
    if node.resolution is not None and node.resolution.state is not ResolutionState.RESOLVED:
        ctx.exit(1)


def _resolved(
    address: str, settings: Settings, depth: int, values: bool, options: dict[str, Any]
) -> TraceNode:
    """The ancestry with the parents within the ranges of the record itself."""
    from headwater.jobs import TRANSFORMS
    from headwater.replay import load_transform
    from headwater.replay.resolve import trace as trace_and_resolve

    limits = {
        "max_resolved_records": options["limit"],
        "max_resolve_runs": options["max_runs"],
    }
    given = {name: value for name, value in limits.items() if value is not None}
    replay = settings.replay.model_copy(update=given)
    name = options["transform"]
    with download_progress() as progress:
        node = trace_and_resolve(
            Address.parse(address),
            settings.model_copy(update={"replay": replay}),
            max_depth=depth,
            values=values,
            resolve=True,
            transform=None if name is None else load_transform(name, TRANSFORMS),
            progress=progress,
        )
    if node.resolution is None and node.absence is None:
        messages.print(f"{node.address} has no ranges: its parents are exact", markup=False)
    return node


def tree_lines(root: dict[str, Any], below: str) -> Iterator[str]:
    """Nested objects as a tree; the field `below` has the lower nodes."""
    # Not recursive, unlike rich: a chain may be long.
    stack: list[tuple[dict[str, Any] | str, str, str]] = [(root, "", "")]
    while stack:
        node, lead, indent = stack.pop()
        if isinstance(node, str):
            yield lead + node
            continue
        yield lead + _line(node)
        lower = [*node[below], *_left_out(node, below)]
        if "value" in node:
            yield f"{indent}{'│' if lower else ' '}   {_plain(node['value'])}"
        for number in range(len(lower) - 1, -1, -1):
            last = number == len(lower) - 1
            branch, rail = ("└── ", "    ") if last else ("├── ", "│   ")
            stack.append((lower[number], indent + branch, indent + rail))


def _left_out(node: dict[str, Any], below: str) -> Iterator[str]:
    for within in node["ranges"] if below == "parents" else ():
        address = f"{within['topic']}/{within['partition']}@{within['first']}..{within['last']}"
        number = within["records"]
        yield f"within {address} ({number} {'record' if number == 1 else 'records'})"
    yield from _resolution_lines(node.get("resolution"))
    if node["truncated"]:
        yield f"… more {below}, not followed"
    if below == "parents" and node["unlisted"]:
        yield f"… {node['unlisted']} more parents, which the header does not list"
    if below == "parents" and node["more_parents"]:
        yield "… may have more parents, which are not known"


def _resolution_lines(resolution: dict[str, Any] | None) -> Iterator[str]:
    if resolution is None:
        return
    state, runs = resolution["state"], f"{resolution['runs']} runs of the transform"
    if resolution["reason"] is not None:
        yield f"{state}: {resolution['reason']}"
    elif resolution["candidates"]:
        yield f"{state}: each of these alone makes it, {runs}"
        yield from (f"candidate {address}" for address in resolution["candidates"])
    elif resolution["by_record"]:
        yield f"{state}: {resolution['parents'][0]} makes it and no other record does, {runs}"
    else:
        parents = ", ".join(resolution["parents"])
        yield f"{state}: {parents} make it, and without any of them it is not made, {runs}"


def _line(node: dict[str, Any]) -> str:
    parts = [f"{node['topic']}/{node['partition']}@{node['offset']}", node["state"]]
    if node["job_name"] is not None:
        made_by = f"{_plain(node['job_name'])} {_plain(node['job_version'])}"
        parts.append(f"{made_by}, batch {_plain(node['batch_version'])}")
        if node["run_id"]:
            parts.append(f"run {node['run_id']}")
    elif node["state"] in {"found", "archived"} and node["reason"] is None:
        parts.append("source record")
    if node.get("within"):
        parts.append("within ranges: may be made from it")
    if node["reason"]:
        parts.append(node["reason"])
    return "  ".join(parts)


def _plain(content: Any) -> str:
    """Bytes in JSON form as one line that is safe to print."""
    if isinstance(content, dict):
        return printable(base64.b64decode(content["base64"]))
    return "null" if content is None else printable(str(content).encode())
