"""Jobs that start other jobs, and runs that start other runs, in the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.catalog_support import (
    Catalog,
    bearer,
    fresh_database,
    guarded,
    run_event,
    run_id,
    running,
)

from headwater.catalog.store.keys import create_key
from headwater.settings import Settings

DAG = run_id("dag run")
DAG_JOB = "/namespaces/airflow/jobs/dag/hierarchy"


def started_by(run: str, job: str) -> dict[str, Any]:
    return {"parent": {"run": {"runId": run}, "job": {"namespace": "airflow", "name": job}}}


def task(name: str, minute: int, end: str, namespace: str = "airflow") -> list[dict[str, Any]]:
    common: dict[str, Any] = {"job": name, "namespace": namespace, "run": run_id(name)}
    facets = started_by(DAG, "dag")
    return [
        run_event("START", at=f"2026-01-01T00:{minute:02}:00Z", run_facets=facets, **common),
        run_event(end, at=f"2026-01-01T00:{minute:02}:30Z", run_facets=facets, **common),
    ]


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A DAG with three tasks, one of which runs a Spark application in another namespace."""
    with running(guarded(headwater_settings), fresh_database(postgres)) as found:
        found.headers = bearer(create_key(found.database, "all", "admin", None)[1])
        common: dict[str, Any] = {"job": "dag", "namespace": "airflow", "run": DAG}
        found.send(
            run_event("START", at="2026-01-01T00:00:00Z", **common),
            *task("dag.load", 1, "COMPLETE"),
            *task("dag.check", 2, "FAIL"),
            *task("spark_app", 3, "COMPLETE", namespace="spark"),
            run_event("FAIL", at="2026-01-01T00:09:00Z", **common),
            run_event(
                job="query",
                namespace="spark",
                run_facets=started_by(run_id("dag.load"), "dag.load"),
            ),
        )
        yield found


def test_a_job_has_its_parent_and_its_children_with_their_latest_runs(service: Catalog) -> None:
    dag = service.get(DAG_JOB)
    assert dag["parent"] is None
    assert dag["totalCount"] == 3
    shown = [(each["name"], each["simpleName"]) for each in dag["children"]]
    assert shown == [("dag.check", "check"), ("dag.load", "load"), ("spark_app", "spark_app")]
    assert dag["children"][0]["latestRun"] == {
        "id": run_id("dag.check"),
        "namespace": "airflow",
        "name": "dag.check",
        "state": "FAILED",
        "startedAt": "2026-01-01T00:02:00Z",
        "endedAt": "2026-01-01T00:02:30Z",
        "updatedAt": "2026-01-01T00:02:30Z",
        "durationMs": 30_000,
    }
    load = service.get("/namespaces/airflow/jobs/dag.load/hierarchy")
    assert (load["parent"]["name"], load["parent"]["latestRun"]["state"]) == ("dag", "FAILED")
    assert [each["name"] for each in load["children"]] == ["query"]


def test_a_run_has_its_job_its_parent_and_the_runs_that_it_started(service: Catalog) -> None:
    dag = service.get(f"/jobs/runs/{DAG}/hierarchy")
    assert dag["job"] == {"namespace": "airflow", "name": "dag"}
    assert dag["parent"] is None
    # In the order in which they started.
    shown = [(each["name"], each["state"]) for each in dag["children"]]
    assert shown == [("dag.load", "COMPLETED"), ("dag.check", "FAILED"), ("spark_app", "COMPLETED")]
    load = service.get(f"/jobs/runs/{run_id('dag.load')}/hierarchy")
    assert (load["parent"]["id"], load["parent"]["name"]) == (DAG, "dag")
    assert load["totalCount"] == 1


def test_children_are_listed_page_by_page(service: Catalog) -> None:
    for path in (DAG_JOB, f"/jobs/runs/{DAG}/hierarchy"):
        pages = [service.get(f"{path}?limit=2&offset={offset}") for offset in (0, 2, 4)]
        assert [len(page["children"]) for page in pages] == [2, 1, 0]
        assert {page["totalCount"] for page in pages} == {3}


def test_an_unknown_job_or_run_has_no_hierarchy(service: Catalog) -> None:
    for path in ("/namespaces/airflow/jobs/gone/hierarchy", f"/jobs/runs/{run_id('x')}/hierarchy"):
        assert service.call("GET", path).status_code == 404


def test_a_limited_key_sees_only_children_and_parents_of_its_namespace(service: Catalog) -> None:
    _, key = create_key(service.database, "narrow", "read", "airflow")
    dag = service.get(DAG_JOB, headers=bearer(key))
    assert [each["name"] for each in dag["children"]] == ["dag.check", "dag.load"]
    assert dag["totalCount"] == 2
    _, spark = create_key(service.database, "spark", "read", "spark")
    app = service.get("/namespaces/spark/jobs/spark_app/hierarchy", headers=bearer(spark))
    assert app["parent"] is None
    foreign = service.call("GET", f"/jobs/runs/{DAG}/hierarchy", headers=bearer(key))
    assert foreign.status_code == 403
