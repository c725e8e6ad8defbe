"""`impact`: all records that were made from a record, or from the output of a job.

They are found in the lineage index; each shown record is read from Kafka and compared with the
index. Needs the extra `index`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headwater.errors import InputError
from headwater.kafka import KafkaRuns, RecordReader
from headwater.model import Address, JobOutput
from headwater.model.run_record import RunLookup
from headwater.settings import Settings, load
from headwater.tracing.ancestors import (
    IN_A_CYCLE,
    RecordSources,
    kafka_and_archives,
    read_step,
)
from headwater.tracing.graph import bottom_up
from headwater.tracing.node import MAX_DEPTH, RecordState, TraceNode, flat_json, nested_json

if TYPE_CHECKING:
    from headwater.model import TopicPartition
    from headwater.storage.index.reader import LineageIndex
    from headwater.storage.offset_ranges import OffsetRanges
    from headwater.tracing.impact_shown import WalkResult
    from headwater.tracing.in_tables import RowsInTables, Tables

# Each is read from Kafka, which takes a millisecond; all are counted.
MAX_RECORDS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class ImpactNode:
    """A record and those that were made from it.

    Nodes are shared: a record with two parents is a child of both. `within` is true if it may be
    made from the start, but not for certain: a range, its own or of a record between, contains
    parents.
    """

    record: TraceNode
    within: bool = False
    # Not in the repr, which would recurse down a long chain.
    children: tuple[ImpactNode, ...] = field(default=(), repr=False)

    @property
    def address(self) -> Address:
        return self.record.address

    @property
    def state(self) -> RecordState:
        return self.record.state


@dataclass(frozen=True, slots=True)
class _Job:
    children: tuple[ImpactNode, ...]


@dataclass(frozen=True, slots=True)
class Impact:
    """All records that were made from a record, or from the output of a job.

    `children` are the shown records: those made from `root`, or those that the job made. `counts`
    are all records by topic, shown or not; `made` are those that the job itself made.
    `within_counts` are further records, which may be made from it: they have ranges that contain
    such records, or were made from records that have.

    The counts are exact for the indexed offsets: `indexed` is the first offset not indexed, by
    partition. They are lower bounds if the walk reached a limit (`cut`), or if `unlisted` is not
    empty: the number of parents, by topic of the child, that headers count and do not list.

    `tables` are the rows of tables with lineage that were made from any of these records, or by the
    job, counted in the current tables; `tables_within` those that may be. `unread_tables` has the
    reason for each unreadable table.
    """

    start: Address | JobOutput
    root: TraceNode | None
    children: tuple[ImpactNode, ...] = field(repr=False)
    truncated: bool
    counts: Mapping[str, int]
    made: Mapping[str, int]
    unlisted: Mapping[str, int]
    indexed: Mapping[str, Mapping[int, int]]
    tables: Mapping[str, int]
    unread_tables: Mapping[str, str]
    cut: str | None = None
    within_counts: Mapping[str, int] = field(default_factory=dict)
    tables_within: Mapping[str, int] = field(default_factory=dict)

    @property
    def lower_bound(self) -> bool:
        """Whether there may be more records than are counted, within the indexed offsets."""
        return self.cut is not None or bool(self.unlisted) or bool(self.unread_tables)

    def as_json(self, *, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
        """Nested objects as for `trace`, with `children`; the counts are in the outermost."""
        content = nested_json(
            # Without a root, the job is the parent of the records that it made.
            ImpactNode(self.root, False, self.children) if self.root else _Job(self.children),
            "children",
            lambda node: node.children,
            lambda node: self._head() if isinstance(node, _Job) else _flat_json(node),
            max_depth if self.root else max_depth + 1,
        )
        content["counts"] = dict(self.counts)
        content["within_counts"] = dict(self.within_counts)
        content["tables"] = dict(self.tables)
        content["tables_within"] = dict(self.tables_within)
        content["unread_tables"] = dict(self.unread_tables)
        content["lower_bound"] = self.lower_bound
        content["cut"] = self.cut
        content["unlisted_edges"] = dict(self.unlisted)
        content["indexed"] = {
            topic: {str(partition): end for partition, end in ends.items()}
            for topic, ends in self.indexed.items()
        }
        return content

    def _head(self) -> dict[str, Any]:
        assert isinstance(self.start, JobOutput)  # noqa: S101 - without a root
        return {
            "job_name": self.start.job_name,
            "job_version": self.start.job_version,
            "batches": list(self.start.batches) if self.start.batches else None,
            "made": dict(self.made),
            "truncated": self.truncated,
        }


def _flat_json(node: ImpactNode) -> dict[str, Any]:
    return flat_json(node.record) | {"within": node.within}


def impact(
    start: Address | JobOutput | str,
    settings: Settings | None = None,
    *,
    index: LineageIndex | None = None,
    reader: RecordReader | None = None,
    tables: Tables | None = None,
    max_records: int = MAX_RECORDS,
    max_depth: int = MAX_DEPTH,
) -> Impact:
    """All records that were made from a record, or from the output of a job; no Spark is started.

    Records that no longer exist are `expired`; cycles, and records that do not name the parent
    that the index has for them, are `unverified`. Neither raises an error.

    Args:
        start: the record, as `Address` or text such as `visits/0@17`, or the job.
        settings: default: those of the environment and `headwater.toml`.
        index: an open index to reuse; it is refreshed here.
        reader: an open reader to reuse, as for `trace`.
        tables: open tables to reuse.
        max_records: how many records are shown; all are counted.
        max_depth: maximum distance of shown records, in hops.

    Raises:
        NotInstalledError: the extra `index` is not installed.
        LineageIndexError: there is no index, or it can't be read.
        InputError: the index has no output of the job.
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    from headwater.storage.index.reader import LineageIndex
    from headwater.tracing.impact_walk import walk_impact
    from headwater.tracing.in_tables import Tables

    settings = settings or load()
    if isinstance(start, str):
        start = Address.parse(start)
    if reader is None:
        with RecordReader(settings.kafka) as own:
            return impact(
                start,
                settings,
                index=index,
                reader=own,
                tables=tables,
                max_records=max_records,
                max_depth=max_depth,
            )
    index = index or LineageIndex.open(settings)
    index.refresh()
    roots = _roots(start, index)
    result = walk_impact(index, roots, max_records=max_records, max_depth=max_depth)
    sources = kafka_and_archives(reader, settings)
    nodes = _nodes(result, index, sources, KafkaRuns(settings.kafka))
    rows = (tables or Tables(settings)).find(result.reached, start, result.within)
    if not roots and not rows.made:
        raise InputError(
            f"neither the index nor a table has output of {start}",
            hint="`headwater run lineage_index_job --available-now` indexes new records",
            **({"job_name": start.job_name} if isinstance(start, JobOutput) else {}),
        )
    return _impact(start, index, roots, result, nodes, rows)


