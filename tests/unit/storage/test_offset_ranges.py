"""Sets of offsets as ranges, compared with Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.storage.offset_ranges import OffsetRanges, clip

GREATEST = 2**63 - 1

ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda r: (r[0], r[0] + r[1])), max_size=12
)


def offsets_of(pairs: list[tuple[int, int]]) -> set[int]:
    return {offset for first, last in pairs for offset in range(first, last + 1)}


def is_normal(ranges: OffsetRanges) -> bool:
    """Sorted, and with a gap between any two ranges."""
    gaps = ranges.first[1:] - ranges.last[:-1]
    return bool((ranges.first <= ranges.last).all() and (gaps > 1).all())


@settings(deadline=None)
@given(ranges)
def test_a_set_has_the_offsets_of_its_ranges_in_as_few_ranges_as_possible(
    one: list[tuple[int, int]],
) -> None:
    made = OffsetRanges.of(*one)
    assert list(made.offsets()) == sorted(offsets_of(one))
    assert len(made) == len(offsets_of(one))
    assert bool(made) == bool(one)
    assert is_normal(made)


@settings(deadline=None)
@given(ranges, ranges)
def test_union_and_difference_are_like_those_of_sets(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    left, right = OffsetRanges.of(*one), OffsetRanges.of(*other)
    assert set((left | right).offsets()) == offsets_of(one) | offsets_of(other)
    assert set((left - right).offsets()) == offsets_of(one) - offsets_of(other)
    assert is_normal(left | right)
    assert is_normal(left - right)


@settings(deadline=None)
@given(ranges, ranges)
def test_clipping_keeps_the_parts_within_the_set(
    one: list[tuple[int, int]], within: list[tuple[int, int]]
) -> None:
    pairs = np.array(one, dtype=np.int64).reshape(-1, 2)
    which, first, last = clip(pairs[:, 0], pairs[:, 1], OffsetRanges.of(*within))
    clipped: dict[int, set[int]] = {}
    for number, begin, end in zip(which.tolist(), first.tolist(), last.tolist(), strict=True):
        part = set(range(begin, end + 1))
        assert part
        assert not clipped.setdefault(number, set()) & part
        clipped[number] |= part
    expected = {n: offsets_of([r]) & offsets_of(within) for n, r in enumerate(one)}
    assert clipped == {number: kept for number, kept in expected.items() if kept}


@settings(deadline=None)
@given(ranges, st.integers(0, 70), st.integers(0, 9))
def test_a_range_meets_a_set_with_one_of_its_offsets(
    one: list[tuple[int, int]], first: int, length: int
) -> None:
    offsets = offsets_of([(first, first + length)])
    assert OffsetRanges.of(*one).meets(first, first + length) == bool(offsets_of(one) & offsets)


def test_the_greatest_offsets_do_not_overflow() -> None:
    top = OffsetRanges.of((GREATEST - 1, GREATEST))
    assert len(top | OffsetRanges.of((GREATEST, GREATEST))) == 2
    assert list((top - OffsetRanges.of((GREATEST, GREATEST))).offsets()) == [GREATEST - 1]
    assert not top - top
