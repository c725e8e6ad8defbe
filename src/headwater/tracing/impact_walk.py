"""The walk from records to all that was made from them, over the index, level by level.

Whole sets of records are followed at once, as ranges: what a job made in a year is counted as
one record is. Beside that the nearest records are kept one by one, to be shown.
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

# A level is a look-up for each partition, so a bound on time: a record that was made from the
# one before it, a hundred thousand times over, is forged or a topic that feeds itself.
MAX_LEVELS = 1_000
# Some tens of seconds.
MAX_EDGES = 100_000_000
# Held before they are joined, for each partition.
_PENDING = 2_000_000


class Edges(Protocol):
    """What answers which edges leave records."""

    def edges_from(self, place: TopicPartition, parents: OffsetRanges) -> Iterator[EdgeBlock]: ...


@dataclass
class Spread:
    """What a walk has found.

    `children` has an entry for each record that is shown, the `roots` first; those in
    `truncated` have more children than are shown. `reached` are all records, shown or not, the
    roots among them. `cut` says why there may be more.
    """

    roots: list[Address] = field(default_factory=list)
    children: dict[Address, list[Address]] = field(default_factory=dict)
    truncated: set[Address] = field(default_factory=set)
    reached: dict[TopicPartition, OffsetRanges] = field(default_factory=dict)
    cut: str | None = None


def spread(
    edges: Edges, roots: Mapping[TopicPartition, OffsetRanges], *, max_records: int, max_depth: int
) -> Spread:
    """Follow the edges from `roots` until there are no more, or a bound is met.

    Args:
        max_records: how many records are shown, the roots included.
        max_depth: how far those may be from the roots; what is counted may be farther.
    """
    found = Spread(reached=dict(roots))
    shown = _Shown(found, max_records, max_depth)
    shown.begin(roots)
    frontier = dict(roots)
    examined = 0
    for _ in range(MAX_LEVELS):
        piles: dict[TopicPartition, _Pile] = {}
        for place, block in _edges_from(edges, frontier):
            which, first, last = clip(block.parent_first, block.parent_last, frontier[place])
            shift = (block.first - block.parent_first)[which]
            piles.setdefault(block.place, _Pile()).add(first + shift, last + shift)
            shown.take(place, block.place, first, last, shift)
            examined += len(which)
            if examined > MAX_EDGES:
                found.cut = f"the walk ended after {examined} rows of edges"
                break
        frontier = _newly_reached(found, piles)
        if not frontier or found.cut:
            return found
        shown.next_level()
    found.cut = f"the walk ended after {MAX_LEVELS} hops"
    return found


def _edges_from(
    edges: Edges, frontier: Mapping[TopicPartition, OffsetRanges]
) -> Iterator[tuple[TopicPartition, EdgeBlock]]:
    for place, parents in frontier.items():
        for block in edges.edges_from(place, parents):
            yield place, block


def _newly_reached(
    found: Spread, piles: Mapping[TopicPartition, _Pile]
) -> dict[TopicPartition, OffsetRanges]:
    """The records that were not reached before; each is followed once, so circles end."""
    frontier: dict[TopicPartition, OffsetRanges] = {}
    for place, pile in piles.items():
        there = pile.joined()
        known = found.reached.get(place)
        new = there if known is None else there - known
        if new:
            frontier[place] = new
            found.reached[place] = there if known is None else known | there
    return frontier


class _Pile:
    """Ranges of one partition, joined before they become too many."""

    def __init__(self) -> None:
        self._parts: list[tuple[Numbers, Numbers]] = []
        self._number = 0

    def add(self, first: Numbers, last: Numbers) -> None:
        self._parts.append((first, last))
        self._number += len(first)
        if self._number > _PENDING:
            joined = self.joined()
            self._parts, self._number = [(joined.first, joined.last)], 0

    def joined(self) -> OffsetRanges:
        return OffsetRanges.union(self._parts)


class _Shown:
    """The records that are kept one by one."""

    def __init__(self, found: Spread, max_records: int, max_depth: int) -> None:
        self._found = found
        self._max_records = max_records
        self._max_depth = max_depth
        self._depth = 0
        self._level: dict[TopicPartition, Numbers] = {}
        self._next: dict[TopicPartition, list[int]] = {}

    def begin(self, roots: Mapping[TopicPartition, OffsetRanges]) -> None:
        everyone = (
            Address(*place, offset) for place, of in roots.items() for offset in of.offsets()
        )
        self._found.roots = list(islice(everyone, self._max_records))
        for address in self._found.roots:
            self._show(address)
        self._turn()

    def next_level(self) -> None:
        self._depth += 1
        self._turn()

    def take(
        self,
        place: TopicPartition,
        to: TopicPartition,
        first: Numbers,
        last: Numbers,
        shift: Numbers,
    ) -> None:
        """Edges from parents `first` to `last` to the records that lie `shift` behind them."""
        parents = self._level.get(place)
        if parents is None:
            return
        begin = np.searchsorted(parents, first, side="left")
        end = np.searchsorted(parents, last, side="right")
        rows = np.flatnonzero(begin < end)
        for at, row in enumerate(rows.tolist()):
            if self._is_full():
                self._cut(place, parents, begin[rows[at:]], end[rows[at:]])
                return
            for parent in parents[begin[row] : end[row]].tolist():
                child = Address(*to, parent + int(shift[row]))
                self._link(Address(*place, parent), child)

    def _link(self, parent: Address, child: Address) -> None:
        if child not in self._found.children:
            if self._is_full():
                self._found.truncated.add(parent)
                return
            self._show(child)
        self._found.children[parent].append(child)

    def _show(self, address: Address) -> None:
        self._found.children[address] = []
        self._next.setdefault((address.topic, address.partition), []).append(address.offset)

    def _is_full(self) -> bool:
        return len(self._found.children) >= self._max_records or self._depth >= self._max_depth

    def _cut(self, place: TopicPartition, parents: Numbers, begin: Numbers, end: Numbers) -> None:
        """Mark the parents from `begin` to `end`: they have edges that were not looked at, which
        nearly always lead to children that are not shown."""
        steps = np.zeros(len(parents) + 1, dtype=np.int64)
        np.add.at(steps, begin, 1)
        np.add.at(steps, end, -1)
        for parent in parents[np.cumsum(steps)[:-1] > 0].tolist():
            self._found.truncated.add(Address(*place, parent))

    def _turn(self) -> None:
        self._level = {
            place: np.array(sorted(offsets), dtype=np.int64)
            for place, offsets in self._next.items()
        }
        self._next = {}
