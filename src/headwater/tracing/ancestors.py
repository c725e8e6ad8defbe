"""`trace`: the records that a record was made from, back to those that no job made.

Any client that may write to a topic can claim any parents: records that do not exist, that were
written later, that form a cycle, or more than can be read. So the walk reads each record once,
nearest first, within limits; only then are cycles cut and the nodes assembled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from headwater.kafka import Absence, KafkaRuns, RecordReader
from headwater.model import Address, Lineage, Record
from headwater.model.header import Origin, origin_of
from headwater.model.run_record import RunLookup
from headwater.model.topic_names import dead_letter_topic, parents_topic
from headwater.settings import Settings, load
from headwater.storage.archive.contract import archive_path
from headwater.tracing.graph import bottom_up
from headwater.tracing.node import MAX_DEPTH, RecordState, TraceNode

if TYPE_CHECKING:
    from headwater.storage.archive.reader import Archive

# About ten seconds at one millisecond per record.
MAX_RECORDS = 10_000
# Each lists a thousand parents, and no walk reads more than ten thousand records.
_MAX_REST = 10
# Shown for each record; a forged header can have thousands.
_MAX_RANGES = 1_000

IN_A_CYCLE = "a cycle: the record is its own ancestor"


class RecordSource(Protocol):
    """Something that holds records by their address."""

    def fetch(self, address: Address) -> Record | Absence: ...


# Searched in this order; the state is that of a record that was found there.
RecordSources = Sequence[tuple[RecordState, RecordSource]]


class Archives:
    """The archives of all topics; each is opened when a record of its topic is requested."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, Archive | None] = {}

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, or why there is none.

        Raises:
            ArchiveError: the archive is damaged, or another table.
            NotInstalledError: there is an archive, and the extra `index` is not installed.
        """
        if address.topic not in self._open:
            self._open[address.topic] = self._archive(address.topic)
        archive = self._open[address.topic]
        return Absence.NO_PARTITION if archive is None else archive.fetch(address)

    def _archive(self, topic: str) -> Archive | None:
        if not (archive_path(topic, self._settings) / "_delta_log").is_dir():
            return None
        # Imported late: without archives the extra `index` is not needed.
        from headwater.storage.archive.reader import Archive

        return Archive.open(topic, self._settings)


def kafka_and_archives(reader: RecordReader, settings: Settings) -> RecordSources:
    """Where records are searched: in Kafka, then in the archives."""
    return [(RecordState.FOUND, reader), (RecordState.ARCHIVED, Archives(settings))]


def trace(
    address: Address | str,
    settings: Settings | None = None,
    *,
    reader: RecordReader | None = None,
    max_records: int = MAX_RECORDS,
    max_depth: int = MAX_DEPTH,
    values: bool = False,
) -> TraceNode:
    """The ancestry of a record, read from Kafka and the archives; does not start Spark.

    Invalid claims become nodes with the state `unverified`, records that no longer exist become
    `expired`; neither raises an error. Each record is read once.

    Args:
        address: the record, as `Address` or text such as `visits/0@17`.
        settings: default: those of the environment and `headwater.toml`.
        reader: an open reader to reuse; the first record of a topic takes longer than later ones.
        values: keep the records' values in the nodes.

    Raises:
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
        ArchiveError: an archive is damaged, or another table.
        NotInstalledError: a record may be in an archive, and the extra `index` is not installed.
    """
    address, settings = Address.of(address), settings or load()
    if reader is None:
        with RecordReader(settings.kafka) as own:
            return trace(
                address,
                settings,
                reader=own,
                max_records=max_records,
                max_depth=max_depth,
                values=values,
            )
    return walk(
        address,
        kafka_and_archives(reader, settings),
        max_records=max_records,
        max_depth=max_depth,
        values=values,
        runs=KafkaRuns(settings.kafka),
    )


@dataclass(frozen=True, slots=True)
class WalkStep:
    """A record that was read: its node without parents, and the parents it claims."""

    node: TraceNode
    claimed: tuple[Address, ...] = ()


def walk(
    address: Address,
    sources: RecordSources,
    *,
    max_records: int,
    max_depth: int,
    values: bool = False,
    runs: RunLookup | None = None,
) -> TraceNode:
    """Read a record and its ancestors: at most `max_records`, at most `max_depth` hops away."""
    steps = {address: read_step(address, sources, values, runs)}
    queue = deque([(address, 0)])
    while queue:
        child, depth = queue.popleft()
        if depth == max_depth:
            continue
        for parent in steps[child].claimed:
            if len(steps) == max_records:
                return _assemble(address, steps)
            if parent not in steps:
                steps[parent] = read_step(parent, sources, values, runs)
                queue.append((parent, depth + 1))
    return _assemble(address, steps)


def read_step(
    address: Address,
    sources: RecordSources,
    values: bool = False,
    runs: RunLookup | None = None,
) -> WalkStep:
    """The record at an address, from the first source that holds it."""
    absence: Absence | None = None
    for state, source in sources:
        fetched = source.fetch(address)
        if isinstance(fetched, Record):
            return _with_rest(_step(fetched, state, values, runs), fetched, sources)
        absence = absence or fetched
    gone = absence in {Absence.EXPIRED, Absence.HOLE}
    state = RecordState.EXPIRED if gone else RecordState.UNVERIFIED
    return WalkStep(TraceNode(address, state, absence.value if absence else None, absence))


def _step(record: Record, state: RecordState, values: bool, runs: RunLookup | None) -> WalkStep:
    origin = origin_of(record, runs)
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
        return WalkStep(replace(node, state=RecordState.UNVERIFIED, reason=doubt))
    if lineage is not None:
        if origin.job_name is None and lineage.batch is not None:
            node = replace(node, reason="the job of its run is not known")
        # A record that is listed twice is one parent.
        return WalkStep(_with_ranges(node, lineage), tuple(dict.fromkeys(lineage.parents)))
    if origin.job_name is not None:
        return WalkStep(replace(node, reason="made by a job that wrote no lineage header"))
    return WalkStep(node)


def _with_rest(step: WalkStep, record: Record, sources: RecordSources) -> WalkStep:
    """Add the parents that records in the topic `…-parents` list for this one."""
    lineage = origin_of(record).lineage
    if lineage is None or step.node.state is RecordState.UNVERIFIED:
        return step
    record_id = lineage.record_id or step.node.record_id or ""
    node, claimed = step.node, step.claimed
    for address in lineage.rest[:_MAX_REST]:
        more = _listed_by(address, node, record_id, sources)
        if more is not None:
            claimed = (*claimed, *more.parents)
            unlisted = max(node.unlisted - len(more.parents) - len(more.ranges), 0)
            node = _with_ranges(replace(node, unlisted=unlisted), more)
    return WalkStep(node, tuple(dict.fromkeys(claimed)))


def _with_ranges(node: TraceNode, lineage: Lineage) -> TraceNode:
    ranges = tuple(dict.fromkeys((*node.ranges, *lineage.ranges)))
    more = node.more_parents or lineage.more_parents or len(ranges) > _MAX_RANGES
    return replace(node, ranges=ranges[:_MAX_RANGES], more_parents=more)


def _listed_by(
    address: Address, child: TraceNode, record_id: str, sources: RecordSources
) -> Lineage | None:
    """What a record of the topic `…-parents` lists for the child."""
    output = child.address.topic.removesuffix(dead_letter_topic(""))
    if address.topic != parents_topic(output):
        return None
    for _, source in sources:
        fetched = source.fetch(address)
        if isinstance(fetched, Record) and fetched.key == record_id.encode():
            return origin_of(fetched).lineage
    return None


def _doubt(address: Address, origin: Origin) -> str | None:
    """Why a record's lineage can't be trusted; None if it can."""
    if origin.unreadable is not None:
        return f"its lineage header is not readable: {origin.unreadable.value}"
    for parent in origin.lineage.parents if origin.lineage else ():
        if parent == address:
            return "its lineage header names the record itself as a parent"
        if (parent.topic, parent.partition) == (address.topic, address.partition):
            if parent.offset > address.offset:
                return f"its lineage header names a parent that was written later: {parent}"
    for within in origin.lineage.ranges if origin.lineage else ():
        if (within.topic, within.partition) == (address.topic, address.partition):
            if within.last >= address.offset:
                return f"its lineage header names parents that were not yet written: {within}"
    return None


def _assemble(address: Address, steps: Mapping[Address, WalkStep]) -> TraceNode:
    """Build the nodes, parents before children."""
    done: dict[Address, TraceNode] = {}
    claims = {child: step.claimed for child, step in steps.items()}
    for child, cycles in bottom_up([address], claims):
        done[child] = _node(steps[child], steps, done, cycles)
    return done[address]


def _node(
    step: WalkStep,
    steps: Mapping[Address, WalkStep],
    done: Mapping[Address, TraceNode],
    cycles: AbstractSet[Address],
) -> TraceNode:
    parents = []
    for parent in step.claimed:
        if parent in cycles:
            node = steps[parent].node
            parents.append(replace(node, state=RecordState.UNVERIFIED, reason=IN_A_CYCLE))
        elif parent in done:
            parents.append(done[parent])
    truncated = len(parents) < len(step.claimed)
    return replace(step.node, parents=tuple(parents), truncated=truncated)
