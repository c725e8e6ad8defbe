"""`trace`: the ancestors of a record."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, print_json
from headwater.cli.text import printable
from headwater.errors import InputError
from headwater.model import Address
from headwater.settings import Settings
from headwater.tracing import RecordState
from headwater.tracing import trace as trace_record
from headwater.tracing.node import MAX_DEPTH

# Printing nested objects is recursive; Python's limit is reached at about 300 hops.
_DEPTHS = click.IntRange(0, 200)


@click.command()
@click.argument("address")
@click.option("--depth", default=MAX_DEPTH, show_default=True, type=_DEPTHS, help="Hops to follow.")
@click.option("--values", is_flag=True, help="Also show the values of the records.")
@json_option
@with_settings
def trace(settings: Settings, address: str, depth: int, values: bool, as_json: bool) -> None:
    """Show what a record was made from, back to the records that no job made.

    ADDRESS is TOPIC/PARTITION@OFFSET, such as `visits/0@17`. Each record is found, archived,
    expired (no longer in Kafka) or unverified (the header's claim is invalid). Of a range, as
    `within visits/0@3..17`, is not known which of its records are parents; it is not followed.
    """
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
    if node["truncated"]:
        yield f"… more {below}, not followed"
    if below == "parents" and node["unlisted"]:
        yield f"… {node['unlisted']} more parents, which the header does not list"
    if below == "parents" and node["more_parents"]:
        yield "… may have more parents, which are not known"


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
