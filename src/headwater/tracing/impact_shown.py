"""The result of an impact walk, and the records of it that are shown one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from headwater.model import Address, TopicPartition
from headwater.storage.index.within import WithinBlock
from headwater.storage.offset_ranges import Numbers, OffsetRanges

# Between shown records: each in a range is linked with all outputs of the range.
_MAX_LINKS_WITHIN = 100_000


@dataclass
class WalkResult:
    """The result of a walk.

    `children` has an entry for each shown record, the `roots` first; records in `truncated` have
    more children than are shown. `reached` are all records including the roots, shown or not.
    `within` are further ones, which may be made from the roots: a range of theirs, or of one
    between, contains one of them; `uncertain` are those that are shown. `cut` is the reason why
    there may be more.
    """

    roots: list[Address] = field(default_factory=list)
    children: dict[Address, list[Address]] = field(default_factory=dict)
    truncated: set[Address] = field(default_factory=set)
    reached: dict[TopicPartition, OffsetRanges] = field(default_factory=dict)
    within: dict[TopicPartition, OffsetRanges] = field(default_factory=dict)
    uncertain: set[Address] = field(default_factory=set)
    cut: str | None = None


class ShownRecords:
    """The shown records, kept one by one."""

    def __init__(self, result: WalkResult, max_records: int, max_depth: int) -> None:
        self._result = result
        self._max_records = max_records
        self._max_depth = max_depth
        self._depth = 0
        self._depths: dict[Address, int] = {}
        self._uncertain = False
        self._links_within = 0
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

    def begin_uncertain(self) -> None:
        """Continue from all shown records, which have different distances."""
        self._uncertain = True
        self._depth = 0
        self._next = {}
        for address in self._result.children:
            self._next.setdefault((address.topic, address.partition), []).append(address.offset)
        self._swap_levels()

    def next_level(self) -> None:
        if not self._uncertain:
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

    def add_within(self, partition: TopicPartition, block: WithinBlock) -> None:
        """Add records with ranges: each shown parent in a range leads to each child of the row."""
        parents = self._level.get(partition)
        if parents is None:
            return
        begin = np.searchsorted(parents, block.parent_first, side="left")
        end = np.searchsorted(parents, block.parent_last, side="right")
        rows = np.flatnonzero(begin < end)
        for at, row in enumerate(rows.tolist()):
            if self._is_full() or self._links_within >= _MAX_LINKS_WITHIN:
                self._cut(partition, parents, begin[rows[at:]], end[rows[at:]])
                return
            for parent in parents[begin[row] : end[row]].tolist():
                children = range(int(block.first[row]), int(block.last[row]) + 1)
                self._link_each(Address(*partition, parent), block.partition, children)

    def _link_each(self, parent: Address, partition: TopicPartition, offsets: range) -> None:
        for offset in offsets:
            self._links_within += 1
            if self._links_within > _MAX_LINKS_WITHIN:
                self._result.truncated.add(parent)
                return
            if not self._link(parent, Address(*partition, offset)):
                return

    def _link(self, parent: Address, child: Address) -> bool:
        """Whether the child is shown."""
        if child not in self._result.children:
            if self._is_full() or self._depths[parent] >= self._max_depth:
                self._result.truncated.add(parent)
                return False
            self._show(child, self._depths[parent] + 1)
        self._result.children[parent].append(child)
        return True

    def _show(self, address: Address, depth: int = 0) -> None:
        self._result.children[address] = []
        self._depths[address] = depth
        if self._uncertain:
            self._result.uncertain.add(address)
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
