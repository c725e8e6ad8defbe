"""Records: null is not empty, and the last of repeated headers counts."""

from __future__ import annotations

import dataclasses

import pytest

from headwater.model import Address, Header, Record

ADDRESS = Address("visits", 0, 17)


def record(*headers: Header) -> Record:
    return Record(ADDRESS, key=b"k", value=b"v", headers=headers)


def test_the_last_of_several_headers_of_a_name_counts() -> None:
    assert record(("a", b"1"), ("b", b"2"), ("a", b"3")).header("a") == b"3"


def test_a_last_header_that_is_null_hides_an_earlier_value() -> None:
    assert record(("a", b"1"), ("a", None)).header("a") is None


def test_an_empty_header_is_not_null() -> None:
    assert record(("a", b"")).header("a") == b""


def test_a_missing_header_is_none() -> None:
    assert record(("a", b"1")).header("A") is None


def test_a_null_value_differs_from_an_empty_value() -> None:
    assert Record(ADDRESS, None, None) != Record(ADDRESS, None, b"")


def test_headers_keep_their_order() -> None:
    assert record(("a", b"1"), ("b", b"2")) != record(("b", b"2"), ("a", b"1"))


def test_headers_and_timestamp_are_optional() -> None:
    plain = Record(ADDRESS, b"k", b"v")
    assert (plain.headers, plain.timestamp_ms) == ((), None)


def test_equal_records_have_equal_hashes() -> None:
    assert len({record(("a", None)), record(("a", None))}) == 1


def test_a_record_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().value = b"w"  # type: ignore[misc]
