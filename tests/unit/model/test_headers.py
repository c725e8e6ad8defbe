"""A job's stamp as headers."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.headers import (
    BATCH_VERSION,
    JOB_NAME,
    JOB_VERSION,
    OWN_HEADERS,
    PARENT_LINEAGE,
    JobStamp,
)

STAMP = JobStamp("visits_decorator_job", "v1.0.0", 12)
VALUES = {JOB_NAME: b"visits_decorator_job", JOB_VERSION: b"v1.0.0", BATCH_VERSION: b"12"}


@pytest.mark.parametrize("order", list(permutations(VALUES)))
def test_the_headers_come_in_the_order_that_the_job_asks_for(order: tuple[str, ...]) -> None:
    assert STAMP.headers(order) == tuple((name, VALUES[name]) for name in order)


def test_only_the_headers_that_are_asked_for_are_made() -> None:
    assert STAMP.headers([JOB_NAME]) == ((JOB_NAME, b"visits_decorator_job"),)


@given(st.text(), st.text(), st.integers(0, 2**63 - 1))
def test_names_are_utf_8_and_the_batch_is_decimal_text(name: str, version: str, batch: int) -> None:
    headers = dict(JobStamp(name, version, batch).headers(tuple(VALUES)))
    assert {key: (value or b"").decode() for key, value in headers.items()} == {
        JOB_NAME: name,
        JOB_VERSION: version,
        BATCH_VERSION: str(batch),
    }


def test_the_same_batch_run_again_makes_the_same_bytes() -> None:
    again = JobStamp("visits_decorator_job", "v1.0.0", 12)
    assert again.headers(tuple(VALUES)) == STAMP.headers(tuple(VALUES))


def test_all_names_that_headwater_writes_are_its_own() -> None:
    # Whoever reads these topics knows the names: they are a promise, not a detail.
    names = ("job_name", "job_version", "batch_version", "parent_lineage", "lineage")
    assert OWN_HEADERS == names
    assert PARENT_LINEAGE in OWN_HEADERS
