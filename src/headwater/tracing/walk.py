"""The walk from a record back to its sources, over whatever holds records.

Whoever may write to a topic may claim any parents: records that are not there, that come later,
that lead in a circle, or more than can be read. So the walk reads each record once, nearest
first, within bounds; only then are the circles cut and the nodes put together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Protocol

from headwater.kafka import Absence
from headwater.model import Address, Record
from headwater.model.headers import Origin, origin_of
from headwater.model.topic_names import dead_letter_topic, parents_topic
from headwater.tracing.graph import bottom_up
from headwater.tracing.node import State, TraceNode

# Each lists a thousand parents, and no walk reads more than ten thousand records.
_MAX_REST = 10

IN_A_CIRCLE = "a circle: the record is among its own ancestors"


class Source(Protocol):
    """Something that holds records by their address."""

    def fetch(self, address: Address) -> Record | Absence: ...


# Asked in order; the state is what a record counts as that was found there.
Sources = Sequence[tuple[State, Source]]


@dataclass(frozen=True, slots=True)
class Step:
    """A record as it was read: its node without parents, and the parents it claims."""

    node: TraceNode
    claimed: tuple[Address, ...] = ()


def walk(
    address: Address,
    sources: Sources,
    *,
    max_records: int,
    max_depth: int,
    values: bool = False,
) -> TraceNode:
    """Read a record and its ancestors, at most `max_records`, at most `max_depth` hops away."""
    steps = {address: read_step(address, sources, values)}
    waiting = deque([(address, 0)])
    while waiting:
        child, depth = waiting.popleft()
        if depth == max_depth:
            continue
        for parent in steps[child].claimed:
            if len(steps) == max_records:
                return _assemble(address, steps)
            if parent not in steps:
                steps[parent] = read_step(parent, sources, values)
                waiting.append((parent, depth + 1))
    return _assemble(address, steps)


def read_step(address: Address, sources: Sources, values: bool = False) -> Step:
    """The record at an address, from the first of the sources that holds it."""
    absence: Absence | None = None
    for state, source in sources:
        found = source.fetch(address)
        if isinstance(found, Record):
            return _with_rest(_step(found, state, values), found, sources)
        absence = absence or found
    gone = absence in {Absence.EXPIRED, Absence.HOLE}
    state = State.EXPIRED if gone else State.UNVERIFIED
    return Step(TraceNode(address, state, absence.value if absence else None, absence))


def _step(record: Record, state: State, values: bool) -> Step:
    origin = origin_of(record)
    lineage = origin.lineage
    node = TraceNode(
        record.address,
        state,
        job_name=origin.job_name,
        job_version=origin.job_version,
        batch_version=origin.batch_version,
        run_id=lineage.run_id if lineage else None,
        record_id=origin.record_id,
        timestamp_ms=record.timestamp_ms,
        value=record.value if values else None,
        unlisted=lineage.unlisted if lineage else 0,
    )
    doubt = _doubt(record.address, origin)
    if doubt is not None:
        return Step(replace(node, state=State.UNVERIFIED, reason=doubt))
    if lineage is not None:
        # A record that is named twice is one parent.
        return Step(node, tuple(dict.fromkeys(lineage.parents)))
    if origin.job_name is not None:
        return Step(replace(node, reason="made by a job that wrote no lineage header"))
    return Step(node)


def _with_rest(step: Step, record: Record, sources: Sources) -> Step:
    """Add the parents that records in the topic `…-parents` list for this one."""
    lineage = origin_of(record).lineage
    if lineage is None or step.node.state is State.UNVERIFIED:
        return step
    more: list[Address] = []
    for address in lineage.rest[:_MAX_REST]:
        more += _listed_by(address, step.node, sources)
    claimed = tuple(dict.fromkeys((*step.claimed, *more)))
    unlisted = max(step.node.unlisted - len(more), 0)
    return Step(replace(step.node, unlisted=unlisted), claimed)


def _listed_by(address: Address, child: TraceNode, sources: Sources) -> tuple[Address, ...]:
    output = child.address.topic.removesuffix(dead_letter_topic(""))
    if address.topic != parents_topic(output):
        return ()
    for _, source in sources:
        found = source.fetch(address)
        if isinstance(found, Record) and found.key == (child.record_id or "").encode():
            listed = origin_of(found).lineage
            return listed.parents if listed else ()
    return ()


def _doubt(address: Address, origin: Origin) -> str | None:
    """Why nothing of a record's lineage can be believed."""
    if origin.unreadable is not None:
        return f"its lineage header is not readable: {origin.unreadable.value}"
    for parent in origin.lineage.parents if origin.lineage else ():
        if parent == address:
            return "its lineage header names the record itself as a parent"
        if (parent.topic, parent.partition) == (address.topic, address.partition):
            if parent.offset > address.offset:
                return f"its lineage header names a parent that was written later: {parent}"
    return None


def _assemble(address: Address, steps: Mapping[Address, Step]) -> TraceNode:
    """Put the nodes together, parents before children."""
    done: dict[Address, TraceNode] = {}
    claims = {child: step.claimed for child, step in steps.items()}
    for child, circles in bottom_up([address], claims):
        done[child] = _node(steps[child], steps, done, circles)
    return done[address]


def _node(
    step: Step,
    steps: Mapping[Address, Step],
    done: Mapping[Address, TraceNode],
    circles: AbstractSet[Address],
) -> TraceNode:
    parents = []
    for parent in step.claimed:
        if parent in circles:
            parents.append(replace(steps[parent].node, state=State.UNVERIFIED, reason=IN_A_CIRCLE))
        elif parent in done:
            parents.append(done[parent])
    truncated = len(parents) < len(step.claimed)
    return replace(step.node, parents=tuple(parents), truncated=truncated)
