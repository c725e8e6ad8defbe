"""A key that is limited to a namespace gives no access to others."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from tests.catalog_support import (
    Catalog,
    bearer,
    dataset,
    fresh_database,
    guarded,
    run_event,
    run_id,
    running,
)

from headwater.catalog.store import migrate
from headwater.catalog.store.keys import create_key
from headwater.settings import Settings

SECRET = "payroll"


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A service with data of the namespace `other`, called with a key for `mine`."""
    database = fresh_database(postgres)
    migrate(database)
    with running(guarded(headwater_settings), database) as found:
        found.headers = bearer(create_key(database, "all", "admin", None)[1])
        output = dataset(SECRET, fields=["salary"])
        found.send(run_event("START", job="theirs", namespace="other", outputs=[output]))
        found.headers = bearer(create_key(database, "limited", "admin", "mine")[1])
        yield found


def test_a_limited_key_gives_access_to_its_namespace_only(service: Catalog) -> None:
    mine, other = run_event(namespace="mine"), run_event(namespace="other")
    assert service.call("POST", "/lineage", json=mine).status_code == 201
    assert service.call("POST", "/lineage", json=other).status_code == 403
    both = service.call("POST", "/lineage/batch", json=[mine, other])
    assert both.json()["summary"]["failed"] == 1
    assert service.call("GET", "/namespaces/mine/jobs").status_code == 200
    for path in (
        "/namespaces/other/jobs",
        "/namespaces/%6d%69ne%2f/jobs",
        "/namespaces",
        "/jobs",
        "/search?q=a",
        "/lineage?nodeId=job:other:job",
        "/events/lineage",
    ):
        assert service.call("GET", path).status_code == 403, path


def test_a_limited_key_can_not_reach_a_foreign_dataset_by_a_job_or_a_symlink(
    service: Catalog,
) -> None:
    # A job in its namespace that uses the dataset, and a symlink, which is ignored.
    service.send(run_event(job="spy", namespace="mine", inputs=[SECRET]))
    alias = {"namespace": "mine", "name": "alias", "type": "TABLE"}
    target = dataset(SECRET, symlinks={"identifiers": [alias]})
    service.send(run_event(job="renames", namespace="mine", inputs=[target]))
    for name in (SECRET, "alias"):
        for method, path in (
            ("GET", ""),
            ("GET", "/versions"),
            ("GET", f"/versions/{run_id('x')}"),
            ("POST", "/tags/PII"),
            ("DELETE", "/tags/PII"),
            ("POST", "/fields/salary/tags/PII"),
            ("DELETE", "/fields/salary/tags/PII"),
            ("DELETE", ""),
        ):
            answer = service.call(method, f"/namespaces/mine/datasets/{name}{path}")
            assert answer.status_code == 404, f"{method} {name}{path}: {answer.text}"
            assert "salary" not in answer.text


def test_runs_of_other_namespaces_can_not_be_changed(service: Catalog) -> None:
    theirs = run_id("theirs")
    event = run_event("FAIL", job="thief", namespace="mine", run=theirs, at="2020-01-01T00:00:00Z")
    refused = service.call("POST", "/lineage", json=event)
    assert refused.status_code == 409, "the sender does not repeat it"
    assert theirs in refused.json()["message"]
    batch = service.call("POST", "/lineage/batch", json=[event, run_event(namespace="mine")])
    assert (batch.status_code, batch.json()["status"]) == (200, "partial_success")
    assert [each["index"] for each in batch.json()["failed_events"]] == [0]
    job = {"type": "BATCH", "runId": theirs}
    assert service.call("PUT", "/namespaces/mine/jobs/j", json=job).status_code == 404
    table = {"type": "DB_TABLE", "physicalName": "p", "sourceName": "default", "runId": theirs}
    assert service.call("PUT", "/namespaces/mine/datasets/d", json=table).status_code == 403
    for word in ("start", "complete", "fail", "abort"):
        assert service.call("POST", f"/jobs/runs/{theirs}/{word}").status_code == 403
    stored = service.rows(
        "SELECT r.id, r.end_state, j.name FROM runs r JOIN jobs j ON j.id = r.job_id"
    )
    assert (UUID(theirs), None, "theirs") in stored


def test_naming_a_run_as_parent_does_not_claim_it_for_another_namespace(service: Catalog) -> None:
    parent = {"run": {"runId": run_id("claimed")}, "job": {"namespace": "other", "name": "x"}}
    child = run_event(job="child", namespace="mine", run_facets={"parent": parent})
    service.send(child, run_event("START", job="own", namespace="mine", run=run_id("claimed")))
    stored = service.rows("SELECT r.id, j.name FROM runs r JOIN jobs j ON j.id = r.job_id")
    assert (UUID(run_id("claimed")), "own") in stored
