"""What Marquez does beside what was recorded: codes, words in any case, and what is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from tests.catalog_support import Catalog, dataset, run_event, run_id

from headwater.catalog.store.stats import Period, intervals

PLACE = "/namespaces/by-hand"
TABLE = {"type": "DB_TABLE", "physicalName": "t", "sourceName": "s"}


@pytest.fixture(scope="module")
def by_hand(catalog: Catalog) -> Catalog:
    """A service with a namespace, a source, a dataset and a job that were made by hand."""
    for path, body in (
        (PLACE, {"ownerName": "me"}),
        ("/sources/s", {"type": "POSTGRESQL", "connectionUrl": "jdbc:x"}),
        (f"{PLACE}/datasets/t", {**TABLE, "fields": [{"name": "c", "type": "TEXT"}]}),
        (f"{PLACE}/jobs/j", {"type": "BATCH"}),
    ):
        answer = catalog.call("PUT", path, json=body)
        assert answer.status_code == 200, answer.text
    return catalog


def test_a_job_made_by_hand_names_datasets_that_are_there(by_hand: Catalog) -> None:
    body = {"type": "BATCH", "inputs": [{"namespace": "by-hand", "name": "t"}]}
    assert by_hand.call("PUT", f"{PLACE}/jobs/reader", json=body).status_code == 200
    for key in ("inputs", "outputs"):
        body = {"type": "BATCH", key: [{"namespace": "by-hand", "name": "nothing"}]}
        answer = by_hand.call("PUT", f"{PLACE}/jobs/new", json=body)
        assert answer.json() == {"code": 404, "message": "Dataset 'nothing' not found."}
    assert by_hand.call("GET", f"{PLACE}/jobs/new").status_code == 404


def test_a_job_made_by_hand_names_a_run_of_its_own(by_hand: Catalog) -> None:
    by_hand.send(run_event(job="another"))
    for run in (run_id("another"), run_id("nobody's")):
        body = {"type": "BATCH", "runId": run}
        answer = by_hand.call("PUT", f"{PLACE}/jobs/j", json=body)
        assert answer.json() == {"code": 404, "message": f"Run '{run}' not found."}


def test_a_run_made_by_hand_is_where_the_answer_says(by_hand: Catalog) -> None:
    made = by_hand.call("POST", f"{PLACE}/jobs/j/runs", json={})
    assert made.status_code == 201
    assert by_hand.call("GET", by_hand.url + made.headers["Location"]).json() == made.json()


def test_a_tag_that_is_put_again_keeps_its_description(by_hand: Catalog) -> None:
    by_hand.call("PUT", "/tags/MONEY", json={"description": "all of it"})
    again = by_hand.call("PUT", "/tags/MONEY", json={})
    assert again.json() == {"name": "MONEY", "description": "all of it"}


def test_tags_of_columns_are_written_in_capitals(by_hand: Catalog) -> None:
    tagged = by_hand.call("POST", f"{PLACE}/datasets/t/fields/c/tags/low").json()
    assert tagged["fields"][0]["tags"] == ["LOW"]
    untagged = by_hand.call("DELETE", f"{PLACE}/datasets/t/fields/c/tags/low").json()
    assert untagged["fields"][0]["tags"] == []
    tagged = by_hand.call("POST", f"{PLACE}/datasets/t/tags/low").json()
    assert tagged["tags"] == ["low"]


def test_a_namespace_may_have_every_mark_that_marquez_takes(by_hand: Catalog) -> None:
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
def test_words_of_a_choice_are_taken_in_any_case(by_hand: Catalog, path: str) -> None:
    by_hand.send(run_event(job="cased"))
    answer = by_hand.call("GET", path.format(run=run_id("cased")))
    assert answer.status_code == 200, answer.text


def test_jobs_of_a_namespace_that_is_not_there_are_none(by_hand: Catalog) -> None:
    assert by_hand.get("/namespaces/nowhere/jobs") == {"totalCount": 0, "jobs": []}
    assert by_hand.call("GET", "/namespaces/nowhere/datasets").status_code == 404


def test_a_job_that_never_ran_is_in_every_state_and_all_jobs_are_counted(by_hand: Catalog) -> None:
    by_hand.call("PUT", "/namespaces/states", json={})
    by_hand.call("PUT", "/namespaces/states/jobs/never", json={"type": "BATCH"})
    by_hand.send(
        run_event(job="done", namespace="states", run=run_id("states done")),
        run_event("FAIL", job="failed", namespace="states", run=run_id("states failed")),
    )
    found = by_hand.get("/namespaces/states/jobs?lastRunStates=FAILED")
    assert sorted(job["name"] for job in found["jobs"]) == ["failed", "never"]
    assert found["totalCount"] == 3


def test_a_job_that_was_tagged_or_deleted_is_shown_without_its_runs(by_hand: Catalog) -> None:
    by_hand.send(run_event(job="changed", inputs=["c_in"], outputs=["c_out"]))
    place = "/namespaces/tests/jobs/changed"
    for method, path, tags in (
        ("POST", "/tags/PII", ["PII"]),
        ("DELETE", "/tags/PII", []),
        ("DELETE", "", []),
    ):
        shown = by_hand.call(method, place + path).json()
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
def test_what_is_no_node_and_no_question_gets_the_code_of_marquez(
    by_hand: Catalog, path: str, status: int, message: str
) -> None:
    answer = by_hand.call("GET", path)
    assert (answer.status_code, answer.json()["message"]) == (status, message)


def test_a_week_needs_a_zone_where_marquez_needs_it(by_hand: Catalog) -> None:
    answer = by_hand.call("GET", "/stats/lineage-events?period=WEEK")
    assert answer.status_code == 400
    assert answer.json()["message"] == "Timezone must be specified for period 'WEEK'"
    assert by_hand.get("/stats/datasets?period=WEEK") == []


def test_days_are_counted_in_the_askers_zone_and_hours_are_hours() -> None:
    # On 25 October 2026 clocks in Berlin were set back.
    now = datetime(2026, 10, 27, 12, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    week = [span[0].astimezone(UTC) for span in intervals(Period.WEEK, now)]
    assert [each.hour for each in week] == [22, 22, 22, 22, 22, 23, 23]
    day = intervals(Period.DAY, datetime(2026, 10, 25, 5, tzinfo=ZoneInfo("Europe/Berlin")))
    assert len(day) == 24
    assert {(end - start).total_seconds() for start, end in day} == {3600.0}


def test_column_lineage_of_a_version_has_its_columns_and_a_mark_in_a_name_is_no_version(
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
