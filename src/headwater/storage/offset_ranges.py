"""Offsets as sorted ranges that neither touch nor overlap: sets of millions in a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]


class OffsetRanges:
    """A set of offsets of one partition; `first` and `last` of each range, both included."""

    __slots__ = ("first", "last")

    def __init__(self, first: Numbers, last: Numbers) -> None:
        self.first = first
        self.last = last

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> Self:
        """From ranges in any order, which may overlap."""
        pairs = np.array(ranges, dtype=np.int64).reshape(-1, 2)
        return cls.union([(pairs[:, 0], pairs[:, 1])])

    @classmethod
    def union(cls, parts: Iterable[tuple[Numbers, Numbers]]) -> Self:
        """All offsets of ranges in any order, which may overlap."""
        firsts, lasts = zip(*parts, strict=True)
        first, last = np.concatenate(firsts), np.concatenate(lasts)
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        if not len(first):
            return cls(first, last)
        # A range ends where the next one begins after all before it, with a gap in between.
        # Not `last + 1`, which overflows for the greatest offset.
        ends = np.append(first[1:] - 1 > last[:-1], True)
        starts = np.insert(ends[:-1], 0, True)
        return cls(first[starts], last[ends])

    def __len__(self) -> int:
        """Number of offsets, not of ranges."""
        return int((self.last - self.first + 1).sum())

    def __bool__(self) -> bool:
        return bool(len(self.first))

    def __or__(self, other: OffsetRanges) -> OffsetRanges:
        return OffsetRanges.union([(self.first, self.last), (other.first, other.last)])

    def __and__(self, other: OffsetRanges) -> OffsetRanges:
        """The offsets that are in both sets."""
        _, first, last = clip(self.first, self.last, other)
        return OffsetRanges(first, last)

    def __sub__(self, other: OffsetRanges) -> OffsetRanges:
        """The offsets that are not in the other set."""
        # Each range of the other set cuts a hole: parts lie between the holes.
        row, hole_first, hole_last = clip(self.first, self.last, other)
        untouched = np.ones(len(self.first), dtype=bool)
        untouched[row] = False
        new_row = np.append(True, row[1:] != row[:-1]) if len(row) else np.zeros(0, dtype=bool)
        end_row = np.append(row[1:] != row[:-1], True) if len(row) else np.zeros(0, dtype=bool)
        before = np.where(new_row, self.first[row], np.roll(hole_last, 1) + 1)
        parts = [
            (self.first[untouched], self.last[untouched]),
            _nonempty(before, hole_first - 1),
            # The part after the last hole; no `+ 1` if the hole reaches the end.
            _after(hole_last[end_row], self.last[row[end_row]]),
        ]
        return OffsetRanges.union(parts)

    def meets(self, first: int, last: int) -> bool:
        """Whether any offset of a range is in the set."""
        at = int(self.last.searchsorted(first))
        return at < len(self.first) and bool(self.first[at] <= last)

    def has(self, offsets: Numbers) -> NDArray[np.bool_]:
        """Whether each of these offsets is in the set."""
        if not self:
            return np.zeros(len(offsets), dtype=bool)
        at = np.minimum(np.searchsorted(self.last, offsets), len(self.last) - 1)
        return (self.first[at] <= offsets) & (offsets <= self.last[at])

    def ranges(self) -> list[tuple[int, int]]:
        """First and last of each range."""
        return list(zip(self.first.tolist(), self.last.tolist(), strict=True))

    def offsets(self) -> Iterator[int]:
        """Each offset, in order."""
        for first, last in zip(self.first.tolist(), self.last.tolist(), strict=True):
            yield from range(first, last + 1)


def clip(first: Numbers, last: Numbers, within: OffsetRanges) -> tuple[Numbers, Numbers, Numbers]:
    """The parts of ranges that lie within a set: (which range, first, last) of each.

    The ranges may overlap and come in any order; one that meets several ranges of the set is split
    into as many parts.
    """
    begin = np.searchsorted(within.last, first, side="left")
    end = np.searchsorted(within.first, last, side="right")
    number = np.maximum(end - begin, 0)
    which = np.repeat(np.arange(len(first)), number)
    # 0, 1, 2 … for each range.
    index = np.arange(len(which)) - np.repeat(np.cumsum(number) - number, number)
    part = begin[which] + index
    start = np.maximum(first[which], within.first[part])
    return which, start, np.minimum(last[which], within.last[part])


def _nonempty(first: Numbers, last: Numbers) -> tuple[Numbers, Numbers]:
    kept = first <= last
    return first[kept], last[kept]


def _after(hole_last: Numbers, last: Numbers) -> tuple[Numbers, Numbers]:
    kept = hole_last < last
    return hole_last[kept] + 1, last[kept]
