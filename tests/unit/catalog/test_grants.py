"""The effect of events of limited keys, before they are stored."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.catalog_support import run_event, run_id
from tests.tenants import THEIR_RUN, A, B, parent

from headwater.catalog.identity import job_id
from headwater.catalog.ingest import limit_event, project, read_event


@pytest.mark.parametrize("namespace", [A, B])
def test_a_run_has_no_parent_run_of_another_namespace(namespace: str) -> None:
    event = read_event(
        run_event("START", job="ajob", namespace=A, run_facets=parent(namespace, "job", THEIR_RUN))
    )
    rows = project([limit_event(event, frozenset({A}), {UUID(THEIR_RUN)})])
    assert list(rows.runs) == [UUID(run_id("ajob"))]
    (run,) = rows.runs.values()
    assert run.parent_run_id is None, "it would end when the parent ends"
    assert set(rows.jobs) == {job_id(A, "ajob")}
    assert rows.jobs[job_id(A, "ajob")].parent_id == job_id(namespace, "job")


def test_a_run_has_the_parent_run_that_its_key_may_describe() -> None:
    event = read_event(
        run_event("START", job="ajob", namespace=A, run_facets=parent(A, "job", THEIR_RUN))
    )
    rows = project([limit_event(event, frozenset({A}), ())])
    assert rows.runs[UUID(run_id("ajob"))].parent_run_id == UUID(THEIR_RUN)
