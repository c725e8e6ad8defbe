"""A record in an ancestry, and the ancestry as nested objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from headwater.kafka import Absence
from headwater.model import Address
from headwater.tracing.jsonable import bytes_as_json, text_as_json

# Pipelines have a few hops. Common readers of JSON give up at a nesting of 256, two for each hop.
MAX_DEPTH = 100
# A record may be an ancestor by many ways, and is shown in each place: 30 records, each made
# twice from the one before, would be a billion places.
_MAX_SHOWN = 10_000

Node = TypeVar("Node")


class State(Enum):
    """How much of a record could be had."""

    FOUND = "found"
    ARCHIVED = "archived"
    EXPIRED = "expired"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, eq=False)
class TraceNode:
    """A record and those it was made from.

    A record that was made by no job, a source record, has no `job_name` and no parents. `reason`
    says why a state is not `found`, or why there are no parents; `absence` is set where there is
    no record. `unlisted` counts parents that
    the record's header counts and does not list; `truncated` tells that the walk ended here,
    before all listed parents. Nodes are shared: who walks over `parents` meets some repeatedly.
    """

    address: Address
    state: State
    reason: str | None = None
    absence: Absence | None = None
    job_name: str | None = None
    job_version: str | None = None
    batch_version: int | None = None
    run_id: str | None = None
    record_id: str | None = None
    timestamp_ms: int | None = None
    value: bytes | None = field(default=None, repr=False)
    unlisted: int = 0
    truncated: bool = False
    # Not in the repr, which would recurse down a long chain.
    parents: tuple[TraceNode, ...] = field(default=(), repr=False)

    def as_json(self, *, max_depth: int = MAX_DEPTH, values: bool = False) -> dict[str, Any]:
        """Nested objects, cut with `truncated` behind `max_depth` hops or 10,000 objects.

        Python's own `json` fails on some 400 hops.
        """
        return nested_json(
            self,
            "parents",
            lambda node: node.parents,
            lambda node: flat_json(node, values),
            max_depth,
        )


def nested_json(
    root: Node,
    name: str,
    below: Callable[[Node], Sequence[Node]],
    flat: Callable[[Node], dict[str, Any]],
    max_depth: int = MAX_DEPTH,
) -> dict[str, Any]:
    """Objects with those `below` them under `name`, cut with `truncated`."""
    content = flat(root)
    waiting = deque([(root, content, 0)])
    shown = 1
    # In breadth, so that what is cut is what is farthest.
    while waiting:
        upper, outer, depth = waiting.popleft()
        outer[name] = []
        for lower in below(upper):
            if shown == _MAX_SHOWN or depth == max_depth:
                outer["truncated"] = True
                break
            shown += 1
            inner = flat(lower)
            outer[name].append(inner)
            waiting.append((lower, inner, depth + 1))
    return content


def flat_json(node: TraceNode, values: bool = False) -> dict[str, Any]:
    """A record without those that it was made from."""
    content: dict[str, Any] = {
        "topic": node.address.topic,
        "partition": node.address.partition,
        "offset": node.address.offset,
        "job_name": text_as_json(node.job_name),
        "job_version": text_as_json(node.job_version),
        "batch_version": node.batch_version,
        "run_id": node.run_id,
        "record_id": node.record_id,
        "timestamp": node.timestamp_ms,
        "state": node.state.value,
        "reason": node.reason,
        "unlisted": node.unlisted,
        "truncated": node.truncated,
    }
    if values and node.absence is None:
        content["value"] = bytes_as_json(node.value)
    return content
