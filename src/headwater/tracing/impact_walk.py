"""The walk from records to all records made from them, over the index, level by level.

Sets of records are followed as ranges: counting the output of a year takes as many steps as one
record. In addition, `impact_shown` keeps the nearest records one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from headwater.model import TopicPartition
from headwater.storage.index.files import EdgeBlock
from headwater.storage.index.within import WithinBlock
from headwater.storage.offset_ranges import Numbers, OffsetRanges, clip
from headwater.tracing.impact_shown import ShownRecords, WalkResult

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

    def within_from(
        self, partition: TopicPartition, parents: OffsetRanges
    ) -> Iterator[WithinBlock]: ...


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
    shown = ShownRecords(result, max_records, max_depth)
    shown.begin(roots)
    walk = _Walk(edges, result, shown, max_levels, max_edges)
    walk.follow_edges(dict(roots))
    if not result.cut:
        walk.follow_ranges()
    return result


class _Walk:
    """First all records that were made from the roots for certain, then those that may be: records
    with ranges that contain one of the former, and everything made from them."""

    def __init__(
        self,
        edges: EdgeSource,
        result: WalkResult,
        shown: ShownRecords,
        max_levels: int,
        max_edges: int,
    ) -> None:
        self._edges = edges
        self._result = result
        self._shown = shown
        self._max_levels = max_levels
        self._max_edges = max_edges
        self._examined = 0

    def follow_edges(self, frontier: dict[TopicPartition, OffsetRanges]) -> None:
        result = self._result
        for _ in range(self._max_levels):
            collected: dict[TopicPartition, _RangeCollector] = {}
            self._add_edges(frontier, collected)
            frontier = _newly_reached(result.reached, collected)
            if not frontier or result.cut:
                return
            self._shown.next_level()
        result.cut = f"the walk ended after {self._max_levels} hops"

    def follow_ranges(self) -> None:
        result = self._result
        certain, frontier = dict(result.reached), dict(result.reached)
        self._shown.begin_uncertain()
        for level in range(self._max_levels):
            collected: dict[TopicPartition, _RangeCollector] = {}
            self._add_ranges(frontier, collected)
            if level and not result.cut:
                self._add_edges(frontier, collected)
            frontier = _newly_reached(result.within, collected, certain)
            if not frontier or result.cut:
                return
            self._shown.next_level()
        result.cut = f"the walk ended after {self._max_levels} hops"

    def _add_edges(
        self,
        frontier: Mapping[TopicPartition, OffsetRanges],
        collected: dict[TopicPartition, _RangeCollector],
    ) -> None:
        for partition, block in _edges_from(self._edges, frontier):
            which, first, last = clip(block.parent_first, block.parent_last, frontier[partition])
            shift = (block.first - block.parent_first)[which]
            ranges = collected.setdefault(block.partition, _RangeCollector())
            ranges.add(first + shift, last + shift)
            self._shown.add(partition, block.partition, first, last, shift)
            if self._is_cut_after(len(which)):
                return

    def _add_ranges(
        self,
        frontier: Mapping[TopicPartition, OffsetRanges],
        collected: dict[TopicPartition, _RangeCollector],
    ) -> None:
        for partition, parents in frontier.items():
            for block in self._edges.within_from(partition, parents):
                ranges = collected.setdefault(block.partition, _RangeCollector())
                ranges.add(block.first, block.last)
                self._shown.add_within(partition, block)
                if self._is_cut_after(len(block.first)):
                    return

    def _is_cut_after(self, rows: int) -> bool:
        self._examined += rows
        if self._examined > self._max_edges:
            self._result.cut = f"the walk ended after {self._examined} rows of edges"
        return self._result.cut is not None


def _edges_from(
    edges: EdgeSource, frontier: Mapping[TopicPartition, OffsetRanges]
) -> Iterator[tuple[TopicPartition, EdgeBlock]]:
    for partition, parents in frontier.items():
        for block in edges.edges_from(partition, parents):
            yield partition, block


def _newly_reached(
    reached: dict[TopicPartition, OffsetRanges],
    collected: Mapping[TopicPartition, _RangeCollector],
    certain: Mapping[TopicPartition, OffsetRanges] | None = None,
) -> dict[TopicPartition, OffsetRanges]:
    """The records that were not reached before, nor for certain; each is followed once, so cycles
    end."""
    frontier: dict[TopicPartition, OffsetRanges] = {}
    for partition, collector in collected.items():
        ranges = collector.merged()
        if certain is not None and partition in certain:
            ranges = ranges - certain[partition]
        known = reached.get(partition)
        new = ranges if known is None else ranges - known
        if new:
            frontier[partition] = new
            reached[partition] = ranges if known is None else known | ranges
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
