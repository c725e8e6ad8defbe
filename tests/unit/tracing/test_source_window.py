"""Overtaken records are gaps, until their output or a dead letter arrives."""

from __future__ import annotations

from headwater.model import Address, Record
from headwater.tracing.source_window import OpenRecords

OUTPUT = Address("out", 0, 0)
LATER = 1000.0


def opened(*keys: bytes | None, max_open: int = 100) -> OpenRecords:
    """A source with one partition and one record per key."""
    records = OpenRecords(max_open)
    for offset, key in enumerate(keys):
        records.add(Record(Address("in", 0, offset), key, b""))
    return records


def close(records: OpenRecords, *offsets: int) -> None:
    for offset in offsets:
        records.close(Address("in", 0, offset), OUTPUT, 0.0)


def overtaken(records: OpenRecords) -> list[int]:
    return [each.record.offset for each in records.take_overtaken(LATER)]


def test_outputs_in_order_overtake_nothing() -> None:
    records = opened(b"a", b"a", b"a")
    close(records, 0, 1, 2)
    assert overtaken(records) == []
    assert len(records) == 0


def test_overtaken_records_are_returned_once() -> None:
    records = opened(b"a", b"b", b"a", b"a")
    close(records, 3)
    assert overtaken(records) == [0, 2]
    assert overtaken(records) == []
    assert len(records) == 1


def test_another_key_overtakes_nothing() -> None:
    records = opened(b"a", b"b", b"c")
    close(records, 2, 1)
    assert overtaken(records) == []


def test_a_late_output_closes_its_gap() -> None:
    records = opened(b"a", b"a")
    close(records, 1, 0)
    assert overtaken(records) == []


def test_an_overtaken_record_is_returned_only_after_some_time() -> None:
    records = opened(b"a", b"a")
    records.close(Address("in", 0, 1), OUTPUT, 50.0)
    assert not records.has_overtaken(49.9)
    assert records.take_overtaken(49.9) == []
    (record,) = records.take_overtaken(50.0)
    assert (record.key, record.overtaken_by) == (b"a", OUTPUT)


def test_a_record_with_a_dead_letter_is_not_a_gap() -> None:
    records = opened(b"a", b"a", b"a")
    records.dead_letter(Address("in", 0, 1))
    close(records, 2)
    records.dead_letter(Address("in", 0, 0))
    assert overtaken(records) == []


def test_a_duplicate_and_a_record_without_key_change_nothing() -> None:
    records = opened(None, b"a", b"a")
    close(records, 1, 1, 2, 2, 0)
    assert overtaken(records) == []
    assert len(records) == 0


def test_the_number_of_open_records_is_limited_and_the_oldest_are_forgotten() -> None:
    records = opened(b"a", b"b", b"a", b"a", max_open=2)
    assert (len(records), records.forgotten) == (2, 2)
    close(records, 3)
    assert overtaken(records) == [2]
