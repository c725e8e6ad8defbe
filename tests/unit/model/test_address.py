"""Addresses: formatting, parsing and ordering."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BadAddressError
from headwater.model import Address, is_topic_name

LARGEST_PARTITION = 2**31 - 1
LARGEST_OFFSET = 2**63 - 1

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(
    lambda name: name not in {".", ".."}
)
addresses = st.builds(
    Address, topics, st.integers(0, LARGEST_PARTITION), st.integers(0, LARGEST_OFFSET)
)


@given(addresses)
def test_parsing_reverts_formatting(address: Address) -> None:
    assert Address.parse(str(address)) == address


def test_an_address_is_formatted_as_topic_slash_partition_at_offset() -> None:
    assert str(Address("visits", 0, 17)) == "visits/0@17"


@given(st.text() | st.from_regex(r"[a.]{1,3}/[0-9]{9,11}@[0-9]{18,20}", fullmatch=True))
def test_any_text_is_parsed_or_rejected_with_an_error(text: str) -> None:
    try:
        address = Address.parse(text)
    except BadAddressError:
        return
    assert 0 <= address.partition <= LARGEST_PARTITION
    assert 0 <= address.offset <= LARGEST_OFFSET
    assert is_topic_name(address.topic)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "visits",
        "visits/0",
        "visits@17",
        "visits0@17",
        "/0@17",
        "visits/@17",
        "visits/0@",
        "visits/-1@17",
        "visits/0@-1",
        "visits/0@1.5",
        "visits/+0@17",
        "visits/0@1_7",
        "visits/٠@١٧",  # noqa: RUF001 - digits, but not Kafka's
        "visits/0@17\n",
        " visits/0@17",
        "visits/0@17 ",
        "vi sits/0@17",
        "vi/sits/0@17",
        "besök/0@17",
        "visits/0@17@18",
        "visits\x00/0@17",
    ],
)
def test_the_hint_of_a_bad_address_shows_the_format(text: str) -> None:
    with pytest.raises(BadAddressError, match="not an address") as caught:
        Address.parse(text)
    assert repr(text) in caught.value.message
    assert caught.value.attributes == {"value": text}
    assert "visits/0@17" in (caught.value.hint or "")


@pytest.mark.parametrize("topic", [".", ".."])
def test_the_names_that_kafka_reserves_are_rejected(topic: str) -> None:
    with pytest.raises(BadAddressError, match="not a topic name"):
        Address.parse(f"{topic}/0@0")


def test_the_largest_partition_and_offset_are_parsed() -> None:
    address = Address.parse(f"visits/{LARGEST_PARTITION}@{LARGEST_OFFSET}")
    assert (address.partition, address.offset) == (LARGEST_PARTITION, LARGEST_OFFSET)


@pytest.mark.parametrize(
    "text", [f"visits/{LARGEST_PARTITION + 1}@0", f"visits/0@{LARGEST_OFFSET + 1}"]
)
def test_a_number_out_of_range_is_rejected(text: str) -> None:
    with pytest.raises(BadAddressError, match="out of range"):
        Address.parse(text)


@pytest.mark.parametrize(("length", "valid"), [(0, False), (1, True), (249, True), (250, False)])
def test_a_topic_name_has_1_to_249_characters(length: int, valid: bool) -> None:
    assert is_topic_name("a" * length) is valid


@pytest.mark.parametrize("name", ["visits", "a.b_c-D9", "...", "-"])
def test_a_topic_name_has_letters_digits_dots_underscores_and_dashes(name: str) -> None:
    assert is_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "a\n", "a:b", "a,b"])
def test_a_name_that_kafka_rejects_is_not_a_topic_name(name: str) -> None:
    assert not is_topic_name(name)


def test_addresses_are_ordered_by_topic_and_numerically() -> None:
    mixed = ["b/0@0", "a/10@0", "a/2@10", "a/2@9"]
    assert [str(address) for address in sorted(map(Address.parse, mixed))] == mixed[::-1]


@given(addresses)
def test_equal_addresses_have_equal_hashes(address: Address) -> None:
    assert {address: 1}[dataclasses.replace(address)] == 1


def test_an_address_is_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Address("visits", 0, 17).offset = 18  # type: ignore[misc]
