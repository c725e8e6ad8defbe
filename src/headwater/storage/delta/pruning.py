"""Files of a Delta table: the row groups that may hold an offset, by their statistics.

The Delta log has the least and greatest value of each column of a file, the footer those of each
row group. Row groups that these exclude are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.storage.offset_ranges import OffsetRanges

# Least and greatest value; None if unknown.
Bounds: TypeAlias = tuple[Any, Any] | None


class StatisticsFile:
    """A file of a table; it is opened, and its footer read, on first use."""

    # Columns whose bounds are needed.
    bounded: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, table: Path, action: Mapping[str, Any]) -> None:
        """From an action of `DeltaTable.get_add_actions(flatten=True)`."""
        self.name: str = action["path"]
        self.rows: int = action["num_records"]
        self.size: int = action["size_bytes"]
        self.path = table / unquote(self.name)
        self._action = action

    def bounds(self, column: str) -> Bounds:
        """The bounds of a column in the file, from the log."""
        low, high = self._action.get(f"min.{column}"), self._action.get(f"max.{column}")
        return None if low is None or high is None else (low, high)

    def groups_where(
        self, equal: Mapping[str, Any], first: str, last: str, offsets: OffsetRanges
    ) -> Iterator[int]:
        """The row groups that may hold some of these offsets.

        Args:
            equal: required values by column.
            first: the column of a row's first offset.
            last: the column of its last offset.
        """
        if self.may_hold(equal, first, last, offsets):
            for group in range(self.row_groups):
                if _may_match(partial(self._group_bounds, group), equal, first, last, offsets):
                    yield group

    def may_hold(
        self, equal: Mapping[str, Any], first: str, last: str, offsets: OffsetRanges
    ) -> bool:
        """Whether the file may hold some of these offsets; does not open it."""
        return _may_match(self.bounds, equal, first, last, offsets)

    @property
    def row_groups(self) -> int:
        return int(self._open.metadata.num_row_groups)

    @cached_property
    def group_bounds(self) -> Mapping[str, Sequence[Bounds]]:
        """The bounds of each row group, by column."""
        footer = self._open.metadata
        positions = {footer.schema.column(at).name: at for at in range(footer.num_columns)}
        bounds: dict[str, list[Bounds]] = {name: [] for name in self.bounded}
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for name in self.bounded:
                stats = row_group.column(positions[name]).statistics
                known = stats is not None and stats.has_min_max
                bounds[name].append((stats.min, stats.max) if known else None)
        return bounds

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Columns of a row group."""
        return self._open.read_row_group(group, columns=list(columns), use_threads=False)

    def read_all(self, columns: Sequence[str]) -> pa.Table:
        return self._open.read(columns=list(columns), use_threads=False)

    def close(self) -> None:
        """Close the file; the next access opens it again."""
        file = self.__dict__.pop("_open", None)
        if file is not None:
            file.close()

    @cached_property
    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.path)

    def _group_bounds(self, group: int, column: str) -> Bounds:
        return self.group_bounds[column][group]


def _may_match(
    bounds: Callable[[str], Bounds],
    equal: Mapping[str, Any],
    first: str,
    last: str,
    offsets: OffsetRanges,
) -> bool:
    for column, value in equal.items():
        known = bounds(column)
        if known is not None and not known[0] <= value <= known[1]:
            return False
    low, high = bounds(first), bounds(last)
    return low is None or high is None or offsets.meets(low[0], high[1])
