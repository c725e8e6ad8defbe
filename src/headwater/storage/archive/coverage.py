"""What an archive holds of a partition: which offsets, and which are missing.

Told from the statistics of the files, of which most hold every offset between their first and
their last. Files of several hours lie side by side in the same range of offsets; where their
records, with the holes of the topic, fill it, nothing is missing. Only where they do not, or
another tool has joined partitions, are the offsets themselves read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.storage.archive.files import ArchiveFile
from headwater.storage.offset_ranges import OffsetRanges

# Reads the offsets of a file, or remembers them.
OffsetsOf = Callable[[ArchiveFile], Mapping[int, OffsetRanges]]

NOTHING = OffsetRanges.of()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the archive holds of a partition.

    `archived` are the offsets of records; `holes` those at which the topic had no record when it
    was read (transactions, compaction): nothing is missing there. `lost` are records whose
    file is gone.
    """

    archived: OffsetRanges
    holes: OffsetRanges = NOTHING
    lost: OffsetRanges = NOTHING

    @property
    def covered(self) -> OffsetRanges:
        """All that was read and is there: records and holes."""
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
        """Ranges from `first` to `last`, both ends included, that are not there."""
        return (OffsetRanges.of((self.first, self.last)) - self.covered).ranges()


NOT_COVERED = Coverage(NOTHING)


def coverage_of(
    files: Iterable[ArchiveFile], holes: Mapping[int, OffsetRanges], offsets_of: OffsetsOf
) -> dict[int, Coverage]:
    """The coverage of each partition; files that are gone from the disk are looked for."""
    by_partition: dict[int, list[ArchiveFile]] = {}
    archived: dict[int, list[OffsetRanges]] = {partition: [] for partition in holes}
    lost: dict[int, list[OffsetRanges]] = {}
    for file in files:
        if not file.path.exists():
            # Of what another tool has joined nothing is known but the table's own bounds.
            partition = file.partition if file.partition is not None else _least_partition(file)
            lost.setdefault(partition, []).append(OffsetRanges.of((file.first, file.last)))
        elif file.partition is None:
            for partition, found in offsets_of(file).items():
                archived.setdefault(partition, []).append(found)
        else:
            by_partition.setdefault(file.partition, []).append(file)
    for partition, own in by_partition.items():
        known = holes.get(partition, NOTHING)
        parts = [_offsets(side_by_side, known, offsets_of) for side_by_side in _heaps(own)]
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


def _coverage(archived: OffsetRanges, holes: OffsetRanges, lost: OffsetRanges) -> Coverage:
    return Coverage(archived, holes - archived, lost - archived - holes)


def _heaps(files: Sequence[ArchiveFile]) -> Iterator[list[ArchiveFile]]:
    """Files whose ranges of offsets overlap, together."""
    heap: list[ArchiveFile] = []
    end = -1
    for file in sorted(files, key=lambda file: (file.first, file.last)):
        if heap and file.first > end:
            yield heap
            heap = []
        heap.append(file)
        end = max(end, file.last)
    if heap:
        yield heap


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
