"""Following edges forward, against a plain walk over single records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model import Address, TopicPartition
from headwater.storage.index.files import EdgeBlock
from headwater.storage.offset_ranges import OffsetRanges
from headwater.tracing import impact_walk as module
from headwater.tracing.impact_walk import Spread, spread

# Parent, child, and how many of both follow.
Rows = list[tuple[Address, Address, int]]

addresses = st.builds(Address, st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 12))
graphs = st.lists(st.tuples(addresses, addresses, st.integers(1, 5)), max_size=25)


class Table:
    """Rows as the index gives them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def edges_from(self, place: TopicPartition, parents: OffsetRanges) -> Iterator[EdgeBlock]:
        for parent, child, count in self._rows:
            last = parent.offset + count - 1
            if (parent.topic, parent.partition) == place and parents.meets(parent.offset, last):
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
    found, waiting = set(roots), list(roots)
    while waiting:
        new = edges.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def reached(found: Spread) -> set[Address]:
    return {Address(*place, o) for place, of in found.reached.items() for o in of.offsets()}


def roots_of(*roots: Address) -> dict[TopicPartition, OffsetRanges]:
    by_place: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for root in roots:
        by_place[root.topic, root.partition].append((root.offset, root.offset))
    return {place: OffsetRanges.of(*ranges) for place, ranges in by_place.items()}


@settings(deadline=None)
@given(graphs, st.sets(addresses, min_size=1, max_size=3))
def test_exactly_the_descendants_are_reached_and_shown_whatever_the_circles(
    rows: Rows, roots: set[Address]
) -> None:
    found = spread(Table(rows), roots_of(*roots), max_records=10_000, max_depth=100)
    edges = single_edges(rows)
    below = all_below(roots, edges)
    assert reached(found) == below
    assert {parent: set(children) for parent, children in found.children.items()} == {
        address: edges.get(address, set()) for address in below
    }
    assert not found.truncated
    assert found.cut is None


@settings(deadline=None)
@given(graphs, addresses, st.integers(1, 6), st.integers(0, 3))
def test_what_is_not_shown_is_counted_and_marked_at_its_parent(
    rows: Rows, root: Address, max_records: int, max_depth: int
) -> None:
    found = spread(Table(rows), roots_of(root), max_records=max_records, max_depth=max_depth)
    edges = single_edges(rows)
    assert reached(found) == all_below({root}, edges)
    assert len(found.children) <= max_records
    for parent, children in found.children.items():
        assert set(children) <= edges.get(parent, set())
        # An edge that the index holds twice may mark a parent of which all is shown.
        assert set(children) == edges.get(parent, set()) or parent in found.truncated


def test_a_million_children_of_one_record_are_counted_and_a_few_shown() -> None:
    offsets = np.random.default_rng(5).permutation(2_000_000)[:1_000_000]

    class Fan:
        def edges_from(self, place: TopicPartition, parents: OffsetRanges) -> Iterator[EdgeBlock]:
            if place == ("a", 0):
                same = np.full(len(offsets), 3)
                yield EdgeBlock(("b", 0), same, same, offsets)

    found = spread(Fan(), roots_of(Address("a", 0, 3)), max_records=10, max_depth=5)
    assert len(found.reached["b", 0]) == 1_000_000
    assert len(found.children[Address("a", 0, 3)]) == 9
    assert found.truncated == {Address("a", 0, 3)}


def test_a_chain_without_an_end_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        def edges_from(self, place: TopicPartition, parents: OffsetRanges) -> Iterator[EdgeBlock]:
            yield EdgeBlock(place, parents.first, parents.last, parents.first + 1)

    found = spread(Endless(), roots_of(Address("a", 0, 0)), max_records=10, max_depth=5)
    assert found.cut == "the walk ended after 1000 hops"
    assert len(found.reached["a", 0]) == module.MAX_LEVELS + 1
    monkeypatch.setattr(module, "MAX_EDGES", 50)
    cut = spread(Endless(), roots_of(Address("a", 0, 0)), max_records=10, max_depth=5)
    assert cut.cut == "the walk ended after 51 rows of edges"
