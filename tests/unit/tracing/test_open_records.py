"""What an output overtakes is a hole, until its own output or a dead letter comes."""

from __future__ import annotations

from headwater.model import Address, Record
from headwater.tracing.open_records import OpenRecords

OUTPUT = Address("out", 0, 0)
LATER = 1000.0


def opened(*keys: bytes | None, max_open: int = 100) -> OpenRecords:
    """A source of one partition with a record of each of these keys."""
    records = OpenRecords(max_open)
    for offset, key in enumerate(keys):
        records.add(Record(Address("in", 0, offset), key, b""))
    return records


def close(records: OpenRecords, *offsets: int) -> None:
    for offset in offsets:
        records.close(Address("in", 0, offset), OUTPUT, 0.0)


def holes(records: OpenRecords) -> list[int]:
    return [hole.record.offset for hole in records.take_holes(LATER)]


def test_outputs_in_order_leave_nothing() -> None:
    records = opened(b"a", b"a", b"a")
    close(records, 0, 1, 2)
    assert holes(records) == []
    assert len(records) == 0


def test_records_that_a_later_one_of_their_key_overtakes_are_holes_once() -> None:
    records = opened(b"a", b"b", b"a", b"a")
    close(records, 3)
    assert holes(records) == [0, 2]
    assert holes(records) == []
    assert len(records) == 1


def test_another_key_overtakes_nothing() -> None:
    records = opened(b"a", b"b", b"c")
    close(records, 2, 1)
    assert holes(records) == []


def test_an_output_that_comes_late_closes_its_hole() -> None:
    records = opened(b"a", b"a")
    close(records, 1, 0)
    assert holes(records) == []


def test_a_hole_is_told_only_when_it_is_old_enough() -> None:
    records = opened(b"a", b"a")
    records.close(Address("in", 0, 1), OUTPUT, 50.0)
    assert not records.has_holes(49.9)
    assert records.take_holes(49.9) == []
    (hole,) = records.take_holes(50.0)
    assert (hole.key, hole.shown_by) == (b"a", OUTPUT)


def test_what_was_set_aside_is_no_hole_whenever_its_dead_letter_comes() -> None:
    records = opened(b"a", b"a", b"a")
    records.set_aside(Address("in", 0, 1))
    close(records, 2)
    records.set_aside(Address("in", 0, 0))
    assert holes(records) == []


def test_a_copy_and_a_record_without_key_change_nothing() -> None:
    records = opened(None, b"a", b"a")
    close(records, 1, 1, 2, 2, 0)
    assert holes(records) == []
    assert len(records) == 0


def test_what_is_held_is_bounded_and_the_oldest_are_forgotten() -> None:
    records = opened(b"a", b"b", b"a", b"a", max_open=2)
    assert (len(records), records.forgotten) == (2, 2)
    close(records, 3)
    assert holes(records) == [2]
