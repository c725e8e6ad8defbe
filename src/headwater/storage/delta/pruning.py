"""Files of a Delta table: which row groups may hold an offset, as far as statistics tell.

The log tells the least and the greatest value of each column of a file, its footer those of each
row group. What they rule out is not read.
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

# Least and greatest value; None where they are not known.
Bounds: TypeAlias = tuple[Any, Any] | None


class StatisticsFile:
    """A file of a table; it is opened once, when it is needed, and its footer read."""

    # Columns whose bounds are asked for.
    bounded: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, table: Path, action: Mapping[str, Any]) -> None:
        """A file as `DeltaTable.get_add_actions(flatten=True)` tells of it."""
        self.name: str = action["path"]
        self.rows: int = action["num_records"]
        self.size: int = action["size_bytes"]
        self.path = table / unquote(self.name)
        self._action = action

    def bounds(self, column: str) -> Bounds:
        """Of the whole file, from the log."""
        low, high = self._action.get(f"min.{column}"), self._action.get(f"max.{column}")
        return None if low is None or high is None else (low, high)

    def groups_where(
        self, equal: Mapping[str, Any], first: str, last: str, offsets: OffsetRanges
    ) -> Iterator[int]:
        """The row groups that may hold some of these offsets.

        Args:
            equal: values that rows have to have.
            first: the column of a row's first offset.
            last: that of its last one.
        """
        if self.may_hold(equal, first, last, offsets):
            for group in range(self.row_groups):
                if _may_match(partial(self._group_bounds, group), equal, first, last, offsets):
                    yield group

    def may_hold(
        self, equal: Mapping[str, Any], first: str, last: str, offsets: OffsetRanges
    ) -> bool:
        """The same for the whole file, which is not opened."""
        return _may_match(self.bounds, equal, first, last, offsets)

    @property
    def row_groups(self) -> int:
        return int(self._open.metadata.num_row_groups)

    @cached_property
    def group_bounds(self) -> Mapping[str, Sequence[Bounds]]:
        """Of each row group, by column."""
        footer = self._open.metadata
        places = {footer.schema.column(at).name: at for at in range(footer.num_columns)}
        found: dict[str, list[Bounds]] = {name: [] for name in self.bounded}
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for name in self.bounded:
                stats = row_group.column(places[name]).statistics
                known = stats is not None and stats.has_min_max
                found[name].append((stats.min, stats.max) if known else None)
        return found

    def read(self, group: int, columns: Sequence[str]) -> pa.Table:
        """Columns of a row group."""
        return self._open.read_row_group(group, columns=list(columns), use_threads=False)

    def read_all(self, columns: Sequence[str]) -> pa.Table:
        return self._open.read(columns=list(columns), use_threads=False)

    def close(self) -> None:
        """Let go of the open file; what is asked next opens it again."""
        kept = self.__dict__.pop("_open", None)
        if kept is not None:
            kept.close()

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
        found = bounds(column)
        if found is not None and not found[0] <= value <= found[1]:
            return False
    low, high = bounds(first), bounds(last)
    return low is None or high is None or offsets.meets(low[0], high[1])
