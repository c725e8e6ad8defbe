"""Sets of offsets: what they share, parts of them, and their form in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from headwater.storage.offset_ranges import OffsetRanges

# Both ends included.
Range: TypeAlias = tuple[int, int]


def slices(offsets: OffsetRanges, number: int) -> list[OffsetRanges]:
    """So many parts of about the same length, in order; some may be empty."""
    total = len(offsets)
    cuts = [total * place // number for place in range(number + 1)]
    return [_part(offsets, begin, end) for begin, end in pairwise(cuts)]


def _part(offsets: OffsetRanges, begin: int, end: int) -> OffsetRanges:
    """From the place `begin` of the set up to, not with, the place `end`."""
    found: list[Range] = []
    passed = 0
    for first, last in offsets.ranges():
        length = last - first + 1
        low, high = max(begin - passed, 0), min(end - passed, length)
        if low < high:
            found.append((first + low, first + high - 1))
        passed += length
    return OffsetRanges.of(*found)


def ranges_as_json(offsets: Mapping[int, OffsetRanges]) -> dict[str, list[list[int]]]:
    return {str(p): [list(pair) for pair in of.ranges()] for p, of in sorted(offsets.items())}


def ranges_from_json(content: Mapping[str, Sequence[Sequence[int]]]) -> dict[int, OffsetRanges]:
    return {int(p): OffsetRanges.of(*((a, b) for a, b in of)) for p, of in content.items()}


NOTHING = OffsetRanges.of()
