"""The headers of a record: a job's stamp, and the grammar of the `lineage` header."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import Address, AddressRange, Lineage, Record, record_id
from headwater.model.header import (
    BATCH_VERSION,
    JOB_NAME,
    JOB_VERSION,
    MAX_HEADER_BYTES,
    OWN_HEADERS,
    PARENT_LINEAGE,
    JobStamp,
    Origin,
    Unreadable,
    decode,
    encode,
    identity_of,
    origin_of,
    parent_lineage_text,
)

STAMP = JobStamp("visits_decorator_job", "v1.0.0", 12)
VALUES = {JOB_NAME: b"visits_decorator_job", JOB_VERSION: b"v1.0.0", BATCH_VERSION: b"12"}


@pytest.mark.parametrize("order", list(permutations(VALUES)))
def test_the_stamp_has_the_order_that_the_job_defines(order: tuple[str, ...]) -> None:
    assert STAMP.headers(order) == tuple((name, VALUES[name]) for name in order)


def test_only_the_requested_headers_are_created() -> None:
    assert STAMP.headers([JOB_NAME]) == ((JOB_NAME, b"visits_decorator_job"),)


@given(st.text(), st.text(), st.integers(0, 2**63 - 1))
def test_names_are_utf_8_and_the_batch_is_decimal(name: str, version: str, batch: int) -> None:
    headers = dict(JobStamp(name, version, batch).headers(tuple(VALUES)))
    assert {key: (value or b"").decode() for key, value in headers.items()} == {
        JOB_NAME: name,
        JOB_VERSION: version,
        BATCH_VERSION: str(batch),
    }


def test_a_repeated_batch_has_the_same_headers() -> None:
    again = JobStamp("visits_decorator_job", "v1.0.0", 12)
    assert again.headers(tuple(VALUES)) == STAMP.headers(tuple(VALUES))


def test_the_names_of_headers_are_stable() -> None:
    # Consumers of these topics depend on the names.
    names = ("job_name", "job_version", "batch_version", "parent_lineage", "lineage")
    assert OWN_HEADERS == (*names, "lineage_dropped_headers")
    assert PARENT_LINEAGE in OWN_HEADERS


RUN = "0190c5f2-1111-7222-8333-444455556666"

topics = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True).filter(
    lambda name: name not in {".", ".."}
)
addresses = st.builds(Address, topics, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
offsets = st.integers(0, 2**63 - 1)
ranges = st.builds(
    lambda topic, partition, ends: AddressRange(topic, partition, min(ends), max(ends)),
    topics,
    st.integers(0, 2**31 - 1),
    st.tuples(offsets, offsets),
)
exact_lineages = st.builds(
    Lineage,
    st.one_of(st.none(), st.uuids().map(str)),
    st.lists(addresses, max_size=20).map(tuple),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.one_of(st.none(), st.binary(min_size=16, max_size=16).map(bytes.hex)),
    st.lists(addresses, max_size=5).map(tuple),
)
lineages = st.builds(
    lambda lineage, within, more_parents, batch: replace(
        lineage, ranges=tuple(within), more_parents=more_parents, batch=batch
    ),
    exact_lineages,
    st.lists(ranges, max_size=5),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 10**18 - 1)),
)


@given(lineages)
def test_decoding_reverts_encoding(lineage: Lineage) -> None:
    assert decode(encode(lineage)) == lineage


@given(exact_lineages)
def test_version_1_is_written_wherever_it_is_enough(lineage: Lineage) -> None:
    assert encode(lineage).startswith(b"1 ")


@given(lineages.filter(lambda lineage: not lineage.exact or lineage.batch is not None))
def test_ranges_unknown_parents_and_the_batch_need_version_2(lineage: Lineage) -> None:
    assert encode(lineage).startswith(b"2 ")
    assert decode(b"1" + encode(lineage)[1:]) is Unreadable.MALFORMED


@given(lineages)
def test_only_a_record_with_exact_parents_has_an_identity(lineage: Lineage) -> None:
    identity, exact = identity_of(encode(lineage)), replace(lineage, ranges=(), more_parents=False)
    assert (identity is None) is (lineage.identity("job") is None) is (not lineage.exact)
    # Neither the run, nor the batch, nor where the other parents are listed, are part of it.
    again = replace(exact, run_id=None, batch=None, rest=())
    assert identity_of(encode(exact)) == identity_of(encode(again)) != ""


@given(ranges, offsets)
def test_a_range_contains_both_of_its_ends(within: AddressRange, offset: int) -> None:
    inside = within.first <= offset <= within.last
    assert (Address(within.topic, within.partition, offset) in within) is inside
    assert Address(within.topic, within.partition, within.last) in within
    assert Address(f"{within.topic}2", within.partition, within.first) not in within
    assert within.size == within.last - within.first + 1


def test_the_order_of_items_does_not_matter_for_reading() -> None:
    lineage = decode(b"2 - ?,~visits/0@3..17,ads/1@4,?")
    assert isinstance(lineage, Lineage)
    assert lineage.parents == (Address("ads", 1, 4),)
    assert lineage.ranges == (AddressRange("visits", 0, 3, 17),)
    assert lineage.more_parents


def test_the_batch_of_the_lineage_header_counts_without_a_header_for_it() -> None:
    value = b"2 - visits/0@1 b7"
    compact = origin_of(Record(Address("t", 0, 0), None, None, (("lineage", value),)))
    headers = (("batch_version", b"8"), ("lineage", value))
    full = origin_of(Record(Address("t", 0, 0), None, None, headers))
    assert (compact.batch_version, full.batch_version) == (7, 8)


@given(st.binary(max_size=300))
def test_decoding_never_raises(value: bytes) -> None:
    assert isinstance(decode(value), Lineage | Unreadable)


@given(lineages, st.data())
def test_decoding_a_damaged_header_never_raises(lineage: Lineage, data: st.DataObject) -> None:
    value = bytearray(encode(lineage))
    position = data.draw(st.integers(0, len(value) - 1))
    value[position] = data.draw(st.integers(0, 255))
    assert isinstance(decode(bytes(value)), Lineage | Unreadable)


def test_the_format_is_the_documented_one() -> None:
    one = Lineage(RUN, (Address("visits", 0, 17),))
    assert encode(one) == f"1 {RUN} visits/0@17".encode()
    both = Lineage(RUN, (Address("visits", 0, 17), Address("ads", 1, 4)), ordinal=2)
    assert encode(both) == f"1 {RUN} visits/0@17,ads/1@4 #2".encode()
    many = Lineage(None, (Address("visits", 0, 1),), unlisted=99, record_id="ab" * 16)
    assert encode(many) == b"1 - visits/0@1,+99 =" + b"ab" * 16
    elsewhere = replace(many, rest=(Address("counts-parents", 1, 4),))
    assert encode(elsewhere) == encode(many) + b" >counts-parents/1@4"
    assert identity_of(encode(elsewhere)) == identity_of(encode(many))
    assert encode(Lineage(None, ())) == b"1 - -"
    opaque = Lineage(RUN, (), ranges=(AddressRange("visits", 0, 3, 17),), more_parents=True)
    assert encode(opaque) == f"2 {RUN} ~visits/0@3..17,?".encode()
    assert encode(replace(one, batch=12)) == f"2 {RUN} visits/0@17 b12".encode()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, Unreadable.MALFORMED),
        (b"", Unreadable.MALFORMED),
        (b"nonsense", Unreadable.MALFORMED),
        (b"4 - visits/0@1", Unreadable.OTHER_VERSION),
        (b"1 - visits/0@-1", Unreadable.MALFORMED),
        (b"1 - visits/0@99999999999999999999", Unreadable.MALFORMED),
        (b"1 - visits/99999999999@1", Unreadable.MALFORMED),
        (b"1 - ../0@1", Unreadable.MALFORMED),
        (b"1 not-a-run visits/0@1", Unreadable.MALFORMED),
        (b"1 - visits/0@1 \n", Unreadable.MALFORMED),
        (b"1 - visits/0@1 >,", Unreadable.MALFORMED),
        (b"1 - " + b"a" * MAX_HEADER_BYTES, Unreadable.TOO_LONG),
    ],
)
def test_an_unreadable_header_has_a_reason(value: bytes | None, why: Unreadable) -> None:
    assert decode(value) is why


@given(st.text(), st.text(), st.integers(0, 10**9))
def test_any_job_name_and_version_is_decoded(name: str, version: str, batch: int) -> None:
    name = name.encode("utf-8", "ignore").decode()
    version = version.encode("utf-8", "ignore").decode()
    stamp = JobStamp(name, version, batch)
    headers = stamp.headers(("job_version", "job_name", "batch_version"))
    origin = origin_of(Record(Address("t", 0, 0), None, None, headers))
    assert origin == Origin(name, version, batch, None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["job_name", "batch_version", "lineage", "x"]),
            st.one_of(st.none(), st.binary(max_size=40)),
        ),
        max_size=8,
    )
)
def test_decoding_foreign_headers_never_raises(
    headers: list[tuple[str, bytes | None]],
) -> None:
    origin = origin_of(Record(Address("t", 0, 0), None, None, tuple(headers)))
    assert origin.batch_version is None or origin.batch_version >= 0


def test_the_first_of_two_headers_counts() -> None:
    headers = (("job_name", b"own"), ("job_name", b"of another job"))
    assert origin_of(Record(Address("t", 0, 0), None, None, headers)).job_name == "own"


def test_a_record_id_depends_only_on_job_parents_and_ordinal() -> None:
    lineage = Lineage(RUN, (Address("visits", 0, 17),))
    again = Lineage(None, (Address("visits", 0, 17),))
    assert lineage.identity("job") == again.identity("job") == record_id("job", "visits/0@17")
    others = {
        lineage.identity("other job"),
        Lineage(RUN, (Address("visits", 0, 18),)).identity("job"),
        Lineage(RUN, (Address("visits", 0, 17),), ordinal=1).identity("job"),
        Lineage(RUN, (Address("visits", 0, 17), Address("ads", 0, 1))).identity("job"),
    }
    assert len(others) == 4
    assert lineage.identity("job") not in others


def test_the_text_of_the_parents_stamp() -> None:
    stamp = [("job_version", "v1.0.0"), ("job_name", "visits_decorator"), ("batch_version", "11")]
    assert parent_lineage_text(stamp) == (
        '["{job_version, v1.0.0}","{job_name, visits_decorator}","{batch_version, 11}"]'
    )
