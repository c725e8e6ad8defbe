"""Parquet files of a table with lineage: reads the lineage column and matches its rows.

Only row groups that may hold the wanted parents are read. Rows are matched as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headwater.model import JobOutput, TopicPartition
from headwater.model.address import ADDRESS_PATTERN, MAX_OFFSET, RANGE_PATTERN
from headwater.model.header import RANGE_MARK
from headwater.storage.offset_ranges import Numbers, OffsetRanges
from headwater.storage.tables.contract import COLUMN

PARENT_FIELDS = ("topic", "partition", "offset", "parents")
PRODUCER_FIELDS = ("job_name", "job_version", "batch_version")

Rows = NDArray[np.bool_]

# Stands for null; not a valid partition or offset.
_NULL = -1
_ADDRESS = f"^{ADDRESS_PATTERN}$"
_RANGE = f"^{RANGE_MARK}{RANGE_PATTERN}$"
# Fields that have statistics in a Parquet file.
_LEAVES = ("topic", "partition", "offset")
_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "job_name": pa.string(),
    "job_version": pa.string(),
    "batch_version": pa.int64(),
}


class LineageFile:
    """An immutable file; its footer is read once.

    Args:
        column: name of the column with the lineage.
    """

    def __init__(self, path: Path, column: str = COLUMN) -> None:
        self._path = path
        self._column = column

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]:
        """Fields of the column, from row groups that may hold these parents, or from all.

        Nothing if the file has no such column, because it was added to the table later.
        """
        if not self.has_column:
            return
        is_struct = pa.types.is_struct(self._open.schema_arrow.field(self._column).type)
        names = [f"{self._column}.{name}" for name in fields] if is_struct else [self._column]
        for group, bounds in enumerate(self._bounds):
            if parents is None or bounds is None or bounds.may_hold(parents):
                rows = self._open.read_row_group(group, columns=names, use_threads=False)
                yield flat(rows, fields, self._column)

    @property
    def has_column(self) -> bool:
        return self._column in self._open.schema_arrow.names

    @cached_property
    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path)

    @cached_property
    def _bounds(self) -> list[_Bounds | None]:
        footer = self._open.metadata
        groups = range(footer.num_row_groups)
        return [_bounds(footer.row_group(group), self._column) for group in groups]


class _Bounds:
    """Least and greatest topic, partition and offset of rows with one parent in a row group."""

    def __init__(self, least: Mapping[str, Any], greatest: Mapping[str, Any]) -> None:
        self._least = least
        self._greatest = greatest

    def may_hold(self, parents: Mapping[TopicPartition, OffsetRanges]) -> bool:
        least, greatest = self._least, self._greatest
        return any(
            least["topic"] <= topic <= greatest["topic"]
            and least["partition"] <= partition <= greatest["partition"]
            and offsets.meets(least["offset"], greatest["offset"])
            for (topic, partition), offsets in parents.items()
        )


def _bounds(row_group: Any, column_name: str) -> _Bounds | None:
    """None if statistics exclude nothing, because rows have several parents."""
    leaves = {f"{column_name}.{name}": name for name in _LEAVES}
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for at in range(row_group.num_columns):
        column = row_group.column(at)
        name = leaves.get(column.path_in_schema)
        stats = column.statistics
        if name is not None and stats is not None and stats.has_min_max:
            least[name], greatest[name] = stats.min, stats.max
        elif column.path_in_schema.startswith(f"{column_name}.parents.") and not _only_nulls(
            column
        ):
            return None
    return _Bounds(least, greatest) if len(least) == len(leaves) else None


def _only_nulls(column: Any) -> bool:
    stats = column.statistics
    return stats is not None and stats.has_null_count and stats.null_count == column.num_values


def flat(rows: pa.Table, fields: Sequence[str], column_name: str = COLUMN) -> pa.Table:
    """The fields of the struct as columns; of addresses alone, the others are null."""
    column = rows[column_name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # without rows
        column = pa.array([], column.type)
    if not pa.types.is_struct(column.type):
        lists = _address_lists(column)
        return pa.table(
            {
                name: lists if name == "parents" else pa.nulls(len(lists), _TYPES[name])
                for name in fields
            }
        )
    # Not `flatten` by field: a null struct must become null fields.
    parts = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
    return pa.table({name: parts[name] for name in fields})


def _address_lists(column: pa.Array) -> pa.Array:
    """From an array of addresses, or a text in which commas separate them."""
    kinds = pa.types
    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        return pc.split_pattern(column, ",")
    if kinds.is_list(column.type) or kinds.is_large_list(column.type):
        of = column.type.value_type
        if kinds.is_string(of) or kinds.is_large_string(of):
            return column
    raise ValueError(f"its column for lineage is {column.type}: not a struct, text or text array")


def rows_made_from(lineage: pa.Table, parents: Mapping[TopicPartition, OffsetRanges]) -> Rows:
    """Rows with a parent among these records."""
    single = _among(lineage["topic"], lineage["partition"], lineage["offset"], parents)
    lists = lineage["parents"].combine_chunks()
    if lists.null_count == len(lists):
        return single
    address = pc.extract_regex(pc.list_flatten(lists), pattern=_ADDRESS)
    field = pc.struct_field
    listed = _among(
        field(address, "topic"),
        field(address, "partition").cast(pa.int64()),
        _offsets(field(address, "offset")),
        parents,
    )
    single[np.asarray(pc.list_parent_indices(lists))[listed]] = True
    return single


def rows_within(lineage: pa.Table, parents: Mapping[TopicPartition, OffsetRanges]) -> Rows:
    """Rows with a range that contains some of these records."""
    lists = lineage["parents"].combine_chunks()
    found = np.zeros(len(lists), dtype=np.bool_)
    if lists.null_count == len(lists):
        return found
    words = pc.list_flatten(lists)
    ranges = pc.fill_null(pc.starts_with(words, RANGE_MARK), False)
    if not pc.any(ranges).as_py():
        return found
    read = pc.extract_regex(pc.filter(words, ranges), pattern=_RANGE)
    field = pc.struct_field
    listed = _among(
        field(read, "topic"),
        field(read, "partition").cast(pa.int64()),
        _offsets(field(read, "offset")),
        parents,
        _offsets(field(read, "last")),
    )
    found[np.asarray(pc.filter(pc.list_parent_indices(lists), ranges))[listed]] = True
    return found


def rows_of_job(lineage: pa.Table, job: JobOutput) -> Rows:
    """Rows that a job made."""
    wanted = pc.equal(lineage["job_name"], job.job_name)
    if job.job_version is not None:
        wanted = pc.and_(wanted, pc.equal(lineage["job_version"], job.job_version))
    if job.batches is not None:
        first, last = job.batches
        batch = lineage["batch_version"]
        wanted = pc.and_(
            wanted, pc.and_(pc.greater_equal(batch, first), pc.less_equal(batch, last))
        )
    return np.asarray(pc.fill_null(wanted, False))


def _among(
    topics: pa.Array,
    partitions: pa.Array,
    offsets: pa.Array,
    parents: Mapping[TopicPartition, OffsetRanges],
    lasts: pa.Array | None = None,
) -> Rows:
    """Which addresses are among the parents; with `lasts`, which ranges contain any of them."""
    partition, offset = _numbers(partitions), _numbers(offsets)
    last = offset if lasts is None else _numbers(lasts)
    matching = np.zeros(len(offset), dtype=np.bool_)
    of_topic: dict[str, Rows] = {}
    for (topic, number), among in parents.items():
        if topic not in of_topic:
            of_topic[topic] = np.asarray(pc.fill_null(pc.equal(topics, topic), False))
        rows = np.flatnonzero(of_topic[topic] & (partition == number))
        at = np.searchsorted(among.last, offset[rows], side="left")
        near = np.minimum(at, len(among.first) - 1)
        matching[rows] |= (at < len(among.first)) & (among.first[near] <= last[rows])
    return matching


def _offsets(digits: pa.Array) -> pa.Array:
    """Up to 19 digits; numbers beyond Kafka's range match nothing."""
    offset = digits.cast(pa.uint64())
    in_range = pc.less_equal(offset, pa.scalar(MAX_OFFSET, pa.uint64()))
    return pc.if_else(in_range, offset, None).cast(pa.int64())


def _numbers(column: pa.Array) -> Numbers:
    return np.asarray(pc.fill_null(column, _NULL), dtype=np.int64)
