"""The impact walk, compared with a simple walk over single records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model import Address, AddressRange, TopicPartition
from headwater.storage.index.files import EdgeBlock
from headwater.storage.index.within import WithinBlock
from headwater.storage.offset_ranges import OffsetRanges
from headwater.tracing.impact_shown import WalkResult
from headwater.tracing.impact_walk import MAX_LEVELS, walk_impact

# Parent, child, and how many of both follow.
Rows = list[tuple[Address, Address, int]]
# A range, the first child, and how many children have it.
Ranges = Sequence[tuple[AddressRange, Address, int]]

addresses = st.builds(Address, st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 12))
graphs = st.lists(st.tuples(addresses, addresses, st.integers(1, 5)), max_size=25)


address_ranges = st.builds(
    lambda begin, more: AddressRange(
        begin.topic, begin.partition, begin.offset, begin.offset + more
    ),
    addresses,
    st.integers(0, 5),
)
range_rows = st.lists(st.tuples(address_ranges, addresses, st.integers(1, 4)), max_size=8)


class WithoutRanges:
    def within_from(
        self, partition: TopicPartition, parents: OffsetRanges
    ) -> Iterator[WithinBlock]:
        return iter(())


class Table:
    """Rows as in the index."""

    def __init__(self, rows: Rows, ranges: Ranges = ()) -> None:
        self._rows = rows
        self._ranges = ranges

    def within_from(
        self, partition: TopicPartition, parents: OffsetRanges
    ) -> Iterator[WithinBlock]:
        for within, child, count in self._ranges:
            if (within.topic, within.partition) == partition:
                if parents.meets(within.first, within.last):
                    ends = (within.first, within.last, child.offset, child.offset + count - 1)
                    numbers = (np.array([n]) for n in ends)
                    yield WithinBlock((child.topic, child.partition), *numbers)

    def edges_from(self, partition: TopicPartition, parents: OffsetRanges) -> Iterator[EdgeBlock]:
        for parent, child, count in self._rows:
            last = parent.offset + count - 1
            if (parent.topic, parent.partition) == partition and parents.meets(parent.offset, last):
                numbers = (np.array([n]) for n in (parent.offset, last, child.offset))
                yield EdgeBlock((child.topic, child.partition), *numbers)


def single_edges(rows: Rows) -> dict[Address, set[Address]]:
    edges: dict[Address, set[Address]] = defaultdict(set)
    for parent, child, count in rows:
        for step in range(count):
            above = Address(parent.topic, parent.partition, parent.offset + step)
            edges[above].add(Address(child.topic, child.partition, child.offset + step))
    return edges


def all_below(roots: set[Address], edges: dict[Address, set[Address]]) -> set[Address]:
    seen, queue = set(roots), list(roots)
    while queue:
        new = edges.get(queue.pop(), set()) - seen
        seen |= new
        queue += new
    return seen


def addresses_of(offsets: Mapping[TopicPartition, OffsetRanges]) -> set[Address]:
    return {
        Address(*partition, offset)
        for partition, ranges in offsets.items()
        for offset in ranges.offsets()
    }


def reached(result: WalkResult) -> set[Address]:
    return addresses_of(result.reached)


def roots_of(*roots: Address) -> dict[TopicPartition, OffsetRanges]:
    by_partition: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for root in roots:
        by_partition[root.topic, root.partition].append((root.offset, root.offset))
    return {partition: OffsetRanges.of(*ranges) for partition, ranges in by_partition.items()}


@settings(deadline=None)
@given(graphs, st.sets(addresses, min_size=1, max_size=3))
def test_exactly_the_descendants_are_reached_and_shown_despite_cycles(
    rows: Rows, roots: set[Address]
) -> None:
    result = walk_impact(Table(rows), roots_of(*roots), max_records=10_000, max_depth=100)
    edges = single_edges(rows)
    below = all_below(roots, edges)
    assert reached(result) == below
    assert {parent: set(children) for parent, children in result.children.items()} == {
        address: edges.get(address, set()) for address in below
    }
    assert not result.truncated
    assert result.cut is None


def with_ranges(rows: Rows, ranges: Ranges) -> dict[Address, set[Address]]:
    """All edges, also from each record within a range."""
    edges = single_edges(rows)
    for within, child, count in ranges:
        for offset in range(within.first, within.last + 1):
            above = Address(within.topic, within.partition, offset)
            for step in range(count):
                edges[above].add(Address(child.topic, child.partition, child.offset + step))
    return edges


@settings(deadline=None)
@given(graphs, range_rows, st.sets(addresses, min_size=1, max_size=3))
def test_records_that_only_ranges_lead_to_are_reached_apart_from_the_others(
    rows: Rows, ranges: Ranges, roots: set[Address]
) -> None:
    table = Table(rows, ranges)
    result = walk_impact(table, roots_of(*roots), max_records=10_000, max_depth=100)
    certain = all_below(roots, single_edges(rows))
    possible = all_below(roots, with_ranges(rows, ranges))
    assert reached(result) == certain
    assert addresses_of(result.within) == result.uncertain == possible - certain
    assert {parent: set(children) for parent, children in result.children.items()} == {
        address: with_ranges(rows, ranges).get(address, set()) for address in possible
    }
    assert not result.truncated
    assert result.cut is None


@settings(deadline=None)
@given(graphs, range_rows, addresses, st.integers(1, 6), st.integers(0, 3))
def test_limits_hold_for_records_that_ranges_lead_to(
    rows: Rows, ranges: Ranges, root: Address, max_records: int, max_depth: int
) -> None:
    table = Table(rows, ranges)
    result = walk_impact(table, roots_of(root), max_records=max_records, max_depth=max_depth)
    edges = with_ranges(rows, ranges)
    assert len(result.children) <= max_records
    assert addresses_of(result.within) | reached(result) == all_below({root}, edges)
    for parent, children in result.children.items():
        assert set(children) <= edges.get(parent, set())
        assert set(children) == edges.get(parent, set()) or parent in result.truncated


def test_a_range_of_a_million_records_with_a_million_outputs_is_counted_and_a_few_are_shown() -> (
    None
):
    ranges = [(AddressRange("a", 0, 0, 999_999), Address("b", 0, 0), 1_000_000)]
    roots = {("a", 0): OffsetRanges.of((0, 999_999))}
    result = walk_impact(Table([], ranges), roots, max_records=1000, max_depth=5)
    assert len(result.within["b", 0]) == 1_000_000
    assert len(result.children) == 1000
    assert sum(map(len, result.children.values())) <= 100_000


@settings(deadline=None)
@given(graphs, addresses, st.integers(1, 6), st.integers(0, 3))
def test_records_that_are_not_shown_are_counted_and_their_parent_is_truncated(
    rows: Rows, root: Address, max_records: int, max_depth: int
) -> None:
    result = walk_impact(Table(rows), roots_of(root), max_records=max_records, max_depth=max_depth)
    edges = single_edges(rows)
    assert reached(result) == all_below({root}, edges)
    assert len(result.children) <= max_records
    for parent, children in result.children.items():
        assert set(children) <= edges.get(parent, set())
        # A duplicate edge in the index may mark a parent although all its children are shown.
        assert set(children) == edges.get(parent, set()) or parent in result.truncated


def test_a_million_children_of_one_record_are_counted_and_a_few_shown() -> None:
    offsets = np.random.default_rng(5).permutation(2_000_000)[:1_000_000]

    class Fan(WithoutRanges):
        def edges_from(
            self, partition: TopicPartition, parents: OffsetRanges
        ) -> Iterator[EdgeBlock]:
            if partition == ("a", 0):
                same = np.full(len(offsets), 3)
                yield EdgeBlock(("b", 0), same, same, offsets)

    result = walk_impact(Fan(), roots_of(Address("a", 0, 3)), max_records=10, max_depth=5)
    assert len(result.reached["b", 0]) == 1_000_000
    assert len(result.children[Address("a", 0, 3)]) == 9
    assert result.truncated == {Address("a", 0, 3)}


def test_an_endless_chain_is_cut_with_a_reason() -> None:
    class Endless(WithoutRanges):
        def edges_from(
            self, partition: TopicPartition, parents: OffsetRanges
        ) -> Iterator[EdgeBlock]:
            yield EdgeBlock(partition, parents.first, parents.last, parents.first + 1)

    result = walk_impact(Endless(), roots_of(Address("a", 0, 0)), max_records=10, max_depth=5)
    assert result.cut == "the walk ended after 1000 hops"
    assert len(result.reached["a", 0]) == MAX_LEVELS + 1
    result = walk_impact(
        Endless(), roots_of(Address("a", 0, 0)), max_records=10, max_depth=5, max_edges=50
    )
    assert result.cut == "the walk ended after 51 rows of edges"
