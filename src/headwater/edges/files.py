"""Files of the index: which row groups may hold an address, and edges as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.deltafiles.intervals import Intervals, Numbers, clip

# Topic and partition.
Place = tuple[str, int]

PARENTS = ("parent_topic", "parent_partition", "parent_first", "parent_last")
RECORDS = ("topic", "partition", "first", "last")
_EDGE = (*PARENTS, "topic", "partition", "first")
# A number that is no address's, where a column is null.
_NULL = -1


@dataclass(frozen=True, slots=True)
class EdgeBlock:
    """Edges to one partition: `parent_first` to `parent_last` became `first` and so on."""

    place: Place
    parent_first: Numbers
    parent_last: Numbers
    first: Numbers


class TableFile:
    """A file of the table; it is opened once, when it is needed, and its footer read."""

    def __init__(self, table: Path, action: Mapping[str, Any]) -> None:
        self.name: str = action["path"]
        self.kind: str = action["partition.kind"]
        self.rows: int = action["num_records"]
        self.path = table / unquote(self.name)
        self._action = action

    @cached_property
    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.path)

    @cached_property
    def _bounds(self) -> dict[str, list[tuple[Any, Any] | None]]:
        """Least and greatest value of each row group, by column."""
        footer = self._open.metadata
        places = {footer.schema.column(at).name: at for at in range(footer.num_columns)}
        wanted = {*PARENTS, *RECORDS}
        found: dict[str, list[tuple[Any, Any] | None]] = {name: [] for name in wanted}
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for name in wanted:
                stats = row_group.column(places[name]).statistics
                known = stats is not None and stats.has_min_max
                found[name].append((stats.min, stats.max) if known else None)
        return found

    def groups_with(
        self, columns: Sequence[str], place: Place, offsets: Intervals
    ) -> Iterator[int]:
        """The row groups that may hold some of these offsets, as far as statistics tell.

        Args:
            columns: the names of topic, partition, first and last offset.
        """
        topic, partition, first, last = columns
        if not _may_hold(self._stats(topic), place[0]) or not _may_hold(
            self._stats(partition), place[1]
        ):
            return
        if not _meets(self._stats(first), self._stats(last), offsets):
            return
        bounds = self._bounds
        for group in range(len(bounds[topic])):
            if (
                _may_hold(bounds[topic][group], place[0])
                and _may_hold(bounds[partition][group], place[1])
                and _meets(bounds[first][group], bounds[last][group], offsets)
            ):
                yield group

    def groups_to(self, place: Place, last: int) -> Iterator[int]:
        """The row groups of edges that may lead to offsets up to `last` of a partition."""
        for group, (topic, partition, first) in enumerate(
            zip(*(self._bounds[name] for name in ("topic", "partition", "first")), strict=True)
        ):
            # How long a range of children is, statistics do not tell: any before may reach it.
            begins = first is None or first[0] <= last
            if begins and _may_hold(topic, place[0]) and _may_hold(partition, place[1]):
                yield group

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Columns of a row group."""
        return self._open.read_row_group(group, columns=list(columns), use_threads=False)

    def edges(self, group: int) -> EdgeRows:
        """A row group of edges."""
        # A topic that is the same in all rows need not be read: most row groups have one only.
        known = {}
        for name in ("parent_topic", "topic"):
            bounds = self._bounds[name][group]
            if bounds is not None and bounds[0] == bounds[1]:
                known[name] = bounds[0]
        return EdgeRows.of(self.read(group, [n for n in _EDGE if n not in known]), known)

    def read_all(self, columns: Sequence[str]) -> pa.Table:
        return self._open.read(columns=list(columns), use_threads=False)

    def _stats(self, column: str) -> tuple[Any, Any] | None:
        low, high = self._action.get(f"min.{column}"), self._action.get(f"max.{column}")
        return None if low is None or high is None else (low, high)


def _may_hold(bounds: tuple[Any, Any] | None, value: Any) -> bool:
    return bounds is None or bool(bounds[0] <= value <= bounds[1])


def _meets(first: tuple[Any, Any] | None, last: tuple[Any, Any] | None, offsets: Intervals) -> bool:
    if first is None or last is None:
        return True
    return offsets.meets(first[0], last[1])


@dataclass(frozen=True, slots=True)
class EdgeRows:
    """A row group of edges, decoded; topics are codes."""

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
        """From a table, and the topics that all its rows have."""
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

    def blocks(self, place: Place, parents: Intervals) -> list[EdgeBlock]:
        """The edges that leave these parents, by the partition that they lead to."""
        if place[0] not in self.parent_topics:
            return []
        # The part of the set that ends at or behind a row's first is the one to reach its last.
        at = np.searchsorted(parents.last, self.parent_first, side="left")
        near = np.minimum(at, len(parents.first) - 1)
        rows = np.flatnonzero(
            (self.parent_topic == self.parent_topics.index(place[0]))
            & (self.parent_partition == place[1])
            & (at < len(parents.first))
            & (parents.first[near] <= self.parent_last)
        )
        if not len(rows):
            return []
        topic, partition = self.topic[rows], self.partition[rows]
        blocks = []
        for code, number in np.unique(np.stack([topic, partition]), axis=1).T.tolist():
            to = rows[(topic == code) & (partition == number)]
            found = (column[to] for column in (self.parent_first, self.parent_last, self.first))
            blocks.append(EdgeBlock((self.topics[code], number), *found))
        return blocks

    def parents(self, place: Place, children: Intervals) -> Iterator[tuple[Place, Intervals]]:
        """The records that these were made from, by their partition."""
        if place[0] not in self.topics:
            return
        rows = np.flatnonzero(
            (self.topic == self.topics.index(place[0])) & (self.partition == place[1])
        )
        shift = self.first[rows] - self.parent_first[rows]
        which, first, last = clip(self.first[rows], self.parent_last[rows] + shift, children)
        of, back = rows[which], shift[which]
        topic, partition = self.parent_topic[of], self.parent_partition[of]
        for code, number in np.unique(np.stack([topic, partition]), axis=1).T.tolist():
            at = (topic == code) & (partition == number)
            offsets = Intervals.union([(first[at] - back[at], last[at] - back[at])])
            yield (self.parent_topics[code], number), offsets


def _numbers(column: Any) -> Numbers:
    return np.asarray(column.fill_null(_NULL).to_numpy(), dtype=np.int64)
