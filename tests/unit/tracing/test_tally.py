"""Checks of the records of a topic."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headwater.model import Address, Lineage, Record
from headwater.model.header import STAMP_HEADERS, JobStamp, encode
from headwater.tracing.report import VerifyReport
from headwater.tracing.tally import MAX_EXAMPLES, TopicTally, Window

WINDOWS = {0: Window(10, 100, 110), 1: Window(0, 100, 100)}


class Topic:
    """A topic with one partition that is checked while it is written."""

    def __init__(self) -> None:
        self.report = VerifyReport("out", "in")
        self.tally = TopicTally("in", WINDOWS, self.report)

    def write(
        self,
        parents: Iterable[str],
        *,
        key: bytes | None = b"k",
        value: bytes | None = b"",
        job: str = "job",
        ordinal: int = 0,
        unlisted: int = 0,
    ) -> None:
        claimed = tuple(Address.parse(parent) for parent in parents)
        header = encode(Lineage(None, claimed, unlisted, ordinal))
        headers = (*JobStamp(job, "v1", 1).headers(STAMP_HEADERS), ("lineage", header))
        address = Address("out", 0, self.report.scanned)
        self.tally.add(Record(address, key, value, headers))

    def write_all(self, offsets: Iterable[int], key: bytes | None = b"k") -> None:
        for offset in offsets:
            self.write([f"in/0@{offset}"], key=key)


def test_outputs_in_order_have_no_violations() -> None:
    topic = Topic()
    topic.write_all([10, 11, 15])
    report = topic.report
    assert (report.scanned, report.duplicates, report.out_of_order) == (3, 0, 0)
    assert len(topic.tally.parents.offsets[0]) == 3


def test_an_earlier_parent_after_a_later_one_is_out_of_order() -> None:
    topic = Topic()
    topic.write_all([10, 12, 11, 13])
    assert topic.report.out_of_order == 1
    (finding,) = topic.report.examples["out_of_order"]
    assert finding.as_json() == {
        "record": "out/0@2",
        "parent": "in/0@11",
        "after": "in/0@12",
        "key": "k",
    }


def test_order_is_per_key_and_per_partition_of_the_source() -> None:
    topic = Topic()
    topic.write_all([20], key=b"a")
    topic.write_all([11], key=b"b")
    topic.write(["in/1@5"], key=b"a")
    topic.write(["in/1@4"], key=b"b")
    assert topic.report.out_of_order == 0


def test_records_without_a_key_are_counted_and_not_checked() -> None:
    topic = Topic()
    topic.write_all([12, 11], key=None)
    assert (topic.report.out_of_order, topic.report.without_key) == (0, 2)


def test_a_batch_that_was_written_twice_is_duplicates_not_disorder() -> None:
    topic = Topic()
    topic.write_all([10, 11, 12, 10, 11, 12])
    assert (topic.report.duplicates, topic.report.out_of_order) == (3, 0)
    assert [str(f.record) for f in topic.report.examples["duplicates"]] == [
        "out/0@3",
        "out/0@4",
        "out/0@5",
    ]


def test_several_outputs_of_one_record_are_not_duplicates_of_each_other() -> None:
    topic = Topic()
    for ordinal in (0, 1, 2, 1):
        topic.write(["in/0@10"], ordinal=ordinal)
    topic.write(["in/0@10"], job="another job")
    topic.write(["in/0@10"], job="another job")
    assert topic.report.duplicates == 2


@pytest.mark.parametrize("parents", [["in/0@10"], ["in/0@10", "in/0@11"]], ids=["one", "two"])
def test_rows_that_share_parents_are_duplicates_only_with_the_same_key_and_value(
    parents: list[str],
) -> None:
    topic = Topic()
    rows = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", None), (None, b"1")]
    for key, value in rows:
        topic.write(parents, key=key, value=value)
    assert topic.report.duplicates == 0
    for key, value in rows:
        topic.write(parents, key=key, value=value)
    assert topic.report.duplicates == len(rows)


def test_an_output_after_a_later_one_is_out_of_order_also_if_others_share_its_parent() -> None:
    topic = Topic()
    topic.write(["in/0@10"], value=b"1")
    topic.write_all([11])
    topic.write(["in/0@10"], value=b"2")
    assert (topic.report.duplicates, topic.report.out_of_order) == (0, 1)


def test_outputs_with_several_parents_can_be_duplicates_and_have_no_order() -> None:
    topic = Topic()
    topic.write(["in/0@20", "in/0@21"])
    topic.write(["in/0@11", "in/0@12"])
    topic.write(["in/0@11", "in/0@12"])
    topic.write(["in/0@20"], unlisted=5)
    report = topic.report
    assert (report.duplicates, report.out_of_order, report.unlisted_parents) == (1, 0, 5)
    assert len(topic.tally.parents.offsets[0]) == 4


@pytest.mark.parametrize("parent", ["in/0@110", "in/1@100", "in/2@0", f"in/0@{2**63 - 1}"])
def test_a_parent_that_never_existed_is_counted(parent: str) -> None:
    topic = Topic()
    topic.write([parent])
    topic.write(["in/0@10", parent])
    assert topic.report.unknown_parents == 2
    assert topic.report.state.value == "corrupt"


def test_a_parent_that_arrived_after_the_call_is_not_checked() -> None:
    topic = Topic()
    topic.write_all([100, 109])
    assert topic.report.unknown_parents == 0
    assert len(topic.tally.parents.offsets[0]) == 0


def test_an_expired_parent_is_counted() -> None:
    topic = Topic()
    topic.write_all([9])
    assert (topic.tally.parents.expired, topic.report.unknown_parents) == (1, 0)


def test_an_unreadable_header_counts_as_missing_lineage() -> None:
    topic = Topic()
    topic.tally.add(Record(Address("out", 0, 0), b"k", b"", (("lineage", b"\xff"),)))
    topic.tally.add(Record(Address("out", 0, 1), b"k", b""))
    report = topic.report
    assert (report.without_lineage, report.unreadable, report.scanned) == (2, 1, 2)


def test_duplicates_are_detected_for_many_jobs() -> None:
    topic = Topic()
    for _ in range(2):
        for number in range(40):
            topic.write(["in/0@10"], job=f"job {number}")
    assert topic.report.duplicates == 40


def test_the_number_of_examples_is_limited() -> None:
    topic = Topic()
    topic.write_all([10] * 100)
    assert topic.report.duplicates == 99
    assert len(topic.report.examples["duplicates"]) == MAX_EXAMPLES


def test_the_number_of_topics_from_headers_is_limited() -> None:
    topic = Topic()
    for number in range(1000):
        topic.write([f"other{number}/0@1"])
    assert len(topic.tally.parents.other_topics) == 20
    assert not topic.tally.parents.any


@pytest.mark.parametrize(
    ("changes", "state", "passed"),
    [
        ({}, "empty", False),
        ({"expected": 10, "found": 10}, "full", True),
        ({"expected": 10, "found": 8, "dead_lettered": 2}, "full", True),
        ({"expected": 10, "found": 8, "missing": 2}, "partial", False),
        ({"expected": 10, "missing": 10}, "missing", False),
        ({"expected": 10, "found": 10, "duplicates": 1}, "full", False),
        ({"expected": 10, "found": 10, "out_of_order": 1}, "full", False),
        ({"expected": 10, "found": 10, "without_lineage": 1}, "full", False),
        ({"expected": 10, "found": 10, "unreadable": 1}, "corrupt", False),
        ({"expected": 10, "found": 10, "unknown_parents": 1}, "corrupt", False),
    ],
)
def test_the_state_follows_from_the_counts(
    changes: dict[str, int], state: str, passed: bool
) -> None:
    report = VerifyReport("out", "in", **changes)  # type: ignore[arg-type]
    assert (report.state.value, report.passed) == (state, passed)
    assert report.as_json()["state"] == state
