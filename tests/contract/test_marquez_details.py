"""Behaviour of Marquez that is not in the recording: status codes, case, and fields shown."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from tests.catalog_support import Catalog, dataset, run_event, run_id

from headwater.catalog.store.stats import Period, intervals

PREFIX = "/namespaces/by-hand"
TABLE = {"type": "DB_TABLE", "physicalName": "t", "sourceName": "s"}


@pytest.fixture(scope="module")
def by_hand(catalog: Catalog) -> Catalog:
    """A service with a namespace, a source, a dataset and a job created through the API."""
    for path, body in (
        (PREFIX, {"ownerName": "me"}),
        ("/sources/s", {"type": "POSTGRESQL", "connectionUrl": "jdbc:x"}),
        (f"{PREFIX}/datasets/t", {**TABLE, "fields": [{"name": "c", "type": "TEXT"}]}),
        (f"{PREFIX}/jobs/j", {"type": "BATCH"}),
    ):
        response = catalog.call("PUT", path, json=body)
        assert response.status_code == 200, response.text
    return catalog


def test_a_job_created_through_the_api_needs_existing_datasets(by_hand: Catalog) -> None:
    body = {"type": "BATCH", "inputs": [{"namespace": "by-hand", "name": "t"}]}
    assert by_hand.call("PUT", f"{PREFIX}/jobs/reader", json=body).status_code == 200
    for key in ("inputs", "outputs"):
        body = {"type": "BATCH", key: [{"namespace": "by-hand", "name": "nothing"}]}
        response = by_hand.call("PUT", f"{PREFIX}/jobs/new", json=body)
        assert response.json() == {"code": 404, "message": "Dataset 'nothing' not found."}
    assert by_hand.call("GET", f"{PREFIX}/jobs/new").status_code == 404


def test_a_job_created_through_the_api_needs_a_run_of_the_same_job(by_hand: Catalog) -> None:
    by_hand.send(run_event(job="another"))
    for run in (run_id("another"), run_id("unknown")):
        body = {"type": "BATCH", "runId": run}
        response = by_hand.call("PUT", f"{PREFIX}/jobs/j", json=body)
        assert response.json() == {"code": 404, "message": f"Run '{run}' not found."}


def test_a_created_run_is_found_at_its_location_header(by_hand: Catalog) -> None:
    created = by_hand.call("POST", f"{PREFIX}/jobs/j/runs", json={})
    assert created.status_code == 201
    assert by_hand.call("GET", by_hand.url + created.headers["Location"]).json() == created.json()


def test_a_tag_that_is_put_again_keeps_its_description(by_hand: Catalog) -> None:
    by_hand.call("PUT", "/tags/MONEY", json={"description": "all of it"})
    again = by_hand.call("PUT", "/tags/MONEY", json={})
    assert again.json() == {"name": "MONEY", "description": "all of it"}


def test_tags_of_columns_are_stored_in_upper_case(by_hand: Catalog) -> None:
    tagged = by_hand.call("POST", f"{PREFIX}/datasets/t/fields/c/tags/low").json()
    assert tagged["fields"][0]["tags"] == ["LOW"]
    untagged = by_hand.call("DELETE", f"{PREFIX}/datasets/t/fields/c/tags/low").json()
    assert untagged["fields"][0]["tags"] == []
    tagged = by_hand.call("POST", f"{PREFIX}/datasets/t/tags/low").json()
    assert tagged["tags"] == ["low"]


def test_a_namespace_may_have_every_character_that_marquez_allows(by_hand: Catalog) -> None:
    name = "Az:;=/0_-.@+"
    path = "/namespaces/Az%3A%3B%3D%2F0_-.%40%2B"
    assert by_hand.call("PUT", path, json={}).json()["name"] == name


@pytest.mark.parametrize(
    "path",
    [
        "/search?q=t&filter=dataset&sort=update-at",
        "/events/lineage?sortDirection=asc",
        "/events/lineage?sortDirection=ASC",
        "/stats/jobs?period=day",
        "/jobs?lastRunStates=completed&lastRunStates=Running",
        "/jobs/runs/{run}/facets?type=RUN",
    ],
)
def test_enumerated_parameters_ignore_case(by_hand: Catalog, path: str) -> None:
    by_hand.send(run_event(job="cased"))
    response = by_hand.call("GET", path.format(run=run_id("cased")))
    assert response.status_code == 200, response.text


def test_an_unknown_namespace_has_no_jobs(by_hand: Catalog) -> None:
    assert by_hand.get("/namespaces/nowhere/jobs") == {"totalCount": 0, "jobs": []}
    assert by_hand.call("GET", "/namespaces/nowhere/datasets").status_code == 404


def test_a_job_without_runs_is_in_every_state_and_all_jobs_are_counted(by_hand: Catalog) -> None:
    by_hand.call("PUT", "/namespaces/states", json={})
    by_hand.call("PUT", "/namespaces/states/jobs/never", json={"type": "BATCH"})
    by_hand.send(
        run_event(job="done", namespace="states", run=run_id("states done")),
        run_event("FAIL", job="failed", namespace="states", run=run_id("states failed")),
    )
    found = by_hand.get("/namespaces/states/jobs?lastRunStates=FAILED")
    assert sorted(job["name"] for job in found["jobs"]) == ["failed", "never"]
    assert found["totalCount"] == 3


def test_tagging_or_deleting_a_job_returns_it_without_its_runs(by_hand: Catalog) -> None:
    by_hand.send(run_event(job="changed", inputs=["c_in"], outputs=["c_out"]))
    prefix = "/namespaces/tests/jobs/changed"
    for method, path, tags in (
        ("POST", "/tags/PII", ["PII"]),
        ("DELETE", "/tags/PII", []),
        ("DELETE", "", []),
    ):
        shown = by_hand.call(method, prefix + path).json()
        assert (shown["latestRun"], shown["latestRuns"], shown["outputs"]) == (None, None, [])
        assert (shown["tags"], shown["inputs"][0]["name"]) == (tags, "c_in")


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/lineage?nodeId=table:a:b", 404, "HTTP 404 Not Found"),
        ("/lineage?nodeId=job", 404, "HTTP 404 Not Found"),
        ("/lineage?nodeId=run:1", 404, "Node 'run:1' must be of type dataset or job!"),
        ("/column-lineage?nodeId=table:a:b", 404, "HTTP 404 Not Found"),
        ("/column-lineage?nodeId=run:1", 404, "Could not find node"),
        ("/search", 400, "query param q must not be blank"),
        ("/search?q=%20", 400, "query param q must not be blank"),
    ],
)
def test_an_invalid_node_or_search_gets_the_status_of_marquez(
    by_hand: Catalog, path: str, status: int, message: str
) -> None:
    response = by_hand.call("GET", path)
    assert (response.status_code, response.json()["message"]) == (status, message)


def test_a_week_requires_a_time_zone_as_in_marquez(by_hand: Catalog) -> None:
    response = by_hand.call("GET", "/stats/lineage-events?period=WEEK")
    assert response.status_code == 400
    assert response.json()["message"] == "Timezone must be specified for period 'WEEK'"
    assert by_hand.get("/stats/datasets?period=WEEK") == []


def test_days_are_in_the_requested_time_zone_and_hours_are_equal() -> None:
    # On 25 October 2026 clocks in Berlin were set back.
    now = datetime(2026, 10, 27, 12, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    week = [span[0].astimezone(UTC) for span in intervals(Period.WEEK, now)]
    assert [each.hour for each in week] == [22, 22, 22, 22, 22, 23, 23]
    day = intervals(Period.DAY, datetime(2026, 10, 25, 5, tzinfo=ZoneInfo("Europe/Berlin")))
    assert len(day) == 24
    assert {(end - start).total_seconds() for start, end in day} == {3600.0}


def test_column_lineage_of_a_version_works_with_a_hash_sign_in_the_name(
    by_hand: Catalog,
) -> None:
    lineage = {"fields": {"x": {"inputFields": [{"namespace": "data", "name": "a", "field": "y"}]}}}
    by_hand.send(run_event(job="c", outputs=[dataset("b#c", fields=["x"], columnLineage=lineage)]))
    found = by_hand.get("/column-lineage", params={"nodeId": "dataset:data:b#c"})["graph"]
    assert [node["id"] for node in found] == ["datasetField:data:a:y", "datasetField:data:b#c:x"]
    version = by_hand.get("/namespaces/data/datasets/b%23c")["currentVersion"]
    node = f"dataset:data:b#c#{version}"
    assert by_hand.get("/column-lineage", params={"nodeId": node})["graph"] == found
    of_job = by_hand.get("/namespaces/tests/jobs/c")["currentVersion"]
    node_of_job = {"nodeId": f"job:tests:c#{of_job}"}
    assert by_hand.get("/column-lineage", params=node_of_job)["graph"] == found
    unknown = {"nodeId": f"dataset:data:b#c#{run_id('no version')}"}
    assert by_hand.call("GET", "/column-lineage", params=unknown).status_code == 404
    both = {"nodeId": node, "withDownstream": "true"}
    assert by_hand.call("GET", "/column-lineage", params=both).status_code == 400
