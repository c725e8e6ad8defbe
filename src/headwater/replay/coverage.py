"""What a selection means on this archive: offsets, as ranges, and those that are missing.

Pure: the archive's coverage and the topic's ends are handed in. A time, a key and a predicate
are left to whoever reads the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import InputError
from headwater.model import Address
from headwater.replay.offsets import NOTHING, Range
from headwater.replay.selection import EARLIEST, LATEST, Selection
from headwater.storage.offset_ranges import OffsetRanges

# A plan is kept as JSON.
MAX_RANGES = 100_000
NOT_YET = "not archived yet"
LOST = "a gap in the archive"
BEFORE = "from before the archive began"


@dataclass(frozen=True)
class Extent:
    """What there is of a partition: what the archive holds, and what the topic still does.

    `archived` are the offsets that were read and are there, records or not; `lost` those whose
    file is gone. `first` and `end` are the topic's; None if it is gone, or Kafka was not asked.
    """

    archived: OffsetRanges
    lost: OffsetRanges = NOTHING
    first: int | None = None
    end: int | None = None

    @property
    def first_archived(self) -> int | None:
        return int(self._known.first[0]) if self._known else None

    @property
    def last_archived(self) -> int | None:
        return int(self._known.last[-1]) if self._known else None

    @property
    def behind(self) -> int:
        """Offsets of the topic that the archive has not come to yet."""
        if self.end is None:
            return 0
        last = self.last_archived
        reached = (self.first or 0) if last is None else last + 1
        return max(self.end - reached, 0)

    @property
    def _known(self) -> OffsetRanges:
        return self.archived | self.lost


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets `first` to `last` that were asked for and are not in the archive."""

    topic: str
    partition: int
    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        what = Address(self.topic, self.partition, self.first)
        more = f" to {self.last}" if self.last > self.first else ""
        return f"{what}{more}: {self.reason}"

    def as_json(self) -> dict[str, Any]:
        return {
            "partition": self.partition,
            "first": self.first,
            "last": self.last,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Resolved:
    """Offsets by partition that the archive has, and those that it has not."""

    offsets: Mapping[int, OffsetRanges] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()


def resolve(
    selection: Selection,
    extents: Mapping[int, Extent],
    chosen: Mapping[int, OffsetRanges] | None = None,
) -> Resolved:
    """Which offsets are meant, and which of them the archive lacks.

    Args:
        extents: of every partition that the archive or the topic has.
        chosen: the inputs that lineage named; None if it was not asked.

    Raises:
        InputError: a partition that is not there, or nothing is left.
    """
    unknown = sorted(set(selection.offsets or {}) - set(extents))
    if unknown:
        known = f"it has {', '.join(map(str, sorted(extents)))}" if extents else "it has none"
        raise InputError(
            f"neither topic nor archive has partition {unknown[0]} of {selection.topic!r}",
            hint=known,
        )
    offsets: dict[int, OffsetRanges] = {}
    gaps: list[Gap] = []
    for partition, extent in sorted(extents.items()):
        wanted = _wanted(selection, partition, extent, chosen)
        if not wanted:
            continue
        missing = wanted - extent.archived
        gaps += _gaps(selection.topic, partition, missing, extent)
        there = wanted & extent.archived
        if there:
            offsets[partition] = there
    if sum(len(found.first) for found in offsets.values()) > MAX_RANGES:
        raise InputError(
            f"the selection falls into more than {MAX_RANGES} ranges of offsets",
            hint="choose fewer output records or batches, or ranges with --offsets",
        )
    return Resolved(offsets, tuple(gaps))


def _wanted(
    selection: Selection,
    partition: int,
    extent: Extent,
    chosen: Mapping[int, OffsetRanges] | None,
) -> OffsetRanges:
    if chosen is not None and partition not in chosen:
        return NOTHING
    if selection.offsets is None:
        everything = chosen[partition] if chosen is not None else _all_archived(extent)
        return everything
    if partition not in selection.offsets:
        return NOTHING
    ranges = [_absolute(one, extent) for one in selection.offsets[partition]]
    asked = OffsetRanges.of(*(one for one in ranges if one[0] <= one[1]))
    return asked if chosen is None else asked & chosen[partition]


def _all_archived(extent: Extent) -> OffsetRanges:
    """From the first that is archived to the last: a stream that runs is always a bit ahead."""
    first, last = extent.first_archived, extent.last_archived
    return NOTHING if first is None or last is None else OffsetRanges.of((first, last))


def _absolute(given: Range, extent: Extent) -> Range:
    in_topic = extent.end or 0
    firsts = [extent.first if in_topic else None, extent.first_archived]
    lasts = [in_topic - 1 if in_topic else None, extent.last_archived]
    ends = {
        EARLIEST: min((one for one in firsts if one is not None), default=0),
        LATEST: max((one for one in lasts if one is not None), default=-1),
    }
    return ends.get(given[0], given[0]), ends.get(given[1], given[1])


def _gaps(topic: str, partition: int, missing: OffsetRanges, extent: Extent) -> list[Gap]:
    first, last = extent.first_archived, extent.last_archived

    def reason(begin: int) -> str:
        if last is None or begin > last:
            return NOT_YET
        return BEFORE if first is not None and begin < first else LOST

    return [Gap(topic, partition, a, b, reason(a)) for a, b in missing.ranges()]
