"""What was asked for, and what that means on an archive."""

from __future__ import annotations

import pytest

from headwater.errors import InputError
from headwater.replay.coverage import BEFORE, LOST, NOT_YET, Extent, resolve
from headwater.replay.offsets import slices
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
def test_anything_else_is_refused_and_the_form_is_shown(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        parse_offsets(text)
    assert '{"visits":{"0":[0,2]' in (refused.value.hint or "")


def test_a_window_that_is_empty_is_refused() -> None:
    with pytest.raises(InputError, match="--since is not before --until"):
        Selection("visits", since_ms=5, until_ms=5)


def resolved(
    ranges: dict[int, tuple[tuple[int, int], ...]] | None,
    extents: dict[int, Extent],
    chosen: dict[int, OffsetRanges] | None = None,
) -> tuple[dict[int, list[tuple[int, int]]], list[str]]:
    found = resolve(Selection("visits", ranges), extents, chosen)
    offsets = {partition: of.ranges() for partition, of in found.offsets.items()}
    return offsets, [str(gap) for gap in found.gaps]


def test_minus_two_and_minus_one_are_the_ends_of_topic_and_archive_together() -> None:
    both = {0: extent((3, 8), first=5, end=9)}
    assert resolved({0: ((-2, -1),)}, both) == ({0: [(3, 8)]}, [])
    # Without the topic, those of the archive.
    assert resolved({0: ((-2, -1),)}, {0: extent((3, 8))}) == ({0: [(3, 8)]}, [])
    # An empty topic has no ends of its own.
    emptied = {0: extent((3, 8), first=9, end=9)}
    assert resolved({0: ((-2, 4),)}, emptied) == ({0: [(3, 4)]}, [])


@pytest.mark.parametrize(
    ("asked", "gap"),
    [
        ((0, 9), f"visits/0@9: {NOT_YET}"),
        ((0, -1), f"visits/0@9 to 11: {NOT_YET}"),
        ((50, 60), f"visits/0@50 to 60: {NOT_YET}"),
        ((1, 6), f"visits/0@4 to 5: {LOST}"),
    ],
)
def test_what_the_archive_lacks_is_named_with_the_reason(asked: tuple[int, int], gap: str) -> None:
    extents = {0: extent((0, 3), (6, 8), first=0, end=12)}
    _, gaps = resolved({0: (asked,)}, extents)
    assert gap in gaps


def test_records_from_before_the_archive_began_are_missing_too() -> None:
    _, gaps = resolved({0: ((-2, 6),)}, {0: extent((5, 9), first=2, end=10)})
    assert gaps == [f"visits/0@2 to 4: {BEFORE}"]


def test_a_lost_file_at_the_end_is_a_gap_and_not_a_shorter_archive() -> None:
    extents = {0: Extent(OffsetRanges.of((0, 5)), lost=OffsetRanges.of((6, 9)), first=0, end=10)}
    _, gaps = resolved({0: ((0, -1),)}, extents)
    assert gaps == [f"visits/0@6 to 9: {LOST}"]
    assert extents[0].behind == 0


def test_without_offsets_all_that_is_archived_is_meant_though_the_topic_is_ahead() -> None:
    extents = {0: extent((0, 5), first=0, end=9), 1: extent(first=0, end=4)}
    assert resolved(None, extents) == ({0: [(0, 5)]}, [])
    assert (extents[0].behind, extents[1].behind) == (3, 4)


def test_selections_combine() -> None:
    extents = {0: extent((0, 99)), 1: extent((0, 99))}
    lineage = {0: OffsetRanges.of((5, 15), (40, 40)), 1: OffsetRanges.of((1, 1))}
    offsets, gaps = resolved({0: ((10, 50),)}, extents, lineage)
    assert (offsets, gaps) == ({0: [(10, 15), (40, 40)]}, [])
    assert resolved(None, extents, lineage)[0] == {0: [(5, 15), (40, 40)], 1: [(1, 1)]}


def test_inputs_that_lineage_names_and_the_archive_lacks_are_gaps() -> None:
    _, gaps = resolved(None, {0: extent((0, 9))}, {0: OffsetRanges.of((8, 12))})
    assert gaps == [f"visits/0@10 to 12: {NOT_YET}"]


def test_a_partition_that_nobody_has_is_refused() -> None:
    with pytest.raises(InputError, match="partition 7 of 'visits'"):
        resolved({7: ((0, 1),)}, {0: extent((0, 9))})


def test_slices_are_in_order_of_about_the_same_size_and_lose_nothing() -> None:
    offsets = OffsetRanges.of((0, 4), (10, 10), (20, 23))
    parts = slices(offsets, 3)
    assert [len(part) for part in parts] == [3, 3, 4]
    assert [one for part in parts for one in part.offsets()] == list(offsets.offsets())
    assert [len(part) for part in slices(OffsetRanges.of((7, 7)), 3)] == [0, 0, 1]
