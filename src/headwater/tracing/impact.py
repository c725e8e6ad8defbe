"""`impact`: the records that were made from a record, or from what a job made, to the last.

The index of edges tells which they are; each that is shown is read from Kafka and held against
what the index says of it. Needs the extra `index`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headwater.errors import InputError
from headwater.kafka import RecordReader
from headwater.model import Address, JobOutput
from headwater.settings import Settings
from headwater.tracing.archived import sources_of
from headwater.tracing.graph import bottom_up
from headwater.tracing.node import MAX_DEPTH, State, TraceNode, flat_json, nested_json
from headwater.tracing.walk import IN_A_CIRCLE, Sources, read_step

if TYPE_CHECKING:
    from headwater.model import TopicPartition
    from headwater.storage.index.reader import LineageIndex
    from headwater.storage.offset_ranges import OffsetRanges
    from headwater.tracing.impact_walk import Spread
    from headwater.tracing.in_tables import RowsInTables, Tables

# Each is read from Kafka, at a millisecond; all are counted, however many there are.
MAX_RECORDS = 1_000


@dataclass(frozen=True, slots=True, eq=False)
class ImpactNode:
    """A record and those that were made from it.

    Nodes are shared: a record that was made from two is below both.
    """

    record: TraceNode
    # Not in the repr, which would recurse down a long chain.
    children: tuple[ImpactNode, ...] = field(default=(), repr=False)

    @property
    def address(self) -> Address:
        return self.record.address

    @property
    def state(self) -> State:
        return self.record.state


@dataclass(frozen=True, slots=True)
class _Job:
    children: tuple[ImpactNode, ...]


@dataclass(frozen=True, slots=True)
class Impact:
    """What was made from a record, or made by a job and made from that.

    `children` are the records below what was asked for: those made from `root`, or those that
    the job made, as far as they are shown. `counts` are all of them, by topic, whether they are
    shown or not; `made` are those among them that the job itself made.

    The counts are exact for what is indexed: `indexed` says up to which offset each partition
    is. They are lower bounds if `cut` says that the walk met a bound, or if `unlisted` is not
    empty: so many parents of records in these topics are counted in headers, and not listed.

    `tables` are rows of tables with lineage that were made from any of these, or by the job;
    they are counted in the tables as they stand. `unread_tables` says why one could not be.
    """

    asked: Address | JobOutput
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

    @property
    def lower_bound(self) -> bool:
        """Whether there may be more records than are counted, within what is indexed."""
        return self.cut is not None or bool(self.unlisted) or bool(self.unread_tables)

    def as_json(self, *, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
        """Nested objects as of `trace`, with `children`; the counts are in the outermost."""
        content = nested_json(
            # Without a root the job stands there, one above the records that it made.
            ImpactNode(self.root, self.children) if self.root else _Job(self.children),
            "children",
            lambda node: node.children,
            lambda node: self._head() if isinstance(node, _Job) else flat_json(node.record),
            max_depth if self.root else max_depth + 1,
        )
        content["counts"] = dict(self.counts)
        content["tables"] = dict(self.tables)
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
        assert isinstance(self.asked, JobOutput)  # noqa: S101 - there is no root
        return {
            "job_name": self.asked.job_name,
            "job_version": self.asked.job_version,
            "batches": list(self.asked.batches) if self.asked.batches else None,
            "made": dict(self.made),
            "truncated": self.truncated,
        }


def impact(
    asked: Address | JobOutput,
    settings: Settings,
    *,
    index: LineageIndex | None = None,
    reader: RecordReader | None = None,
    tables: Tables | None = None,
    max_records: int = MAX_RECORDS,
    max_depth: int = MAX_DEPTH,
) -> Impact:
    """All records that were made from one, or from what a job made; no Spark is started.

    Records that are gone are `expired`; those that do not name the parent which the index says
    they have, and circles, are `unverified`. They raise nothing.

    Args:
        index: one that is kept, which saves opening the table; it is refreshed here.
        reader: one that is kept, as for `trace`.
        tables: those that are kept, which saves opening their files.
        max_records: how many records are shown; all are counted.
        max_depth: how many hops away those are.

    Raises:
        MissingPartError: the extra `index` is not installed.
        LineageIndexError: there is no index, or it can't be read.
        InputError: the index knows nothing of the job.
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
    """
    from headwater.storage.index.reader import LineageIndex
    from headwater.tracing.impact_walk import spread
    from headwater.tracing.in_tables import Tables

    if reader is None:
        with RecordReader(settings.kafka) as own:
            return impact(
                asked,
                settings,
                index=index,
                reader=own,
                tables=tables,
                max_records=max_records,
                max_depth=max_depth,
            )
    index = index or LineageIndex.open(settings)
    index.refresh()
    roots = _roots(asked, index)
    found = spread(index, roots, max_records=max_records, max_depth=max_depth)
    nodes = _nodes(found, index, sources_of(reader, settings))
    rows = (tables or Tables(settings)).find(found.reached, asked)
    if not roots and not rows.made:
        raise InputError(
            f"neither the index nor a table holds anything that was made by {asked}",
            hint="`headwater run lineage_index_job --available-now` indexes what is new",
            **({"job_name": asked.job_name} if isinstance(asked, JobOutput) else {}),
        )
    return _result(asked, index, roots, found, nodes, rows)


def _roots(asked: Address | JobOutput, index: LineageIndex) -> dict[TopicPartition, OffsetRanges]:
    from headwater.storage.offset_ranges import OffsetRanges

    if isinstance(asked, Address):
        return {(asked.topic, asked.partition): OffsetRanges.of((asked.offset, asked.offset))}
    ranges: dict[TopicPartition, list[tuple[int, int]]] = {}
    for made in index.made_by(asked.job_name, asked.job_version, asked.batches):
        ranges.setdefault(made.place, []).append((made.first, made.last))
    return {place: OffsetRanges.of(*ranges[place]) for place in sorted(ranges)}


def _nodes(found: Spread, index: LineageIndex, sources: Sources) -> dict[Address, ImpactNode]:
    """The records that are shown, put together from the last ones up."""
    parents: dict[Address, list[Address]] = {}
    for parent, children in found.children.items():
        for child in children:
            parents.setdefault(child, []).append(parent)
    records = {
        address: _record(address, parents.get(address, ()), index, sources)
        for address in found.children
    }
    done: dict[Address, ImpactNode] = {}
    for address, circles in bottom_up(found.children, found.children):
        again = {
            child: ImpactNode(replace(records[child], state=State.UNVERIFIED, reason=IN_A_CIRCLE))
            for child in circles
        }
        below = sorted(found.children[address])
        record = replace(records[address], truncated=address in found.truncated)
        done[address] = ImpactNode(
            record, tuple(again.get(child) or done[child] for child in below)
        )
    return done


def _record(
    address: Address, parents: Sequence[Address], index: LineageIndex, sources: Sources
) -> TraceNode:
    """A record as Kafka has it; of one that is gone, what the index has kept."""
    step = read_step(address, sources)
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
    unnamed = set(parents) - set(step.claimed)
    if unnamed and node.state is not State.UNVERIFIED:
        reason = f"its lineage header does not name {min(unnamed)}, as it did when it was indexed"
        return replace(node, state=State.UNVERIFIED, reason=reason)
    return node


def _result(
    asked: Address | JobOutput,
    index: LineageIndex,
    roots: Mapping[TopicPartition, OffsetRanges],
    found: Spread,
    nodes: Mapping[Address, ImpactNode],
    rows: RowsInTables,
) -> Impact:
    counts, made = _by_topic(found.reached), _by_topic(roots)
    shown = tuple(nodes[address] for address in found.roots)
    root = None
    truncated = len(shown) < sum(made.values())
    if isinstance(asked, Address):
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
        asked,
        root,
        shown[0].children if root else shown,
        truncated,
        counts=dict(sorted(counts.items())),
        made=dict(sorted(made.items())),
        unlisted=dict(sorted((+unlisted).items())),
        indexed=indexed,
        tables=rows.counts,
        unread_tables=rows.unread,
        cut=found.cut,
    )


def _by_topic(offsets: Mapping[TopicPartition, OffsetRanges]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for (topic, _), each in offsets.items():
        counts[topic] += len(each)
    return counts
