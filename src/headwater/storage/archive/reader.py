"""An archive, read without Spark.

Only files and row groups that may hold an offset are opened.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from headwater.errors import ArchiveError
from headwater.kafka import Absence
from headwater.model import Address, Record
from headwater.settings import Settings
from headwater.storage.archive.contract import (
    COLUMNS,
    FORMAT_PROPERTY,
    FORMAT_VERSION,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
    archive_path,
)
from headwater.storage.delta import missing_part

try:
    import deltalake  # noqa: F401 - the modules below need all three
    import numpy  # noqa: F401
    import pyarrow  # noqa: F401
except ImportError as error:
    raise missing_part("an archive", error) from None

from headwater.storage.archive.coverage import NOT_COVERED, ArchiveCoverage, coverage_of, read_holes
from headwater.storage.archive.files import ArchiveFile, Hour
from headwater.storage.delta.open_table import (
    AddedFile,
    CommitRefused,
    OpenTable,
    RemovedFile,
    TableKind,
)
from headwater.storage.offset_ranges import OffsetRanges

__all__ = ["Archive", "ArchiveCoverage", "ReadPlan"]

_KIND = TableKind(
    "archive",
    ArchiveError,
    FORMAT_VERSION,
    FORMAT_PROPERTY,
    tuple(COLUMNS),
    ArchiveFile,
    if_absent="`headwater run data_synchronization_job` creates it; with --available-now it ends "
    "when all records are archived",
    if_other="set HEADWATER_ARCHIVE__FOLDER to the folder of the archives, or name the table with "
    "--table",
    if_damaged="restore the file from a copy; `headwater archive status` shows which records are "
    "missing",
)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The files to read for some ranges, and what is missing."""

    # Relative to the table, in the order in which they are read.
    files: tuple[str, ...]
    # Number of records in the ranges.
    records: int
    # By partition: requested offsets that are neither archived nor holes.
    missing: Mapping[int, OffsetRanges]


