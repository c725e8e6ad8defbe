"""The lineage index, read without Spark.

Only files and row groups that may hold an address are opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import LineageIndexError
from headwater.settings import Settings
from headwater.storage.delta import missing_part
from headwater.storage.index.contract import (
    COLUMNS,
    EDGE,
    FORMAT_PROPERTY,
    FORMAT_VERSION,
    MADE,
    SCAN,
    WITHIN,
    index_path,
)

try:
    import deltalake  # noqa: F401 - the modules below need it
    import numpy  # noqa: F401
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    raise missing_part("the index", error) from None

from headwater.model import TopicPartition
from headwater.storage.delta.open_table import OpenTable, TableKind
from headwater.storage.index import within
from headwater.storage.index.files import PARENTS, RECORDS, EdgeBlock, EdgeRows, TableFile
from headwater.storage.index.within import WithinBlock
from headwater.storage.offset_ranges import OffsetRanges

# Row groups that are kept decoded, 0.4 MB each. By its statistics, a group at the border of two
# partitions may hold any offset of both, so it is read often.
_MAX_DECODED = 128
_JOB = "`headwater run lineage_index_job`"
_RECREATE = f"remove the folder and the checkpoint of lineage_index_job, and run {_JOB}"
_KIND = TableKind(
    "index",
    LineageIndexError,
    FORMAT_VERSION,
    FORMAT_PROPERTY,
    tuple(COLUMNS),
    TableFile,
    if_absent=f"{_JOB} creates it; with --available-now it ends when all records are indexed",
    if_other=f"set HEADWATER_INDEX__TABLE to the index, or {_RECREATE}",
    if_damaged=_RECREATE,
)


@dataclass(frozen=True, slots=True)
class ProducedRange:
    """Records `first` to `last` of a partition, and which job made them."""

    partition: TopicPartition
    first: int
    last: int
    job_name: str
    job_version: str | None
    batch_version: int | None
    run_id: str | None


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """The offsets of a partition that were read, and counts of what is not in the index.

    `unlisted` counts parents that headers do not list; a record that may have further parents
    counts as one.
    """

    offsets: OffsetRanges
    unlisted: int
    unreadable: int
    refused: int

    @property
    def end(self) -> int:
        """The first offset that was not read."""
        return int(self.offsets.last[-1]) + 1


class LineageIndex:
    """The lineage index, kept open."""

    def __init__(self, path: Path) -> None:
        """Open the table.

        Raises:
            LineageIndexError: there is none, or it is damaged or has another format.
        """
        self._opened = OpenTable(path, _KIND)
        self._coverage: dict[TopicPartition, IndexCoverage] | None = None
        self._decoded: dict[tuple[str, int], EdgeRows] = {}

    @classmethod
    def open(cls, settings: Settings) -> LineageIndex:
        """The index of these settings."""
        return cls(index_path(settings))

    def refresh(self) -> None:
        """Load the newest version."""
        if self._opened.refresh():
            self._coverage = None

    def edges_from(self, partition: TopicPartition, parents: OffsetRanges) -> Iterator[EdgeBlock]:
        """The edges from these records; an edge of a range may include further parents."""
        for file in self._of_kind(EDGE):
            with self._opened.reading():
                groups = list(file.groups_with(PARENTS, partition, parents))
            for group in groups:
                yield from self._edge_rows(file, group).blocks(partition, parents)

    def within_from(
        self, partition: TopicPartition, parents: OffsetRanges
    ) -> Iterator[WithinBlock]:
        """Records with ranges that contain some of these records: they may be made from them."""
        for file in self._of_kind(WITHIN):
            with self._opened.reading():
                groups = list(file.groups_with(PARENTS, partition, parents))
            for group in groups:
                with self._opened.reading():
                    rows = file.read(group, within.COLUMNS)
                yield from within.blocks_from(rows, partition, parents)

    def ranges_of(
        self, children: Mapping[TopicPartition, OffsetRanges]
    ) -> dict[TopicPartition, OffsetRanges]:
        """The ranges that contain parents of these records; `parents_of` are others."""
        ranges: dict[TopicPartition, OffsetRanges] = {}
        for file in self._of_kind(WITHIN):
            for child, offsets in children.items():
                with self._opened.reading():
                    groups = list(file.groups_with(RECORDS, child, offsets))
                    tables = [file.read(group, within.COLUMNS) for group in groups]
                for rows in tables:
                    for parent, of in within.ranges_of(rows, child, offsets):
                        ranges[parent] = ranges[parent] | of if parent in ranges else of
        return ranges

    def parents_of(
        self, children: Mapping[TopicPartition, OffsetRanges]
    ) -> dict[TopicPartition, OffsetRanges]:
        """The parents of these records.

        The index is sorted by parents, not by children: this reads all edges to these topics,
        which takes some seconds for ten million.
        """
        parents: dict[TopicPartition, OffsetRanges] = {}
        for file in self._of_kind(EDGE):
            for child, offsets in children.items():
                with self._opened.reading():
                    groups = list(file.groups_to(child, int(offsets.last[-1])))
                for group in groups:
                    for parent, of in self._edge_rows(file, group).parents(child, offsets):
                        parents[parent] = parents[parent] | of if parent in parents else of
        return parents

    def made_by(
        self, job_name: str, version: str | None, batches: tuple[int, int] | None
    ) -> Iterator[ProducedRange]:
        """The output of a job; of one version, of some batches (both ends included)."""
        wanted = pc.field("job_name") == job_name
        if version is not None:
            wanted &= pc.field("job_version") == version
        if batches is not None:
            wanted &= pc.field("batch_version") >= batches[0]
            wanted &= pc.field("batch_version") <= batches[1]
        for file in self._of_kind(MADE):
            with self._opened.reading():
                produced = _produced(pq.read_table(file.path, filters=wanted))
            yield from produced

    def producer_of(self, partition: TopicPartition, offset: int) -> ProducedRange | None:
        """The job that made a record; None if no job did, or it is not indexed."""
        at = OffsetRanges.of((offset, offset))
        with self._opened.reading():
            for file in self._of_kind(MADE):
                for group in file.groups_with(RECORDS, partition, at):
                    for made in _produced(file.read(group, _MADE)):
                        if made.partition == partition and made.first <= offset <= made.last:
                            return made
        return None

    def coverage(self) -> Mapping[TopicPartition, IndexCoverage]:
        """The indexed offsets, by topic and partition."""
        if self._coverage is None:
            with self._opened.reading():
                tables = [file.read_all(_SCAN) for file in self._of_kind(SCAN)]
            self._coverage = _coverage(tables)
        return self._coverage

    def edge_rows(self) -> int:
        """Number of rows with edges; each is one edge or a range of edges."""
        return sum(file.rows for file in self._of_kind(EDGE))

    def _edge_rows(self, file: TableFile, group: int) -> EdgeRows:
        key = (file.name, group)
        rows = self._decoded.pop(key, None)
        if rows is None:
            with self._opened.reading():
                rows = file.edges(group)
            if len(self._decoded) == _MAX_DECODED:
                del self._decoded[next(iter(self._decoded))]
        # Moved to the end: the least recently used is dropped first.
        self._decoded[key] = rows
        return rows

    def _of_kind(self, kind: str) -> list[TableFile]:
        return [file for file in self._opened.files if file.kind == kind]


_MADE = (*RECORDS, "job_name", "job_version", "batch_version", "run_id")
_SCAN = (*RECORDS, "unlisted", "unreadable", "refused")


def _produced(table: pa.Table) -> list[ProducedRange]:
    return [
        ProducedRange((row["topic"], row["partition"]), *(row[name] for name in _MADE[2:]))
        for row in table.select(list(_MADE)).to_pylist()
    ]


def _coverage(tables: Sequence[pa.Table]) -> dict[TopicPartition, IndexCoverage]:
    rows: dict[TopicPartition, list[dict[str, Any]]] = {}
    for table in tables:
        for row in table.to_pylist():
            rows.setdefault((row["topic"], row["partition"]), []).append(row)
    return {
        partition: IndexCoverage(
            OffsetRanges.of(*((row["first"], row["last"]) for row in scans)),
            *(sum(row[name] or 0 for row in scans) for name in _SCAN[4:]),
        )
        for partition, scans in sorted(rows.items())
    }
