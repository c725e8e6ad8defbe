"""Decoding dead letters, and the headers of redriven records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stamped import RUN, dead_letter_headers

from headwater.delivery.dead_letter.history import History
from headwater.delivery.dead_letter.redrive import redriven_headers
from headwater.model import Address, Header, Record
from headwater.model.dead_letter import OFFSET, PARTITION, REASON, TOPIC, DeadLetter, read_letter
from headwater.model.header import origin_of

AT = Address("out-dead-letter", 1, 5)
SHA = "ab" * 32


def letter(*headers: Header, value: bytes | None = b"{}") -> DeadLetter:
    return read_letter(Record(AT, b"k", value, headers))


def reference(**changes: object) -> bytes:
    content = {"address": "in/0@3", "size": 7, "sha256": SHA, **changes}
    return json.dumps(content).encode()


def test_all_headers_of_a_dead_letter_are_decoded() -> None:
    decoded = letter(*dead_letter_headers("in/0@3", job="reducer", message="why"))
    assert (decoded.origin, decoded.identity) == (Address("in", 0, 3), Address("in", 0, 3))
    assert (decoded.job_name, decoded.batch, decoded.message) == ("reducer", 4, "why")
    assert (decoded.reason, decoded.redrives) == ("headwater.MalformedJson", 0)
    assert decoded.reference is None


def test_the_first_of_two_headers_counts() -> None:
    decoded = letter(*dead_letter_headers("in/0@3"), (TOPIC, b"other"), (REASON, b"other"))
    assert (str(decoded.origin), decoded.reason) == ("in/0@3", "headwater.MalformedJson")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(TOPIC, b"in")],
        [(TOPIC, b"in"), (PARTITION, b"-1"), (OFFSET, b"3")],
        [(TOPIC, b"in"), (PARTITION, b"0"), (OFFSET, None)],
        [(TOPIC, b"a b"), (PARTITION, b"0"), (OFFSET, b"3")],
        [(TOPIC, b"in/0@1,in"), (PARTITION, b"0"), (OFFSET, b"3")],
        [(TOPIC, b"\xff"), (PARTITION, b"0"), (OFFSET, b"9" * 40)],
    ],
)
def test_a_record_without_valid_error_headers_has_no_origin(headers: list[Header]) -> None:
    decoded = letter(*headers)
    assert (decoded.origin, decoded.identity) == (None, AT)


def test_a_reference_is_decoded_only_if_it_names_the_origin() -> None:
    headers = dead_letter_headers("in/0@3")
    decoded = letter(*headers, value=reference()).reference
    assert decoded is not None
    assert (decoded.size, decoded.sha256) == (7, SHA)
    others = [
        reference(address="in/0@4"),
        reference(more=1),
        reference(size="7"),
        reference(size=True),
        reference(sha256="ab"),
        reference(sha256=None),
        b"[" * 1000,
        b'{"address": "in/0@3"}',
        b"{}" + b" " * 2000,
        None,
    ]
    assert [letter(*headers, value=value).reference for value in others] == [None] * len(others)
    assert letter(value=reference()).reference is None


@pytest.mark.parametrize(
    ("count", "of", "expected"),
    [
        (b"2", b"in/0@1", 2),
        (b"2", b"upstream/0@1", 0),  # inherited from the previous hop
        (b"-2", b"in/0@1", 0),
        (b"many", b"in/0@1", 0),
        (b"9" * 400, b"in/0@1", 0),
        (b"2", b"", 0),
        (None, b"in/0@1", 0),
    ],
)
def test_redrives_are_counted_for_the_topic_of_the_origin(
    count: bytes | None, of: bytes, expected: int
) -> None:
    decoded = letter(*dead_letter_headers("in/0@3"), ("redrive_count", count), ("redrive_of", of))
    assert decoded.redrives == expected


def test_a_redriven_record_has_new_lineage_and_the_foreign_headers() -> None:
    foreign: list[Header] = [("traceparent", b"1"), ("a", None), ("a", b"")]
    earlier: list[Header] = [("redrive_count", b"1"), ("redrive_of", b"in/0@1")]
    decoded = letter(*dead_letter_headers("in/0@3", job='a "job"'), *earlier, *foreign)
    headers = redriven_headers(decoded, RUN, decoded.redrives, decoded.foreign_headers())
    assert headers[-3:] == foreign
    assert not [name for name, _ in headers if name.startswith("__connect")]
    assert dict(headers[:-3])["redrive_count"] == b"2"
    assert dict(headers[:-3])["redrive_of"] == b"in/0@3"
    assert [name for name, _ in headers].count("redrive_of") == 1
    origin = origin_of(Record(Address("in", 0, 9), None, None, tuple(headers)))
    assert origin.lineage is not None
    assert (origin.job_name, origin.batch_version) == ("headwater_redrive", 2)
    assert (origin.lineage.parents, origin.lineage.run_id) == ((AT,), RUN)
    stamp = json.loads(dict(headers)["parent_lineage"] or b"")
    assert stamp == ['{job_name, a "job"}', "{job_version, v1.0.0}", "{batch_version, 4}"]


names = st.sampled_from([TOPIC, PARTITION, OFFSET, REASON, "lineage", "redrive_count", "x"])


@given(st.lists(st.tuples(names, st.none() | st.binary(max_size=20))), st.binary(max_size=60))
def test_decoding_and_redriving_never_raise(headers: list[Header], value: bytes) -> None:
    decoded = letter(*headers, value=value)
    assert redriven_headers(decoded, RUN, decoded.redrives, decoded.foreign_headers())


def test_an_earlier_copy_is_ruled_out_only_if_all_records_after_the_origin_exist() -> None:
    complete = History("in", {0: 4, 1: 9}, compacted=False)
    assert complete.doubt(Address("in", 0, 3)) is None
    assert "in/0 starts at 4" in (complete.doubt(Address("in", 0, 2)) or "")
    # A record of another topic may have been sent to any partition.
    assert "in/0 starts at 4" in (complete.doubt(Address("other", 0, 3)) or "")
    assert complete.doubt(None) is not None
    fresh = History("in", {0: 0, 1: 0}, compacted=False)
    assert fresh.doubt(None) is None
    assert "compacted" in (History("in", {0: 0}, compacted=True).doubt(None) or "")
