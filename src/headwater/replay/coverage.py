"""Resolves a selection against an archive: ranges of offsets, and the gaps among them.

Pure: the archive's coverage and the topic's end offsets are arguments. Times, keys and
predicates are applied later, when the rows are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import InputError
from headwater.model import Address
from headwater.replay.selection import EARLIEST, LATEST, Range, Selection
from headwater.storage.offset_ranges import OffsetRanges

# A plan is stored as JSON.
MAX_RANGES = 100_000
NOT_YET = "not archived yet"
LOST = "a gap in the archive"
BEFORE = "from before the archive began"

_NO_OFFSETS = OffsetRanges.of()


@dataclass(frozen=True)
class Extent:
    """The offsets of a partition that the archive and the topic have.

    `archived` are the offsets that the archive has covered, with records or without; `lost` are
    those of missing files. `first` and `end` are the topic's, None if it was deleted or recreated.
    """

    archived: OffsetRanges
    lost: OffsetRanges = _NO_OFFSETS
    first: int | None = None
    end: int | None = None

    @property
    def first_archived(self) -> int | None:
        return int(self._known.first[0]) if self._known else None

    @property
    def last_archived(self) -> int | None:
        return int(self._known.last[-1]) if self._known else None

    @property
    def lag(self) -> int:
        """Number of offsets of the topic that are not archived yet."""
        if self.end is None:
            return 0
        last = self.last_archived
        reached = (self.first or 0) if last is None else last + 1
        return max(self.end - reached, 0)

    @property
    def _known(self) -> OffsetRanges:
        return self.archived | self.lost


@dataclass(frozen=True, slots=True)
class SelectionGap:
    """Selected offsets, `first` to `last`, that are not in the archive."""

    topic: str
    partition: int
    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        address = Address(self.topic, self.partition, self.first)
        more = f" to {self.last}" if self.last > self.first else ""
        return f"{address}{more}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "first": self.first,
            "last": self.last,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Resolved:
    """The selected offsets that the archive has, by partition, and those that it lacks."""

    offsets: Mapping[int, OffsetRanges] = field(default_factory=dict)
    gaps: tuple[SelectionGap, ...] = ()


def resolve(
    selection: Selection,
    extents: Mapping[int, Extent],
    lineage_inputs: Mapping[int, OffsetRanges] | None = None,
) -> Resolved:
    """The offsets that a selection means, and which of them the archive lacks.

    Args:
        extents: of every partition of the archive or the topic.
        lineage_inputs: the inputs that were selected by lineage; None without such a condition.

    Raises:
        InputError: an unknown partition, or too many ranges.
    """
    unknown = sorted(set(selection.offsets or {}) - set(extents))
    if unknown:
        known = f"it has {', '.join(map(str, sorted(extents)))}" if extents else "it has none"
        raise InputError(
            f"neither topic nor archive has partition {unknown[0]} of {selection.topic!r}",
            hint=known,
        )
    offsets: dict[int, OffsetRanges] = {}
    gaps: list[SelectionGap] = []
    for partition, extent in sorted(extents.items()):
        wanted = _wanted(selection, partition, extent, lineage_inputs)
        if not wanted:
            continue
        gaps += _gaps(selection.topic, partition, wanted - extent.archived, extent)
        available = wanted & extent.archived
        if available:
            offsets[partition] = available
    if sum(len(ranges.first) for ranges in offsets.values()) > MAX_RANGES:
        raise InputError(
            f"the selection has more than {MAX_RANGES} ranges of offsets",
            hint="select fewer output records or batches, or ranges with --offsets",
        )
    return Resolved(offsets, tuple(gaps))


def _wanted(
    selection: Selection,
    partition: int,
    extent: Extent,
    lineage_inputs: Mapping[int, OffsetRanges] | None,
) -> OffsetRanges:
    if lineage_inputs is not None and partition not in lineage_inputs:
        return _NO_OFFSETS
    if selection.offsets is None:
        return _all_archived(extent) if lineage_inputs is None else lineage_inputs[partition]
    if partition not in selection.offsets:
        return _NO_OFFSETS
    ranges = [_absolute(pair, extent) for pair in selection.offsets[partition]]
    wanted = OffsetRanges.of(*(pair for pair in ranges if pair[0] <= pair[1]))
    return wanted if lineage_inputs is None else wanted & lineage_inputs[partition]


def _all_archived(extent: Extent) -> OffsetRanges:
    """From the first archived offset to the last: a live topic is always slightly ahead."""
    first, last = extent.first_archived, extent.last_archived
    return _NO_OFFSETS if first is None or last is None else OffsetRanges.of((first, last))


def _absolute(pair: Range, extent: Extent) -> Range:
    in_topic = extent.end or 0
    firsts = [extent.first if in_topic else None, extent.first_archived]
    lasts = [in_topic - 1 if in_topic else None, extent.last_archived]
    ends = {
        EARLIEST: min((offset for offset in firsts if offset is not None), default=0),
        LATEST: max((offset for offset in lasts if offset is not None), default=-1),
    }
    return ends.get(pair[0], pair[0]), ends.get(pair[1], pair[1])


def _gaps(topic: str, partition: int, missing: OffsetRanges, extent: Extent) -> list[SelectionGap]:
    first, last = extent.first_archived, extent.last_archived

    def reason(begin: int) -> str:
        if last is None or begin > last:
            return NOT_YET
        return BEFORE if first is not None and begin < first else LOST

    return [SelectionGap(topic, partition, a, b, reason(a)) for a, b in missing.ranges()]
