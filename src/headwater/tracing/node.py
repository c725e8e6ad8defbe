"""A record in an ancestry, and the ancestry as nested objects."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from headwater.kafka import Absence
from headwater.model import Address, AddressRange

# Pipelines have a few hops. Common JSON parsers fail at a nesting of 256, two for each hop.
MAX_DEPTH = 100
# A record that is an ancestor by several paths is shown once per path: 30 records, each made
# twice from the one before, would be a billion nodes.
_MAX_SHOWN = 10_000

Node = TypeVar("Node")


class RecordState(Enum):
    """Whether a record was found, and where."""

    FOUND = "found"
    ARCHIVED = "archived"
    EXPIRED = "expired"
    UNVERIFIED = "unverified"


class ResolutionState(Enum):
    """Whether the parents within ranges were found by running the job's transform again."""

    RESOLVED = "resolved"
    AMBIGUOUS = "ambiguous"
    NOT_RESOLVED = "not resolved"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The parents of a record within ranges, searched by replay.

    `parents` is set if resolved: these records make the record, and without any of them it is not
    made. `candidates` is set if ambiguous: each of them alone makes it. `by_record` is true if the
    outputs of the ranges are those of their records one by one; otherwise the parents are the
    smallest set that makes the record, and others may have been read for it.
    """

    state: ResolutionState
    parents: tuple[Address, ...] = ()
    candidates: tuple[Address, ...] = ()
    reason: str | None = None
    by_record: bool = False
    # How many records were read, and how often the transform was run on some of them.
    records: int = 0
    runs: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "state": self.state.value,
            "parents": list(map(str, self.parents)),
            "candidates": list(map(str, self.candidates)),
            "reason": self.reason,
            "by_record": self.by_record,
            "records": self.records,
            "runs": self.runs,
        }


@dataclass(frozen=True, slots=True, eq=False)
class TraceNode:
    """A record and those it was made from.

    A source record, which no job made, has no `job_name` and no parents. `reason` explains a state
    other than `found`, or why there are no parents or no job; `absence` is set if there is no
    record. `unlisted` is the number of parents that the header counts and does not list;
    `truncated` is true if the walk ended here, before all listed parents. Nodes are shared: a node
    may be reached by several paths over `parents`.

    `ranges` contain parents of which is not known which records they are; they are not followed.
    `more_parents` is true if there may be parents that nothing names. `resolution` is set if the
    parents within the ranges were searched; those that are resolved are in `parents`, too.
    """

    address: Address
    state: RecordState
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
    ranges: tuple[AddressRange, ...] = ()
    more_parents: bool = False
    truncated: bool = False
    resolution: Resolution | None = None
    # Not in the repr, which would recurse down a long chain.
    parents: tuple[TraceNode, ...] = field(default=(), repr=False)

    def as_json(self, *, max_depth: int = MAX_DEPTH, values: bool = False) -> dict[str, Any]:
        """Nested objects, cut with `truncated` after `max_depth` hops or 10,000 objects.

        Python's `json` fails at about 400 hops.
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
    """Nested objects: those `below` a node are in its field `name`; cut with `truncated`."""
    content = flat(root)
    queue = deque([(root, content, 0)])
    shown = 1
    # Breadth first, so that the farthest nodes are cut.
    while queue:
        upper, outer, depth = queue.popleft()
        outer[name] = []
        for lower in below(upper):
            if shown == _MAX_SHOWN or depth == max_depth:
                outer["truncated"] = True
                break
            shown += 1
            inner = flat(lower)
            outer[name].append(inner)
            queue.append((lower, inner, depth + 1))
    return content


def flat_json(node: TraceNode, values: bool = False) -> dict[str, Any]:
    """A record without its parents."""
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
        "ranges": [range_json(each) for each in node.ranges],
        "more_parents": node.more_parents,
        "truncated": node.truncated,
    }
    if node.resolution is not None:
        content["resolution"] = node.resolution.as_json()
    if values and node.absence is None:
        content["value"] = bytes_as_json(node.value)
    return content


def range_json(within: AddressRange) -> dict[str, Any]:
    """A range that contains parents of a record."""
    return {
        "topic": within.topic,
        "partition": within.partition,
        "first": within.first,
        "last": within.last,
        "records": within.size,
    }


def bytes_as_json(data: bytes | None) -> Any:
    """Text if the bytes are UTF-8, else `{"base64": …}`; as `headwater consume --json`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def text_as_json(text: str | None) -> Any:
    """The same for header text, in which bytes that are not UTF-8 are lone surrogates."""
    return None if text is None else bytes_as_json(text.encode("utf-8", "surrogateescape"))
