"""Selections, and how they are resolved against an archive."""

from __future__ import annotations

import pytest

from headwater.errors import InputError
from headwater.replay.coverage import BEFORE, LOST, NOT_YET, Extent, resolve
from headwater.replay.plan import slices
from headwater.replay.selection import Selection, parse_offsets
from headwater.storage.offset_ranges import OffsetRanges


def extent(*archived: tuple[int, int], first: int | None = None, end: int | None = None) -> Extent:
    return Extent(OffsetRanges.of(*archived), first=first, end=end)


def test_offsets_are_ranges_by_partition_with_both_ends() -> None:
    text = '{"visits": {"0": [0, 2], "1": [[5, 9], [20, -1]]}}'
    assert parse_offsets(text) == ("visits", {0: ((0, 2),), 1: ((5, 9), (20, -1))})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("visits 0 2", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "one topic"),
        ('{"a": {"0": [0, 1]}, "b": {"0": [0, 1]}}', "one topic"),
        ('{"a/b": {"0": [0, 1]}}', "not a topic name"),
        ('{"a": {}}', "no partitions"),
        ('{"a": {"0": [0, 1], "0": [5, 9]}}', "named twice"),
        ('{"a": {"00": [0, 1]}}', "not a partition"),
        ('{"a": {"-1": [0, 1]}}', "not a partition"),
        ('{"a": {"99999999999999": [0, 1]}}', "not a partition"),
        ('{"a": {"0": 5}}', "not a range"),
        ('{"a": {"0": [0, 1, 2]}}', "not a range"),
        ('{"a": {"0": [true, 2]}}', "not a range"),
        ('{"a": {"0": [0.5, 2]}}', "not a range"),
        ('{"a": {"0": ["0", 2]}}', "not a range"),
        ('{"a": {"0": [-3, 2]}}', "not an offset: -3"),
        ('{"a": {"0": [0, 9223372036854775808]}}', "not an offset"),
        ('{"a": {"0": [5, 2]}}', "the range is empty"),
        ('{"a": {"0": "0 OR 1=1"}}', "not a range"),
    ],
)
def test_another_format_is_refused_with_an_example(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        parse_offsets(text)
    assert '{"visits":{"0":[0,2]' in (refused.value.hint or "")


def test_an_empty_time_window_is_refused() -> None:
    with pytest.raises(InputError, match="--since is not before --until"):
        Selection("visits", since_ms=5, until_ms=5)


def resolved(
    ranges: dict[int, tuple[tuple[int, int], ...]] | None,
    extents: dict[int, Extent],
    lineage_inputs: dict[int, OffsetRanges] | None = None,
) -> tuple[dict[int, list[tuple[int, int]]], list[str]]:
    result = resolve(Selection("visits", ranges), extents, lineage_inputs)
    offsets = {partition: each.ranges() for partition, each in result.offsets.items()}
    return offsets, [str(gap) for gap in result.gaps]


def test_minus_two_and_minus_one_are_the_ends_of_topic_and_archive() -> None:
    both = {0: extent((3, 8), first=5, end=9)}
    assert resolved({0: ((-2, -1),)}, both) == ({0: [(3, 8)]}, [])
    # Without the topic, the ends of the archive.
    assert resolved({0: ((-2, -1),)}, {0: extent((3, 8))}) == ({0: [(3, 8)]}, [])
    # An empty topic has no ends.
    emptied = {0: extent((3, 8), first=9, end=9)}
    assert resolved({0: ((-2, 4),)}, emptied) == ({0: [(3, 4)]}, [])


@pytest.mark.parametrize(
    ("requested", "gap"),
    [
        ((0, 9), f"visits/0@9: {NOT_YET}"),
        ((0, -1), f"visits/0@9 to 11: {NOT_YET}"),
        ((50, 60), f"visits/0@50 to 60: {NOT_YET}"),
        ((1, 6), f"visits/0@4 to 5: {LOST}"),
    ],
)
def test_offsets_that_are_not_archived_are_reported_with_the_reason(
    requested: tuple[int, int], gap: str
) -> None:
    extents = {0: extent((0, 3), (6, 8), first=0, end=12)}
    _, gaps = resolved({0: (requested,)}, extents)
    assert gap in gaps


def test_records_from_before_the_archive_began_are_missing_too() -> None:
    _, gaps = resolved({0: ((-2, 6),)}, {0: extent((5, 9), first=2, end=10)})
    assert gaps == [f"visits/0@2 to 4: {BEFORE}"]


def test_a_lost_file_at_the_end_is_a_gap_and_not_a_shorter_archive() -> None:
    extents = {0: Extent(OffsetRanges.of((0, 5)), lost=OffsetRanges.of((6, 9)), first=0, end=10)}
    _, gaps = resolved({0: ((0, -1),)}, extents)
    assert gaps == [f"visits/0@6 to 9: {LOST}"]
    assert extents[0].lag == 0


def test_without_offsets_all_archived_records_are_selected() -> None:
    extents = {0: extent((0, 5), first=0, end=9), 1: extent(first=0, end=4)}
    assert resolved(None, extents) == ({0: [(0, 5)]}, [])
    assert (extents[0].lag, extents[1].lag) == (3, 4)


def test_all_conditions_of_a_selection_must_hold() -> None:
    extents = {0: extent((0, 99)), 1: extent((0, 99))}
    lineage = {0: OffsetRanges.of((5, 15), (40, 40)), 1: OffsetRanges.of((1, 1))}
    offsets, gaps = resolved({0: ((10, 50),)}, extents, lineage)
    assert (offsets, gaps) == ({0: [(10, 15), (40, 40)]}, [])
    assert resolved(None, extents, lineage)[0] == {0: [(5, 15), (40, 40)], 1: [(1, 1)]}


def test_inputs_by_lineage_that_are_not_archived_are_gaps() -> None:
    _, gaps = resolved(None, {0: extent((0, 9))}, {0: OffsetRanges.of((8, 12))})
    assert gaps == [f"visits/0@10 to 12: {NOT_YET}"]


def test_an_unknown_partition_is_refused() -> None:
    with pytest.raises(InputError, match="partition 7 of 'visits'"):
        resolved({7: ((0, 1),)}, {0: extent((0, 9))})


def test_slices_are_in_order_complete_and_of_similar_size() -> None:
    offsets = OffsetRanges.of((0, 4), (10, 10), (20, 23))
    parts = slices(offsets, 3)
    assert [len(part) for part in parts] == [3, 3, 4]
    assert [one for part in parts for one in part.offsets()] == list(offsets.offsets())
    assert [len(part) for part in slices(OffsetRanges.of((7, 7)), 3)] == [0, 0, 1]
