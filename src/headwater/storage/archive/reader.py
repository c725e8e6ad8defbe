"""An archive, read without Spark: of the table only the files and row groups that may hold an
offset are opened."""

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

from headwater.storage.archive.coverage import NOT_COVERED, Coverage, coverage_of
from headwater.storage.archive.files import ArchiveFile, Hour
from headwater.storage.archive.holes import read_holes
from headwater.storage.delta.open_table import OpenTable, TableKind
from headwater.storage.offset_ranges import OffsetRanges

__all__ = ["Archive", "Coverage", "ReadPlan"]

_KIND = TableKind(
    "archive",
    ArchiveError,
    FORMAT_VERSION,
    FORMAT_PROPERTY,
    tuple(COLUMNS),
    ArchiveFile,
    if_absent="`headwater run data_synchronization_job` makes it; --available-now ends when all "
    "is archived",
    if_other="set HEADWATER_ARCHIVE__FOLDER to the folder of the archives, or name the table with "
    "--table",
    if_damaged="restore the file from a copy; `headwater archive status` shows which records are "
    "missing",
)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What reading some ranges takes."""

    # Relative to the table, in the order in which they are read.
    files: tuple[str, ...]
    # How many records there are in the ranges.
    records: int
    # By partition: offsets that were asked for and are neither archived nor holes.
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
        # What had to be read to know it, by file.
        self._offsets: dict[str, Mapping[int, OffsetRanges]] = {}

    @classmethod
    def open(cls, topic: str, settings: Settings) -> Archive:
        """The archive of a topic.

        Raises:
            ArchiveError: there is none, it is damaged, or another topic's.
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
        """Kafka's id of the topic; one that is deleted and made anew has another."""
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
        """See what was written since."""
        if self._opened.refresh():
            names = {file.name for file in self.files}
            self._offsets = {name: of for name, of in self._offsets.items() if name in names}

    def coverage(self) -> Mapping[int, Coverage]:
        """What is there, by partition.

        Raises:
            ArchiveError: a file can't be read; one that is gone is told as lost.
        """
        with self._opened.reading():
            return coverage_of(self.files, read_holes(self.path), self._offsets_of)

    def plan(self, ranges: Mapping[int, OffsetRanges]) -> ReadPlan:
        """What reading these offsets, by partition, would open and miss."""
        files = self._holding(ranges)
        with self._opened.reading():
            coverage = coverage_of(files, read_holes(self.path), self._offsets_of)
        missing: dict[int, OffsetRanges] = {}
        records = 0
        for partition, wanted in ranges.items():
            there = coverage.get(partition, NOT_COVERED)
            records += len(wanted & there.archived)
            if left := wanted - there.covered:
                missing[partition] = left
        return ReadPlan(tuple(file.name for file in files), records, missing)

    def read(self, ranges: Mapping[int, OffsetRanges]) -> Iterator[Record]:
        """The records at these offsets: partition by partition, in order of their offsets.

        Offsets without a record are passed over: `plan` tells which ones are missing.

        Raises:
            ArchiveError: a file is gone or can't be read.
        """
        for partition, wanted in sorted(ranges.items()):
            with self._opened.reading():
                for record, _ in self._read(partition, wanted):
                    yield record

    def rows(self) -> Iterator[tuple[Record, Hour]]:
        """All records by partition and offset, with the hour they are laid under."""
        for partition, there in self.coverage().items():
            with self._opened.reading():
                yield from self._read(partition, there.archived)

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, as `trace` asks for it."""
        if address.topic != self.topic:
            return Absence.NO_PARTITION
        at = OffsetRanges.of((address.offset, address.offset))
        return next(self.read({address.partition: at}), Absence.EXPIRED)

    def files_of(self, ranges: Mapping[int, OffsetRanges]) -> Sequence[Path]:
        """The files that may hold some of these offsets, as far as statistics tell."""
        return [file.path for file in self._holding(ranges)]

    def protocol(self) -> tuple[int, frozenset[str]]:
        """Version and features that a writer of the table has to know."""
        protocol = self._opened.delta.protocol()
        features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
        return int(protocol.min_writer_version), frozenset(features)

    def vacuum(self) -> int:
        """Remove files that were replaced long enough ago, or that no commit has ever named.

        Returns:
            How many. The table's `delta.deletedFileRetentionDuration` tells how long.
        """
        with self._opened.reading():
            return len(self._opened.delta.vacuum(dry_run=False, full=True))

    def _holding(self, ranges: Mapping[int, OffsetRanges]) -> list[ArchiveFile]:
        found = [
            file
            for file in self.files
            if any(file.may_hold_any(partition, wanted) for partition, wanted in ranges.items())
        ]
        return sorted(found, key=lambda file: (file.partition or 0, file.first, file.name))

    def _read(self, partition: int, wanted: OffsetRanges) -> Iterator[tuple[Record, Hour]]:
        """Files of several hours have records between each other's: they are merged. A file is
        opened when its first record may be the next one, and no sooner."""
        waiting = self._holding({partition: wanted})[::-1]
        begun: list[_Begun] = []
        while waiting or begun:
            while waiting and (not begun or waiting[-1].first <= begun[0][0]):
                file = waiting.pop()
                _advance(begun, file, file.records(self.topic, partition, wanted))
            if begun:
                *_, record, file, rest = heapq.heappop(begun)
                yield record, file.hour
                _advance(begun, file, rest)

    def _offsets_of(self, file: ArchiveFile) -> Mapping[int, OffsetRanges]:
        if file.name not in self._offsets:
            self._offsets[file.name] = file.offsets()
        return self._offsets[file.name]


# Offset and file's name, by which they are ordered; the record, its file, and what comes next.
_Begun: TypeAlias = tuple[int, str, Record, ArchiveFile, Iterator[Record]]


def _advance(begun: list[_Begun], file: ArchiveFile, rest: Iterator[Record]) -> None:
    record = next(rest, None)
    if record is not None:
        heapq.heappush(begun, (record.address.offset, file.name, record, file, rest))