class Archive:
    """The archive of a topic, kept open."""

    def __init__(self, path: Path) -> None:
        """Open the table.

        Raises:
            ArchiveError: there is none, or it is damaged or another table.
        """
        self.path = path
        self._opened = OpenTable(path, _KIND)
        self._properties = self._opened.properties
        # Offsets that had to be read, by file.
        self._offsets: dict[str, Mapping[int, OffsetRanges]] = {}

    @classmethod
    def open(cls, topic: str, settings: Settings) -> Archive:
        """The archive of a topic.

        Raises:
            ArchiveError: there is none, it is damaged, or of another topic.
        """
        archive = cls(archive_path(topic, settings))
        if archive.topic != topic:
            raise ArchiveError(
                f"{archive.path} is the archive of {archive.topic!r}, not of {topic!r}",
                hint="set HEADWATER_ARCHIVE__FOLDER to the folder of the archives",
                path=str(archive.path),
            )
        return archive

    @property
    def topic(self) -> str:
        return self._properties[TOPIC_PROPERTY]

    @property
    def topic_id(self) -> str:
        """Kafka's id of the topic; a recreated topic has another id."""
        return self._properties[TOPIC_ID_PROPERTY]

    @property
    def version(self) -> int:
        """The Delta version that is read."""
        return self._opened.version

    @property
    def files(self) -> Sequence[ArchiveFile]:
        """All files of that version."""
        return self._opened.files

    def refresh(self) -> None:
        """Load the newest version."""
        if self._opened.refresh():
            names = {file.name for file in self.files}
            self._offsets = {name: of for name, of in self._offsets.items() if name in names}

    def coverage(self) -> Mapping[int, ArchiveCoverage]:
        """The archived offsets by partition.

        Raises:
            ArchiveError: a file can't be read; records of a missing file are `lost`.
        """
        with self._opened.reading():
            return coverage_of(self.files, read_holes(self.path), self._offsets_of)

    def plan(self, ranges: Mapping[int, OffsetRanges]) -> ReadPlan:
        """The files to read for these offsets, by partition, and what is missing."""
        files = self._holding(ranges)
        with self._opened.reading():
            coverage = coverage_of(files, read_holes(self.path), self._offsets_of)
        missing: dict[int, OffsetRanges] = {}
        records = 0
        for partition, wanted in ranges.items():
            known = coverage.get(partition, NOT_COVERED)
            records += len(wanted & known.archived)
            if absent := wanted - known.covered:
                missing[partition] = absent
        return ReadPlan(tuple(file.name for file in files), records, missing)

    def read(self, ranges: Mapping[int, OffsetRanges]) -> Iterator[Record]:
        """The records at these offsets: partition by partition, in order of their offsets.

        Offsets without a record are skipped: `plan` has the missing ones.

        Raises:
            ArchiveError: a file is gone or can't be read.
        """
        for partition, wanted in sorted(ranges.items()):
            with self._opened.reading():
                for record, _ in self._read(partition, wanted):
                    yield record

    def rows(self) -> Iterator[tuple[Record, Hour]]:
        """All records by partition and offset, with the hour they are stored in."""
        for partition, coverage in self.coverage().items():
            with self._opened.reading():
                yield from self._read(partition, coverage.archived)

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, for `trace`."""
        if address.topic != self.topic:
            return Absence.NO_PARTITION
        at = OffsetRanges.of((address.offset, address.offset))
        return next(self.read({address.partition: at}), Absence.EXPIRED)

    def files_of(self, ranges: Mapping[int, OffsetRanges]) -> Sequence[Path]:
        """The files that may hold some of these offsets, by their statistics."""
        return [file.path for file in self._holding(ranges)]

    def replace_files(
        self, removed: Sequence[RemovedFile], added: Sequence[AddedFile], now_ms: int
    ) -> None:
        """Replace files in one commit, and load the new version.

        Raises:
            ArchiveError: the table requires a feature of Delta that `deltalake` does not support.
        """
        try:
            self._opened.replace_files(removed, added, now_ms)
        except CommitRefused as error:
            raise ArchiveError(
                f"{self.path} can't be compacted: {error}",
                hint="if another tool has upgraded the table, use OPTIMIZE of that tool",
                path=str(self.path),
            ) from error
        self.refresh()

    def vacuum(self) -> int:
        """Remove replaced files after the table's `delta.deletedFileRetentionDuration`, and files
        that no commit has ever named.

        Returns:
            The number of removed files.
        """
        with self._opened.reading():
            return len(self._opened.delta.vacuum(dry_run=False, full=True))

    def _holding(self, ranges: Mapping[int, OffsetRanges]) -> list[ArchiveFile]:
        files = [
            file
            for file in self.files
            if any(file.may_hold_any(partition, wanted) for partition, wanted in ranges.items())
        ]
        return sorted(files, key=lambda file: (file.partition or 0, file.first, file.name))

    def _read(self, partition: int, wanted: OffsetRanges) -> Iterator[tuple[Record, Hour]]:
        """Merge the records of files with overlapping offsets. A file is opened only when its first
        record may be the next one."""
        unopened = self._holding({partition: wanted})[::-1]
        opened: list[_OpenedFile] = []
        while unopened or opened:
            while unopened and (not opened or unopened[-1].first <= opened[0][0]):
                file = unopened.pop()
                _advance(opened, file, file.records(self.topic, partition, wanted))
            if opened:
                *_, record, file, rest = heapq.heappop(opened)
                yield record, file.hour
                _advance(opened, file, rest)

    def _offsets_of(self, file: ArchiveFile) -> Mapping[int, OffsetRanges]:
        if file.name not in self._offsets:
            self._offsets[file.name] = file.offsets()
        return self._offsets[file.name]


# Sorted by offset and file name; the next record, its file, and the records after it.
_OpenedFile: TypeAlias = tuple[int, str, Record, ArchiveFile, Iterator[Record]]


def _advance(opened: list[_OpenedFile], file: ArchiveFile, rest: Iterator[Record]) -> None:
    record = next(rest, None)
    if record is not None:
        heapq.heappush(opened, (record.address.offset, file.name, record, file, rest))
