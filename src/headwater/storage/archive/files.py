"""Files of an archive, and their rows as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from headwater.model import Address, Header, Record
from headwater.storage.archive.contract import PARTITIONED_BY
from headwater.storage.delta.pruning import StatisticsFile
from headwater.storage.offset_ranges import Numbers, OffsetRanges

# Year, month, day and hour.
Hour: TypeAlias = tuple[int, int, int, int]

_RECORD = ("value", "offset", "key", "headers", "timestamp", "value_bytes")


class ArchiveFile(StatisticsFile):
    """A file of an archive; the job writes one partition per file."""

    bounded = frozenset({"partition", "offset"})

    def __init__(self, table: Path, action: Mapping[str, Any]) -> None:
        super().__init__(table, action)
        self.hour: Hour = tuple(action[f"partition.{name}"] for name in PARTITIONED_BY)
        partitions, offsets = self.bounds("partition"), self.bounds("offset")
        one = partitions is not None and partitions[0] == partitions[1] and offsets is not None
        # None if another tool has merged partitions, or wrote no statistics.
        self.partition: int | None = partitions[0] if one and partitions else None
        self.first: int = offsets[0] if offsets else 0
        self.last: int = offsets[1] if offsets else 0

    @property
    def is_dense(self) -> bool:
        """Whether it holds every offset between its first and its last."""
        return self.partition is not None and self.rows == self.last - self.first + 1

    def may_hold_any(self, partition: int, offsets: OffsetRanges) -> bool:
        return self.may_hold({"partition": partition}, "offset", "offset", offsets)

    def offsets(self) -> dict[int, OffsetRanges]:
        """The offsets of all its rows, by partition; reads two columns."""
        if self.is_dense and self.partition is not None:
            return {self.partition: OffsetRanges.of((self.first, self.last))}
        try:
            table = self.read_all(["partition", "offset"])
        finally:
            self.close()
        partitions, offsets = _numbers(table["partition"]), _numbers(table["offset"])
        by_partition = {}
        for partition in np.unique(partitions).tolist():
            own = offsets[partitions == partition]
            by_partition[partition] = OffsetRanges.union([(own, own)])
        return by_partition

    def records(self, topic: str, partition: int, wanted: OffsetRanges) -> Iterator[Record]:
        """Its records at these offsets, in order of their offsets."""
        try:
            groups = list(self.groups_where({"partition": partition}, "offset", "offset", wanted))
            for batch in self._in_order(groups):
                yield from self._read_records(batch, topic, partition, wanted)
        finally:
            self.close()

    def _in_order(self, groups: Sequence[int]) -> Iterator[Sequence[int]]:
        """Row groups one by one if each begins after the one before it, else all together."""
        bounds = [self.group_bounds["offset"][group] for group in groups]
        if all(a is not None and b is not None and a[1] < b[0] for a, b in pairwise(bounds)):
            yield from ([group] for group in groups)
        else:
            yield groups

    def _read_records(
        self, groups: Sequence[int], topic: str, partition: int, wanted: OffsetRanges
    ) -> Iterator[Record]:
        columns = ("partition", *_RECORD)
        table = pa.concat_tables([self.read(group, columns) for group in groups])
        offsets = _numbers(table["offset"])
        rows = np.flatnonzero((_numbers(table["partition"]) == partition) & wanted.has(offsets))
        ordered = rows[np.argsort(offsets[rows], kind="stable")]
        return _records(table.take(ordered), topic, partition)


def _records(table: pa.Table, topic: str, partition: int) -> Iterator[Record]:
    # Bytes, not text: decoded values would be encoded again.
    columns = {
        "value": table["value"].cast(pa.binary()),
        "timestamp": milliseconds(table["timestamp"]),
        **{name: table[name] for name in ("offset", "key", "headers", "value_bytes")},
    }
    for row in zip(*(columns[name].to_pylist() for name in _RECORD), strict=True):
        value, offset, key, headers, timestamp, value_bytes = row
        yield Record(
            Address(topic, partition, offset),
            key,
            value if value_bytes is None else value_bytes,
            _headers(headers),
            timestamp,
        )


def milliseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times in milliseconds, as in Kafka."""
    return times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())


def _headers(headers: Sequence[Mapping[str, Any]] | None) -> tuple[Header, ...]:
    return tuple((header["key"], header["value"]) for header in headers or ())


def _numbers(column: Any) -> Numbers:
    return np.asarray(column.to_numpy(), dtype=np.int64)