def _roots(start: Address | JobOutput, index: LineageIndex) -> dict[TopicPartition, OffsetRanges]:
    from headwater.storage.offset_ranges import OffsetRanges

    if isinstance(start, Address):
        return {(start.topic, start.partition): OffsetRanges.of((start.offset, start.offset))}
    ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
    for made in index.made_by(start.job_name, start.job_version, start.batches):
        ranges.setdefault(made.partition, []).append((made.first, made.last))
    return {partition: OffsetRanges.of(*ranges[partition]) for partition in sorted(ranges)}


def _nodes(
    result: WalkResult, index: LineageIndex, sources: RecordSources, runs: RunLookup
) -> dict[Address, ImpactNode]:
    """The shown records, built from the last ones up."""
    parents: dict[Address, list[Address]] = {}
    for parent, children in result.children.items():
        for child in children:
            parents.setdefault(child, []).append(parent)
    records = {
        address: _record(address, parents.get(address, ()), index, sources, runs)
        for address in result.children
    }
    done: dict[Address, ImpactNode] = {}
    for address, cycles in bottom_up(result.children, result.children):
        again = {
            child: ImpactNode(
                replace(records[child], state=RecordState.UNVERIFIED, reason=IN_A_CYCLE),
                child in result.uncertain,
            )
            for child in cycles
        }
        below = sorted(set(result.children[address]))
        record = replace(records[address], truncated=address in result.truncated)
        done[address] = ImpactNode(
            record,
            address in result.uncertain,
            tuple(again.get(child) or done[child] for child in below),
        )
    return done


def _record(
    address: Address,
    parents: Sequence[Address],
    index: LineageIndex,
    sources: RecordSources,
    runs: RunLookup,
) -> TraceNode:
    """A record as Kafka has it; if it is gone, what the index has of it."""
    step = read_step(address, sources, runs=runs)
    node = step.node
    if node.absence is not None:
        made = index.producer_of((address.topic, address.partition), address.offset)
        if made is None:
            return node
        return replace(
            node,
            job_name=made.job_name,
            job_version=made.job_version,
            batch_version=made.batch_version,
            run_id=made.run_id,
        )
    unnamed = {
        parent
        for parent in set(parents) - set(step.claimed)
        if not any(parent in within for within in node.ranges)
    }
    if unnamed and node.state is not RecordState.UNVERIFIED:
        reason = f"its lineage header no longer names {min(unnamed)}, as when it was indexed"
        return replace(node, state=RecordState.UNVERIFIED, reason=reason)
    return node


def _impact(
    start: Address | JobOutput,
    index: LineageIndex,
    roots: Mapping[TopicPartition, OffsetRanges],
    result: WalkResult,
    nodes: Mapping[Address, ImpactNode],
    rows: RowsInTables,
) -> Impact:
    counts, made = _by_topic(result.reached), _by_topic(roots)
    shown = tuple(nodes[address] for address in result.roots)
    root = None
    truncated = len(shown) < sum(made.values())
    if isinstance(start, Address):
        # A record is not made from itself.
        counts -= made
        made = Counter()
        root, truncated = shown[0].record, shown[0].record.truncated
    coverage = index.coverage()
    unlisted: Counter[str] = Counter()
    indexed: dict[str, dict[int, int]] = {}
    for (topic, partition), covered in coverage.items():
        unlisted[topic] += covered.unlisted
        indexed.setdefault(topic, {})[partition] = covered.end
    return Impact(
        start,
        root,
        shown[0].children if root else shown,
        truncated,
        counts=dict(sorted(counts.items())),
        made=dict(sorted(made.items())),
        unlisted=dict(sorted((+unlisted).items())),
        indexed=indexed,
        tables=rows.counts,
        unread_tables=rows.unread,
        cut=result.cut,
        within_counts=dict(sorted(_by_topic(result.within).items())),
        tables_within=rows.within,
    )


def _by_topic(offsets: Mapping[TopicPartition, OffsetRanges]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (topic, _), each in offsets.items():
        counts[topic] += len(each)
    return counts
