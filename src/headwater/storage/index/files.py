"""Files of the index: the row groups that may hold an address, and edges as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.model import TopicPartition
from headwater.storage.delta.pruning import StatisticsFile
from headwater.storage.offset_ranges import Numbers, OffsetRanges, clip

PARENTS = ("parent_topic", "parent_partition", "parent_first", "parent_last")
RECORDS = ("topic", "partition", "first", "last")
_EDGE = (*PARENTS, "topic", "partition", "first")
# Stands for null; not a valid partition or offset.
_NULL = -1


@dataclass(frozen=True, slots=True)
class EdgeBlock:
    """Edges to one partition: parents `parent_first` to `parent_last`, children from `first` on."""

    partition: TopicPartition
    parent_first: Numbers
    parent_last: Numbers
    first: Numbers


class TableFile(StatisticsFile):
    """A file of the index, with one kind of rows."""

    bounded = frozenset({*PARENTS, *RECORDS})

    def __init__(self, table: Path, action: Mapping[str, Any]) -> None:
        super().__init__(table, action)
        self.kind: str = action["partition.kind"]

    def groups_with(
        self, columns: Sequence[str], partition: TopicPartition, offsets: OffsetRanges
    ) -> Iterator[int]:
        """The row groups that may hold some of these offsets, by their statistics.

        Args:
            columns: the names of topic, partition, first and last offset.
        """
        topic, number, first, last = columns
        return self.groups_where({topic: partition[0], number: partition[1]}, first, last, offsets)

    def groups_to(self, partition: TopicPartition, last: int) -> Iterator[int]:
        """The row groups of edges that may lead to offsets up to `last` of a partition."""
        # Statistics do not have the length of a range of children: any range before may reach it.
        up_to = OffsetRanges.of((0, last))
        equal = {"topic": partition[0], "partition": partition[1]}
        return self.groups_where(equal, "first", "first", up_to)

    def edges(self, group: int) -> EdgeRows:
        """A row group of edges."""
        # A topic that is the same in all rows is not read: most row groups have only one.
        known = {}
        for name in ("parent_topic", "topic"):
            bounds = self.group_bounds[name][group]
            if bounds is not None and bounds[0] == bounds[1]:
                known[name] = bounds[0]
        return EdgeRows.of(self.read(group, [n for n in _EDGE if n not in known]), known)


@dataclass(frozen=True, slots=True)
class EdgeRows:
    """A row group of edges, decoded; topics are dictionary codes."""

    parent_topics: list[str]
    parent_topic: Numbers
    parent_partition: Numbers
    parent_first: Numbers
    parent_last: Numbers
    topics: list[str]
    topic: Numbers
    partition: Numbers
    first: Numbers

    @classmethod
    def of(cls, table: pa.Table, known: Mapping[str, str]) -> EdgeRows:
        """From a table, and the topics that are the same in all its rows."""
        numbers = {name: _numbers(table[name]) for name in _EDGE if not name.endswith("topic")}

        def codes(name: str) -> tuple[list[str], Numbers]:
            if name in known:
                return [known[name]], np.zeros(table.num_rows, dtype=np.int64)
            encoded = table[name].combine_chunks().dictionary_encode()
            return encoded.dictionary.to_pylist(), _numbers(encoded.indices)

        parent_topics, parent_topic = codes("parent_topic")
        topics, topic = codes("topic")
        return cls(
            parent_topics=parent_topics,
            parent_topic=parent_topic,
            topics=topics,
            topic=topic,
            **numbers,
        )

    def blocks(self, partition: TopicPartition, parents: OffsetRanges) -> list[EdgeBlock]:
        """The edges from these parents, by the partition of the children."""
        if partition[0] not in self.parent_topics:
            return []
        # For each row, the first range of the set that ends at or after the row's first parent.
        at = np.searchsorted(parents.last, self.parent_first, side="left")
        near = np.minimum(at, len(parents.first) - 1)
        rows = np.flatnonzero(
            (self.parent_topic == self.parent_topics.index(partition[0]))
            & (self.parent_partition == partition[1])
            & (at < len(parents.first))
            & (parents.first[near] <= self.parent_last)
        )
        if not len(rows):
            return []
        topics, numbers = self.topic[rows], self.partition[rows]
        blocks = []
        for code, number in np.unique(np.stack([topics, numbers]), axis=1).T.tolist():
            to = rows[(topics == code) & (numbers == number)]
            columns = (column[to] for column in (self.parent_first, self.parent_last, self.first))
            blocks.append(EdgeBlock((self.topics[code], number), *columns))
        return blocks

    def parents(
        self, partition: TopicPartition, children: OffsetRanges
    ) -> Iterator[tuple[TopicPartition, OffsetRanges]]:
        """The parents of these records, by partition."""
        if partition[0] not in self.topics:
            return
        rows = np.flatnonzero(
            (self.topic == self.topics.index(partition[0])) & (self.partition == partition[1])
        )
        shift = self.first[rows] - self.parent_first[rows]
        which, first, last = clip(self.first[rows], self.parent_last[rows] + shift, children)
        of, back = rows[which], shift[which]
        topics, numbers = self.parent_topic[of], self.parent_partition[of]
        for code, number in np.unique(np.stack([topics, numbers]), axis=1).T.tolist():
            at = (topics == code) & (numbers == number)
            offsets = OffsetRanges.union([(first[at] - back[at], last[at] - back[at])])
            yield (self.parent_topics[code], number), offsets


def _numbers(column: Any) -> Numbers:
    return np.asarray(column.fill_null(_NULL).to_numpy(), dtype=np.int64)
