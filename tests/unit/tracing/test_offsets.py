"""Sets of offsets and the hash table, compared with Python's sets and dicts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.tracing.offsets import HashTable, OffsetSet

# Around the ends of blocks and bytes, and anywhere.
offsets = st.integers(0, 40) | st.integers(65_520, 65_560) | st.integers(0, 2**63 - 1)


def made(numbers: set[int]) -> OffsetSet:
    result = OffsetSet()
    for number in numbers:
        assert result.add(number)
        assert not result.add(number)
    return result


@given(st.sets(offsets), st.sets(offsets))
def test_sets_of_offsets_behave_like_sets(left: set[int], right: set[int]) -> None:
    a, b = made(left), made(right)
    for offset in left | right:
        assert (offset in a) == (offset in left)
    for actual, expected in ((a & b, left & right), (a | b, left | right), (a - b, left - right)):
        assert len(actual) == len(expected)
        assert all(offset in actual for offset in expected)


@given(st.sets(offsets))
def test_ranges_contain_each_offset_once_and_do_not_touch(numbers: set[int]) -> None:
    ranges = list(made(numbers).ranges())
    assert len(ranges) == made(numbers).range_count()
    assert {o for first, last in ranges for o in range(first, last + 1)} == numbers
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))


def test_a_range_over_many_blocks_is_one() -> None:
    assert list(made(set(range(60_000, 200_000))).ranges()) == [(60_000, 199_999)]
    assert made(set(range(60_000, 200_000))).range_count() == 1


# Small keys collide; 0 and keys of more than 64 bits are special.
keys = st.integers(0, 5) | st.integers(0, 3).map(lambda n: n * 1024) | st.integers()


@given(st.lists(st.tuples(keys, st.integers(0, 2**63 - 1))))
def test_the_table_keeps_the_greatest_value_of_each_key(pairs: list[tuple[int, int]]) -> None:
    table, expected = HashTable(), dict[int, int]()
    for key, value in pairs:
        known = key % 2**64 or 1
        assert table.raise_to(key, value) == expected.get(known)
        expected[known] = max(value, expected.get(known, 0))


def test_the_table_keeps_all_keys_when_it_grows() -> None:
    table = HashTable()
    for number in range(20_000):
        assert table.raise_to(hash(str(number)), number) is None
    for number in range(20_000):
        assert table.raise_to(hash(str(number)), 0) == number


@given(st.sets(offsets), offsets, offsets)
def test_between_returns_the_offsets_between_two_offsets(
    numbers: set[int], first: int, end: int
) -> None:
    part = made(numbers).between(first, end)
    actual = {o for low, high in part.ranges() for o in range(low, high + 1)}
    assert actual == {number for number in numbers if first <= number < end}
