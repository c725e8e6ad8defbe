"""An archive, read without Spark: of the table only the files and row groups that may hold an
offset are opened.

Kept open, a look-up takes milliseconds; opening the table takes some tens of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.archive.contract import archive_path
from headwater.deltafiles.intervals import Intervals
from headwater.kafka import Absence
from headwater.model import Address, Record
from headwater.settings import Settings


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the archive holds of a partition.

    `archived` are the offsets of records; `holes` those at which the topic had no record when it
    was read (transactions, compaction): nothing is missing there. `lost` are records whose
    file is gone.
    """

    archived: Intervals
    holes: Intervals
    lost: Intervals

    @property
    def first(self) -> int:
        """The first offset that was archived."""
        raise NotImplementedError

    @property
    def last(self) -> int:
        """The last offset that was read, a record's or a hole's."""
        raise NotImplementedError

    @property
    def covered(self) -> Intervals:
        """All that was read: records and holes."""
        raise NotImplementedError

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Ranges between `first` and `last`, both ends included, that are not there."""
        raise NotImplementedError


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

    topic: str
    path: Path

    def __init__(self, path: Path) -> None:
        """Open the table.

        Raises:
            ArchiveError: there is none, or it is damaged or another table.
        """
        raise NotImplementedError

    @classmethod
    def open(cls, topic: str, settings: Settings) -> Archive:
        """The archive of a topic.

        Raises:
            ArchiveError: there is none, it is damaged, or another topic's.
        """
        return cls(archive_path(topic, settings))

    @property
    def version(self) -> int:
        """The Delta version that is read."""
        raise NotImplementedError

    def refresh(self) -> None:
        """See what was written since."""
        raise NotImplementedError

    def coverage(self) -> Mapping[int, Coverage]:
        """What is there, by partition."""
        raise NotImplementedError

    def plan(self, ranges: Mapping[int, Intervals]) -> ReadPlan:
        """What reading these offsets, by partition, would open and miss."""
        raise NotImplementedError

    def read(self, ranges: Mapping[int, Intervals]) -> Iterator[Record]:
        """The records at these offsets, by partition, in order of their offsets.

        Offsets without a record are passed over: `plan` tells which ones are missing.
        """
        raise NotImplementedError

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, as `trace` asks for it."""
        raise NotImplementedError

    def files_of(self, ranges: Mapping[int, Intervals]) -> Sequence[Path]:
        """The files that may hold some of these offsets, as far as statistics tell."""
        raise NotImplementedError
