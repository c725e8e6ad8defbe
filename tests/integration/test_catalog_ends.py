"""The start and the end of runs: several ends, ends of parents, and starts of children."""

from __future__ import annotations

from typing import Any

import pytest
from tests.catalog_support import Catalog, dataset, run_event, run_id


def at(minute: int) -> str:
    return f"2026-01-01T10:{minute:02}:00Z"


def child_of(job: str, run: str | None = None) -> dict[str, Any]:
    parent = {"run": {"runId": run or run_id(job)}, "job": {"namespace": "tests", "name": job}}
    return {"parent": parent}


def run(catalog: Catalog, job: str) -> Any:
    return catalog.get(f"/jobs/runs/{run_id(job)}")


@pytest.mark.parametrize("worse", ["FAIL", "ABORT"])
def test_a_failure_outweighs_a_success_in_any_order(catalog: Catalog, worse: str) -> None:
    state = {"FAIL": "FAILED", "ABORT": "ABORTED"}[worse]
    for order in (0, 1):
        name = f"{worse} {order}"
        earlier = run_event(job=f"before {name}", at=at(0), outputs=[dataset(name, fields=["ok"])])
        written = [dataset(name, fields=["never"])]
        ends = [
            run_event(worse, job=name, at=at(1), outputs=written),
            run_event("COMPLETE", job=name, at=at(2), outputs=written),
        ]
        catalog.send(earlier, *(ends if order else reversed(ends)))
        assert (run(catalog, name)["state"], run(catalog, name)["endedAt"]) == (state, at(1))
        found = catalog.get(f"/namespaces/data/datasets/{name}")
        assert (found["lastWrittenAt"], found["fields"][0]["name"]) == (at(0), "ok")


def test_runs_that_never_end_are_closed_with_their_application(catalog: Catalog) -> None:
    for app, end, state in (("app", "COMPLETE", "COMPLETED"), ("bad", "FAIL", "ABORTED")):
        stage = child_of(f"{app}.sql")
        catalog.send(
            run_event("START", job=app, at=at(0)),
            run_event("START", job=f"{app}.rdd", at=at(1), run_facets=child_of(app)),
            run_event("START", job=f"{app}.sql", at=at(1), run_facets=child_of(app)),
            run_event("START", job=f"{app}.stage", at=at(2), run_facets=stage),
            run_event("FAIL", job=f"{app}.own", at=at(2), run_facets=child_of(app)),
            run_event(end, job=app, at=at(5)),
            # It arrives late.
            run_event("START", job=f"{app}.late", at=at(3), run_facets=child_of(app)),
        )
        for name in ("rdd", "sql", "stage", "late"):
            found = run(catalog, f"{app}.{name}")
            assert (found["state"], found["endedAt"]) == (state, at(5)), name
        assert run(catalog, f"{app}.own")["state"] == "FAILED"
    # What a run reports itself replaces what follows from its parent.
    catalog.send(run_event("FAIL", job="app.rdd", at=at(4), run_facets=child_of("app")))
    assert (run(catalog, "app.rdd")["state"], run(catalog, "app.rdd")["endedAt"]) == (
        "FAILED",
        at(4),
    )
    listed = catalog.get("/jobs/runs?state=RUNNING&limit=1000")["runs"]
    assert listed == []


def test_a_run_that_goes_on_after_its_parent_stays_open(catalog: Catalog) -> None:
    catalog.send(
        run_event("START", job="trigger", at=at(0)),
        run_event("START", job="long", at=at(1), run_facets=child_of("trigger")),
        run_event("START", job="long.step", at=at(1), run_facets=child_of("long")),
        run_event("COMPLETE", job="trigger", at=at(2)),
    )
    assert [run(catalog, name)["state"] for name in ("long", "long.step")] == ["COMPLETED"] * 2
    catalog.send(run_event("RUNNING", job="long", at=at(3), run_facets=child_of("trigger")))
    for name in ("long", "long.step"):
        found = run(catalog, name)
        assert (found["state"], found["endedAt"]) == ("RUNNING", None), name
    catalog.send(run_event("COMPLETE", job="long", at=at(9), run_facets=child_of("trigger")))
    assert run(catalog, "long")["endedAt"] == run(catalog, "long.step")["endedAt"] == at(9)


def test_a_parent_that_only_its_children_name_starts_with_the_first_of_them(
    catalog: Catalog,
) -> None:
    catalog.send(
        run_event("START", job="dag.b", at=at(3), run_facets=child_of("dag")),
        run_event("START", job="dag.a", at=at(2), run_facets=child_of("dag")),
        run_event("COMPLETE", job="dag.a", at=at(4), run_facets=child_of("dag")),
    )
    found = run(catalog, "dag")
    assert (found["state"], found["startedAt"]) == ("RUNNING", at(2))
    catalog.send(run_event("FAIL", job="dag", at=at(5)))
    found = run(catalog, "dag")
    assert (found["state"], found["durationMs"]) == ("FAILED", 180_000)
    catalog.send(run_event("START", job="dag", at=at(1)))
    assert run(catalog, "dag")["startedAt"] == at(1)


@pytest.mark.parametrize("given", [{}, {"eventType": None}])
def test_an_event_without_a_type_describes_a_run_and_does_not_change_its_state(
    catalog: Catalog, given: dict[str, Any]
) -> None:
    name = f"no type {len(given)}"
    event = run_event(job=name, at=at(1), inputs=["some"], run_facets={"f": {"n": 1}})
    del event["eventType"]
    catalog.send({**event, **given})
    found = run(catalog, name)
    assert (found["state"], found["facets"]["f"]) == ("NEW", {"n": 1})
    catalog.send(run_event("START", job=name, at=at(0)))
    assert run(catalog, name)["state"] == "RUNNING"
    catalog.send(run_event("COMPLETE", job=name, at=at(2)), {**event, **given, "eventTime": at(3)})
    assert (run(catalog, name)["state"], run(catalog, name)["endedAt"]) == ("COMPLETED", at(2))


def test_parents_of_old_clients_are_understood(catalog: Catalog) -> None:
    named = {"run": {"runId": "manual__2022"}, "job": {"namespace": "tests", "name": "old_dag"}}
    catalog.send(
        run_event("START", job="old_dag.a", at=at(1), run_facets={"parentRun": named}),
        run_event("START", job="old_dag.b", at=at(2), run_facets={"parent": named}),
    )
    assert catalog.get("/namespaces/tests/jobs/old_dag.a")["parentJobName"] == "old_dag"
    (parent,) = catalog.get("/namespaces/tests/jobs/old_dag/runs")["runs"]
    assert parent["startedAt"] == at(1)
    assert run(catalog, "old_dag.a")["args"]["run_id"] == "manual__2022"
