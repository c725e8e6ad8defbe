"""The offsets that an archive holds of a partition, and the missing ones.

Computed from file statistics: most files hold every offset between their first and their last.
Files of several hours may share a range of offsets; if their records and the holes of the topic
fill the range, nothing is missing. Offsets are read only if they do not, or if another tool has
merged partitions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.storage.archive.contract import OWN_FOLDER
from headwater.storage.archive.files import ArchiveFile
from headwater.storage.offset_ranges import OffsetRanges

# Reads the offsets of a file, or returns cached ones.
OffsetsOf = Callable[[ArchiveFile], Mapping[int, OffsetRanges]]

_HOLES_FILE = "holes.jsonl"
NOTHING = OffsetRanges.of()


@dataclass(frozen=True, slots=True)
class ArchiveCoverage:
    """The archived offsets of a partition.

    `archived` are the offsets of records; `holes` those at which the topic had no record when it
    was read (transactions, compaction): nothing is missing there. `lost` are records whose
    file is gone.
    """

    archived: OffsetRanges
    holes: OffsetRanges = NOTHING
    lost: OffsetRanges = NOTHING

    @property
    def covered(self) -> OffsetRanges:
        """Records and holes."""
        return self.archived | self.holes

    @property
    def first(self) -> int:
        """The first offset that was read."""
        return int((self.covered | self.lost).first[0])

    @property
    def last(self) -> int:
        """The last offset that was read, a record's or a hole's."""
        return int((self.covered | self.lost).last[-1])

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Missing ranges between `first` and `last`, both ends included."""
        return (OffsetRanges.of((self.first, self.last)) - self.covered).ranges()


NOT_COVERED = ArchiveCoverage(NOTHING)


def coverage_of(
    files: Iterable[ArchiveFile], holes: Mapping[int, OffsetRanges], offsets_of: OffsetsOf
) -> dict[int, ArchiveCoverage]:
    """The coverage of each partition; checks that the files exist."""
    by_partition: dict[int, list[ArchiveFile]] = {}
    archived: dict[int, list[OffsetRanges]] = {partition: [] for partition in holes}
    lost: dict[int, list[OffsetRanges]] = {}
    for file in files:
        if not file.path.exists():
            # For files that another tool has merged, only the table's bounds are known.
            partition = file.partition if file.partition is not None else _least_partition(file)
            lost.setdefault(partition, []).append(OffsetRanges.of((file.first, file.last)))
        elif file.partition is None:
            for partition, offsets in offsets_of(file).items():
                archived.setdefault(partition, []).append(offsets)
        else:
            by_partition.setdefault(file.partition, []).append(file)
    for partition, own in by_partition.items():
        known = holes.get(partition, NOTHING)
        parts = [_offsets(group, known, offsets_of) for group in _overlapping(own)]
        archived.setdefault(partition, []).extend(parts)
    partitions = sorted({*archived, *lost})
    return {
        partition: _coverage(
            _union(archived.get(partition, [])),
            holes.get(partition, NOTHING),
            _union(lost.get(partition, [])),
        )
        for partition in partitions
    }


def _coverage(archived: OffsetRanges, holes: OffsetRanges, lost: OffsetRanges) -> ArchiveCoverage:
    return ArchiveCoverage(archived, holes - archived, lost - archived - holes)


def _overlapping(files: Sequence[ArchiveFile]) -> Iterator[list[ArchiveFile]]:
    """Groups of files whose ranges of offsets overlap."""
    group: list[ArchiveFile] = []
    end = -1
    for file in sorted(files, key=lambda file: (file.first, file.last)):
        if group and file.first > end:
            yield group
            group = []
        group.append(file)
        end = max(end, file.last)
    if group:
        yield group


def _offsets(
    files: Sequence[ArchiveFile], holes: OffsetRanges, offsets_of: OffsetsOf
) -> OffsetRanges:
    span = OffsetRanges.of((files[0].first, max(file.last for file in files)))
    full = span - holes
    if sum(file.rows for file in files) == len(full):
        return full
    return _union([own for file in files for own in offsets_of(file).values()])


def _union(parts: Sequence[OffsetRanges]) -> OffsetRanges:
    return OffsetRanges.union([(part.first, part.last) for part in parts]) if parts else NOTHING


def _least_partition(file: ArchiveFile) -> int:
    bounds = file.bounds("partition")
    return 0 if bounds is None else int(bounds[0])


def record_holes(table: Path, partition: int, holes: OffsetRanges) -> None:
    """Record offsets at which the topic had no record when it was archived; synced to disk.

    Transaction markers take offsets, and compaction removes records. The table alone can't
    distinguish these offsets from missing records. Recording them twice changes nothing.
    """
    folder = table / OWN_FOLDER
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps({"partition": partition, "first": first, "last": last})
        for first, last in holes.ranges()
    ]
    with (folder / _HOLES_FILE).open("ab") as file:
        # Starts with a newline: a crash may have cut off the last line.
        file.write("".join(f"\n{line}" for line in lines).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_holes(table: Path) -> Mapping[int, OffsetRanges]:
    """The recorded holes by partition; skips lines that were cut off."""
    try:
        lines = (table / OWN_FOLDER / _HOLES_FILE).read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    holes: dict[int, list[tuple[int, int]]] = {}
    for partition, first, last in _readable(lines):
        holes.setdefault(partition, []).append((first, last))
    return {partition: OffsetRanges.of(*ranges) for partition, ranges in holes.items()}


def _readable(lines: Iterable[bytes]) -> Iterable[tuple[int, int, int]]:
    for line in lines:
        try:
            entry = json.loads(line)
            yield int(entry["partition"]), int(entry["first"]), int(entry["last"])
        except (ValueError, KeyError, TypeError):
            continue
