"""Assertions about the lineage of a record, and the listed differences."""

from __future__ import annotations

import re

import pytest

from headwater.model import Address, Header, Lineage, Record
from headwater.model.header import STAMP_HEADERS, JobStamp, encode
from headwater.testing import assert_lineage

PARENTS = ("visits/0@1", "ads/1@7")


def record(*parents: str, unlisted: int = 0) -> Record:
    lineage = Lineage(None, tuple(Address.parse(parent) for parent in parents), unlisted)
    headers: tuple[Header, ...] = JobStamp("joiner", "v2", 3).headers(STAMP_HEADERS)
    return Record(Address("out", 0, 5), None, b"", (*headers, ("lineage", encode(lineage))))


SOURCE = Record(Address("visits", 0, 1), None, b"")


def test_matching_lineage_passes() -> None:
    assert_lineage(record(*PARENTS), parents=PARENTS, job_name="joiner", job_version="v2")
    assert_lineage(record(*PARENTS), parents=[Address("ads", 1, 7), "visits/0@1"])
    assert_lineage(record(*PARENTS), parents=PARENTS, ordered=True)
    assert_lineage(record(*PARENTS), job_name="joiner")
    assert_lineage(SOURCE, parents=[])
    assert_lineage(record(), parents=[])


@pytest.mark.parametrize(
    ("made", "expected", "differences"),
    [
        (
            record(*PARENTS),
            {"parents": ["visits/0@1", "ads/1@8"]},
            ["missing parent: ads/1@8", "unexpected parent: ads/1@7"],
        ),
        (
            record(*PARENTS),
            {"parents": []},
            ["unexpected parent: visits/0@1", "unexpected parent: ads/1@7"],
        ),
        (record("visits/0@1"), {"parents": ["visits/0@1"] * 2}, ["missing parent: visits/0@1"]),
        (
            record(*PARENTS),
            {"parents": PARENTS[::-1], "ordered": True},
            ["parents in another order: visits/0@1, ads/1@7"],
        ),
        (record(*PARENTS, unlisted=3), {"parents": PARENTS}, ["3 more parents"]),
        (record(*PARENTS), {"job_name": "other"}, ["job_name: 'joiner', not 'other'"]),
        (record(*PARENTS), {"job_version": "v1"}, ["job_version: 'v2', not 'v1'"]),
        (SOURCE, {"parents": ["visits/0@1"]}, ["no lineage header", "missing parent"]),
        (SOURCE, {"job_name": "joiner"}, ["job_name: None, not 'joiner'"]),
        (
            Record(Address("out", 0, 5), None, b"", (("lineage", b"?"),)),
            {"parents": []},
            ["not readable: malformed"],
        ),
    ],
)
def test_each_difference_is_listed(
    made: Record, expected: dict[str, object], differences: list[str]
) -> None:
    with pytest.raises(AssertionError) as failure:
        assert_lineage(made, **expected)  # type: ignore[arg-type]
    lines = str(failure.value).splitlines()
    assert lines[0] == f"the lineage of {made.address} is not as expected:"
    assert len(lines) == 1 + len(differences)
    for line, difference in zip(lines[1:], differences, strict=True):
        assert re.search(re.escape(difference), line)
