"""Rows of the index for records of which only ranges are known that contain their parents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model import TopicPartition
from headwater.storage.index.files import PARENTS, RECORDS
from headwater.storage.offset_ranges import Numbers, OffsetRanges

COLUMNS = (*PARENTS, *RECORDS)


@dataclass(frozen=True, slots=True)
class WithinBlock:
    """Records `first` to `last` of one partition; parents of each of them are within the range
    `parent_first` to `parent_last`."""

    partition: TopicPartition
    parent_first: Numbers
    parent_last: Numbers
    first: Numbers
    last: Numbers


def blocks_from(
    rows: pa.Table, partition: TopicPartition, parents: OffsetRanges
) -> Iterator[WithinBlock]:
    """The rows whose ranges contain some of these records, by the partition of the children."""
    found = _meeting(rows, PARENTS, partition, parents)
    for child, of_child in _by_partition(found, RECORDS):
        names = ("parent_first", "parent_last", "first", "last")
        yield WithinBlock(child, *(_numbers(of_child, name) for name in names))


def ranges_of(
    rows: pa.Table, partition: TopicPartition, children: OffsetRanges
) -> Iterator[tuple[TopicPartition, OffsetRanges]]:
    """The ranges that contain parents of these records, by partition."""
    found = _meeting(rows, RECORDS, partition, children)
    for parent, of_parent in _by_partition(found, PARENTS):
        ends = (_numbers(of_parent, "parent_first"), _numbers(of_parent, "parent_last"))
        yield parent, OffsetRanges.union([ends])


def _meeting(
    rows: pa.Table, names: tuple[str, ...], partition: TopicPartition, offsets: OffsetRanges
) -> pa.Table:
    """The rows of one partition whose range meets the offsets."""
    topic, number, first, last = names
    same = pc.and_(pc.equal(rows[topic], partition[0]), pc.equal(rows[number], partition[1]))
    rows = rows.filter(same)
    at = np.searchsorted(offsets.last, _numbers(rows, first), side="left")
    near = np.minimum(at, len(offsets.first) - 1)
    meets = (at < len(offsets.first)) & (offsets.first[near] <= _numbers(rows, last))
    return rows.filter(pa.array(meets))


def _by_partition(
    rows: pa.Table, names: tuple[str, ...]
) -> Iterator[tuple[TopicPartition, pa.Table]]:
    topic, number = names[:2]
    for row in rows.select([topic, number]).group_by([topic, number]).aggregate([]).to_pylist():
        same = pc.and_(pc.equal(rows[topic], row[topic]), pc.equal(rows[number], row[number]))
        yield (row[topic], row[number]), rows.filter(same)


def _numbers(rows: pa.Table, name: str) -> Numbers:
    return np.asarray(rows[name].to_numpy(), dtype=np.int64)
