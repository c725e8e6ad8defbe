"""Parquet files of a table: the lineage column of the row groups that may hold given parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.model import TopicPartition
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.contract import COLUMN

PARENT_FIELDS = ("topic", "partition", "offset", "parents")
MAKER_FIELDS = ("job_name", "job_version", "batch_version")

# Leaves of the column in a Parquet file that have statistics.
_LEAVES = {f"{COLUMN}.{name}": name for name in ("topic", "partition", "offset")}
_LIST = f"{COLUMN}.parents."


class LineageFile:
    """A file, which never changes: its footer is read once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lineage(
        self, fields: Sequence[str], parents: Mapping[TopicPartition, OffsetRanges] | None
    ) -> Iterator[pa.Table]:
        """Fields of the column; of the row groups that may hold these parents, or of all."""
        for group, bounds in enumerate(self._bounds):
            if parents is None or bounds is None or bounds.may_hold(parents):
                names = [f"{COLUMN}.{name}" for name in fields]
                rows = self._open.read_row_group(group, columns=names, use_threads=False)
                yield flat(rows, fields)

    @cached_property
    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path)

    @cached_property
    def _bounds(self) -> list[_Bounds | None]:
        footer = self._open.metadata
        return [_bounds(footer.row_group(group)) for group in range(footer.num_row_groups)]


class _Bounds:
    """Least and greatest topic, partition and offset of a row group's single parents."""

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


def _bounds(row_group: Any) -> _Bounds | None:
    """None where statistics can't rule anything out: rows with several parents among them."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    for at in range(row_group.num_columns):
        column = row_group.column(at)
        name = _LEAVES.get(column.path_in_schema)
        stats = column.statistics
        if name is not None and stats is not None and stats.has_min_max:
            least[name], greatest[name] = stats.min, stats.max
        elif column.path_in_schema.startswith(_LIST) and not _only_nulls(column):
            return None
    return _Bounds(least, greatest) if len(least) == len(_LEAVES) else None


def _only_nulls(column: Any) -> bool:
    stats = column.statistics
    return stats is not None and stats.has_null_count and stats.null_count == column.num_values


def flat(rows: pa.Table, fields: Sequence[str]) -> pa.Table:
    """The fields of the struct as columns."""
    column = rows[COLUMN].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # Of no rows at all.
        column = pa.array([], column.type)
    # Not `flatten` by field: a null struct has to give null fields.
    parts = dict(zip([field.name for field in column.type], column.flatten(), strict=True))
    return pa.table({name: parts[name] for name in fields})
