"""The walk from records to all records made from them, over the index, level by level.

Sets of records are followed as ranges: counting the output of a year takes as many steps as one
record. In addition, the nearest records are kept one by one to be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import numpy as np

from headwater.model import Address, TopicPartition
from headwater.storage.index.files import EdgeBlock
from headwater.storage.offset_ranges import Numbers, OffsetRanges, clip

# Limits time: a level takes one lookup per partition. A longer chain is forged, or a topic that
# feeds itself.
MAX_LEVELS = 1_000
# Some tens of seconds.
MAX_EDGES = 100_000_000
# Ranges per partition that are collected before they are merged.
_MAX_PENDING = 2_000_000


class EdgeSource(Protocol):
    """Finds the edges that start at records."""

    def edges_from(
        self, partition: TopicPartition, parents: OffsetRanges
    ) -> Iterator[EdgeBlock]: ...


@dataclass
class WalkResult:
    """The result of a walk.

    `children` has an entry for each shown record, the `roots` first; records in `truncated` have
    more children than are shown. `reached` are all records including the roots, shown or not.
    `cut` is the reason why there may be more.
    """

    roots: list[Address] = field(default_factory=list)
    children: dict[Address, list[Address]] = field(default_factory=dict)
    truncated: set[Address] = field(default_factory=set)
    reached: dict[TopicPartition, OffsetRanges] = field(default_factory=dict)
    cut: str | None = None


def walk_impact(
    edges: EdgeSource,
    roots: Mapping[TopicPartition, OffsetRanges],
    *,
    max_records: int,
    max_depth: int,
    max_levels: int = MAX_LEVELS,
    max_edges: int = MAX_EDGES,
) -> WalkResult:
    """Follow the edges from `roots` until there are no more, or a limit is reached.

    Args:
        max_records: how many records are shown, including the roots.
        max_depth: maximum distance of shown records from the roots; counted records may be farther.
        max_levels: maximum distance of counted records.
        max_edges: maximum number of index rows.
    """
    result = WalkResult(reached=dict(roots))
    shown = _Shown(result, max_records, max_depth)
    shown.begin(roots)
    frontier = dict(roots)
    examined = 0
    for _ in range(max_levels):
        collected: dict[TopicPartition, _RangeCollector] = {}
        for partition, block in _edges_from(edges, frontier):
            which, first, last = clip(block.parent_first, block.parent_last, frontier[partition])
            shift = (block.first - block.parent_first)[which]
            ranges = collected.setdefault(block.partition, _RangeCollector())
            ranges.add(first + shift, last + shift)
            shown.add(partition, block.partition, first, last, shift)
            examined += len(which)
            if examined > max_edges:
                result.cut = f"the walk ended after {examined} rows of edges"
                break
        frontier = _newly_reached(result, collected)
        if not frontier or result.cut:
            return result
        shown.next_level()
    result.cut = f"the walk ended after {max_levels} hops"
    return result


def _edges_from(
    edges: EdgeSource, frontier: Mapping[TopicPartition, OffsetRanges]
) -> Iterator[tuple[TopicPartition, EdgeBlock]]:
    for partition, parents in frontier.items():
        for block in edges.edges_from(partition, parents):
            yield partition, block


def _newly_reached(
    result: WalkResult, collected: Mapping[TopicPartition, _RangeCollector]
) -> dict[TopicPartition, OffsetRanges]:
    """The records that were not reached before; each is followed once, so cycles end."""
    frontier: dict[TopicPartition, OffsetRanges] = {}
    for partition, collector in collected.items():
        ranges = collector.merged()
        known = result.reached.get(partition)
        new = ranges if known is None else ranges - known
        if new:
            frontier[partition] = new
            result.reached[partition] = ranges if known is None else known | ranges
    return frontier


class _RangeCollector:
    """Ranges of one partition, merged before they become too many."""

    def __init__(self) -> None:
        self._parts: list[tuple[Numbers, Numbers]] = []
        self._count = 0

    def add(self, first: Numbers, last: Numbers) -> None:
        self._parts.append((first, last))
        self._count += len(first)
        if self._count > _MAX_PENDING:
            merged = self.merged()
            self._parts, self._count = [(merged.first, merged.last)], 0

    def merged(self) -> OffsetRanges:
        return OffsetRanges.union(self._parts)


class _Shown:
    """The shown records, kept one by one."""

    def __init__(self, result: WalkResult, max_records: int, max_depth: int) -> None:
        self._result = result
        self._max_records = max_records
        self._max_depth = max_depth
        self._depth = 0
        self._level: dict[TopicPartition, Numbers] = {}
        self._next: dict[TopicPartition, list[int]] = {}

    def begin(self, roots: Mapping[TopicPartition, OffsetRanges]) -> None:
        addresses = (
            Address(*partition, offset)
            for partition, ranges in roots.items()
            for offset in ranges.offsets()
        )
        self._result.roots = list(islice(addresses, self._max_records))
        for address in self._result.roots:
            self._show(address)
        self._swap_levels()

    def next_level(self) -> None:
        self._depth += 1
        self._swap_levels()

    def add(
        self,
        partition: TopicPartition,
        child_partition: TopicPartition,
        first: Numbers,
        last: Numbers,
        shift: Numbers,
    ) -> None:
        """Add edges from parents `first` to `last`; children are at the offset plus `shift`."""
        parents = self._level.get(partition)
        if parents is None:
            return
        begin = np.searchsorted(parents, first, side="left")
        end = np.searchsorted(parents, last, side="right")
        rows = np.flatnonzero(begin < end)
        for at, row in enumerate(rows.tolist()):
            if self._is_full():
                self._cut(partition, parents, begin[rows[at:]], end[rows[at:]])
                return
            for parent in parents[begin[row] : end[row]].tolist():
                child = Address(*child_partition, parent + int(shift[row]))
                self._link(Address(*partition, parent), child)

    def _link(self, parent: Address, child: Address) -> None:
        if child not in self._result.children:
            if self._is_full():
                self._result.truncated.add(parent)
                return
            self._show(child)
        self._result.children[parent].append(child)

    def _show(self, address: Address) -> None:
        self._result.children[address] = []
        self._next.setdefault((address.topic, address.partition), []).append(address.offset)

    def _is_full(self) -> bool:
        return len(self._result.children) >= self._max_records or self._depth >= self._max_depth

    def _cut(
        self, partition: TopicPartition, parents: Numbers, begin: Numbers, end: Numbers
    ) -> None:
        """Mark the parents from `begin` to `end` as truncated: they have edges that were not
        examined, which nearly always lead to children that are not shown."""
        steps = np.zeros(len(parents) + 1, dtype=np.int64)
        np.add.at(steps, begin, 1)
        np.add.at(steps, end, -1)
        for parent in parents[np.cumsum(steps)[:-1] > 0].tolist():
            self._result.truncated.add(Address(*partition, parent))

    def _swap_levels(self) -> None:
        self._level = {
            partition: np.array(sorted(offsets), dtype=np.int64)
            for partition, offsets in self._next.items()
        }
        self._next = {}
