"""An archive, read without Spark: of the table only the files and row groups that may hold an
offset are opened. With `edges.reader` the only module that imports deltalake.

Kept open, a look-up takes milliseconds; opening the table takes some tens of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from headwater.archive.contract import (
    COLUMNS,
    FORM,
    FORM_PROPERTY,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
    archive_path,
)
from headwater.errors import ArchiveError, MissingPartError
from headwater.kafka import Absence
from headwater.model import Address, Record
from headwater.settings import Settings

try:
    import numpy  # noqa: F401 - the modules below need it
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError
except ImportError as error:
    raise MissingPartError(
        f"reading an archive needs a package that is not installed: {error.name}",
        hint='pip install "headwater[index]"',
        package=error.name,
    ) from None

from headwater.archive.coverage import NOT_COVERED, Coverage, coverage_of
from headwater.archive.files import ArchiveFile, Hour
from headwater.archive.holes import read_holes
from headwater.deltafiles.intervals import Intervals

__all__ = ["Archive", "Coverage", "ReadPlan"]

_BROKEN = (pa.ArrowException, DeltaError, OSError, ValueError, KeyError)
_JOB = "`headwater run data_synchronization_job`"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What reading some ranges takes."""

    # Relative to the table, in the order in which they are read.
    files: tuple[str, ...]
    # How many records there are in the ranges.
    records: int
    # By partition: offsets that were asked for and are neither archived nor holes.
    missing: Mapping[int, Intervals]


class Archive:
    """The archive of a topic, kept open."""

    def __init__(self, path: Path) -> None:
        """Open the table.

        Raises:
            ArchiveError: there is none, or it is damaged or another table.
        """
        self.path = path
        try:
            self._table = DeltaTable(str(path))
        except TableNotFoundError:
            raise ArchiveError(
                f"there is no archive: {path}",
                hint=f"{_JOB} makes it; --available-now ends when all is archived",
                path=str(path),
            ) from None
        except _BROKEN as error:
            raise self._damaged(error) from error
        self._check_form()
        self._properties: Mapping[str, str] = self._table.metadata().configuration
        self._known: dict[str, ArchiveFile] = {}
        # What had to be read to know it, by file.
        self._offsets: dict[str, Mapping[int, Intervals]] = {}
        self._take_files()

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
        return int(self._table.version())

    @property
    def files(self) -> Sequence[ArchiveFile]:
        """All files of that version."""
        return self._files

    def refresh(self) -> None:
        """See what was written since."""
        version = self.version
        with self._reading():
            self._table.update_incremental()
        if self.version != version:
            self._take_files()

    def coverage(self) -> Mapping[int, Coverage]:
        """What is there, by partition.

        Raises:
            ArchiveError: a file can't be read; one that is gone is told as lost.
        """
        with self._reading():
            return coverage_of(self._files, read_holes(self.path), self._offsets_of)

    def plan(self, ranges: Mapping[int, Intervals]) -> ReadPlan:
        """What reading these offsets, by partition, would open and miss."""
        files = self._holding(ranges)
        with self._reading():
            coverage = coverage_of(files, read_holes(self.path), self._offsets_of)
        missing: dict[int, Intervals] = {}
        records = 0
        for partition, wanted in ranges.items():
            there = coverage.get(partition, NOT_COVERED)
            records += len(wanted & there.archived)
            if left := wanted - there.covered:
                missing[partition] = left
        return ReadPlan(tuple(file.name for file in files), records, missing)

    def read(self, ranges: Mapping[int, Intervals]) -> Iterator[Record]:
        """The records at these offsets: partition by partition, in order of their offsets.

        Offsets without a record are passed over: `plan` tells which ones are missing.

        Raises:
            ArchiveError: a file is gone or can't be read.
        """
        for partition, wanted in sorted(ranges.items()):
            with self._reading():
                for record, _ in self._read(partition, wanted):
                    yield record

    def rows(self) -> Iterator[tuple[Record, Hour]]:
        """All records by partition and offset, with the hour they are laid under."""
        for partition, there in self.coverage().items():
            with self._reading():
                yield from self._read(partition, there.archived)

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, as `trace` asks for it."""
        if address.topic != self.topic:
            return Absence.NO_PARTITION
        at = Intervals.of((address.offset, address.offset))
        return next(self.read({address.partition: at}), Absence.EXPIRED)

    def files_of(self, ranges: Mapping[int, Intervals]) -> Sequence[Path]:
        """The files that may hold some of these offsets, as far as statistics tell."""
        return [file.path for file in self._holding(ranges)]

    def protocol(self) -> tuple[int, frozenset[str]]:
        """Version and features that a writer of the table has to know."""
        protocol = self._table.protocol()
        features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
        return int(protocol.min_writer_version), frozenset(features)

    def vacuum(self) -> int:
        """Remove files that were replaced long enough ago, or that no commit has ever named.

        Returns:
            How many. The table's `delta.deletedFileRetentionDuration` tells how long.
        """
        with self._reading():
            return len(self._table.vacuum(dry_run=False, full=True))

    def _holding(self, ranges: Mapping[int, Intervals]) -> list[ArchiveFile]:
        found = [
            file
            for file in self._files
            if any(file.may_hold_any(partition, wanted) for partition, wanted in ranges.items())
        ]
        return sorted(found, key=lambda file: (file.partition or 0, file.first, file.name))

    def _read(self, partition: int, wanted: Intervals) -> Iterator[tuple[Record, Hour]]:
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

    def _offsets_of(self, file: ArchiveFile) -> Mapping[int, Intervals]:
        if file.name not in self._offsets:
            self._offsets[file.name] = file.offsets()
        return self._offsets[file.name]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise self._damaged(error) from error

    def _take_files(self) -> None:
        actions = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        files = [self._known.get(a["path"]) or ArchiveFile(self.path, a) for a in actions]
        self._files = files
        self._known = {file.name: file for file in files}
        self._offsets = {name: kept for name, kept in self._offsets.items() if name in self._known}

    def _check_form(self) -> None:
        form = self._table.metadata().configuration.get(FORM_PROPERTY)
        names = [field.name for field in self._table.schema().fields]
        missing = [name for name in COLUMNS if name not in names]
        if form != FORM or missing:
            what = f"its form is {form}"
            if missing:
                what = f"columns are missing: {', '.join(missing)}"
            raise ArchiveError(
                f"{self.path} is a Delta table, but no archive of form {FORM}: {what}",
                hint="set HEADWATER_ARCHIVE__FOLDER to the folder of the archives, or name the "
                "table with --table",
                path=str(self.path),
            )

    def _damaged(self, error: Exception) -> ArchiveError:
        text = str(error).strip().splitlines() or [type(error).__name__]
        return ArchiveError(
            f"the archive {self.path} can't be read: {text[0]}",
            hint="restore the file from a copy; `headwater archive status` shows which records "
            "are missing",
            path=str(self.path),
        )


# Offset and file's name, by which they are ordered; the record, its file, and what comes next.
_Begun: TypeAlias = tuple[int, str, Record, ArchiveFile, Iterator[Record]]


def _advance(begun: list[_Begun], file: ArchiveFile, rest: Iterator[Record]) -> None:
    record = next(rest, None)
    if record is not None:
        heapq.heappush(begun, (record.address.offset, file.name, record, file, rest))
