"""Invalid input never causes a 5xx, and never breaks later queries."""

from __future__ import annotations

import gzip
import json
import time
from typing import Any

import pytest
from tests.catalog_support import PRODUCER, SPEC, Catalog, dataset, run_event, run_id

JSON = {"Content-Type": "application/json"}
GZIP = {**JSON, "Content-Encoding": "gzip"}

LISTS = (
    "/namespaces",
    "/jobs?limit=1000",
    "/sources",
    "/jobs/runs?limit=1000",
    "/search?q=a&limit=1000",
    "/events/lineage?limit=1000",
    "/namespaces/data/datasets?limit=1000",
)


def assert_queries_work(catalog: Catalog, *paths: str) -> None:
    for path in (*LISTS, *paths):
        catalog.get(path)


@pytest.mark.parametrize(
    "event",
    [
        {
            "schemaURL": f"{SPEC}DatasetEvent",
            "dataset": {"namespace": "data", "name": "odd"},
            "inputs": [7],
            "job": {"facets": [1]},
            "run": 5,
        },
        {
            "schemaURL": f"{SPEC}JobEvent",
            "job": {"namespace": "tests", "name": "odd"},
            "run": {"facets": "text"},
            "dataset": {"facets": 5, "name": []},
        },
    ],
)
def test_fields_of_other_event_kinds_are_listed_unchanged(
    catalog: Catalog, event: dict[str, Any]
) -> None:
    sent = {"eventTime": "2026-01-01T00:00:00Z", "producer": PRODUCER, **event}
    catalog.send(sent)
    (listed,) = [
        each
        for each in catalog.get("/events/lineage?kind=ALL")["events"]
        if each["schemaURL"] == event["schemaURL"]
    ]
    assert listed == sent


ODD_FACETS: list[Any] = [
    1,
    [1],
    {"fields": [1]},
    {"fields": {"a": None}},
    {"fields": {"a": {"inputFields": 7}}},
    {"fields": {"a": {"inputFields": [None, {"namespace": "data", "name": 1}]}}},
    {
        "fields": {
            "a": {
                "inputFields": [
                    {"namespace": "data", "name": "m", "field": "f", "transformations": [7, {}]}
                ],
                "transformationType": {},
                "transformationDescription": [],
            }
        }
    },
    {"identifiers": [7], "name": 1, "uri": 7, "url": 7, "description": 7},
    {"job": {"namespace": 1, "name": 2}, "run": {"runId": 3}, "nominalStartTime": True},
]
NAMES = (
    "columnLineage",
    "dataSource",
    "symlinks",
    "lifecycleStateChange",
    "documentation",
    "jobType",
    "sourceCodeLocation",
    "parent",
    "nominalTime",
)


@pytest.mark.parametrize("number", range(len(ODD_FACETS)))
def test_a_standard_facet_with_invalid_content_breaks_nothing(
    catalog: Catalog, number: int
) -> None:
    odd = dict.fromkeys(NAMES, ODD_FACETS[number])
    name = f"odd{number}"
    event = run_event(
        job=name,
        inputs=[{**dataset(f"in{number}", **odd), "inputFacets": odd}],
        outputs=[{**dataset(name, **odd), "outputFacets": odd}],
        run_facets=odd,
        job_facets=odd,
    )
    catalog.send(event)
    assert_queries_work(
        catalog,
        f"/jobs/runs/{run_id(name)}",
        f"/namespaces/tests/jobs/{name}",
        f"/namespaces/tests/jobs/{name}/versions",
        f"/namespaces/data/datasets/{name}",
        f"/namespaces/data/datasets/{name}/versions",
        f"/lineage?nodeId=job:tests:{name}",
    )
    for node in (f"dataset:data:{name}", f"job:tests:{name}"):
        response = catalog.call("GET", f"/column-lineage?nodeId={node}&withDownstream=true")
        assert response.status_code in (200, 404)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs/runs?state=%00", 400),
        ("/jobs/runs?state=nothing", 400),
        ("/jobs?lastRunStates=%00", 400),
        ("/search?q=%00", 400),
        ("/search?q=a&namespace=%00", 400),
        ("/records/t/0/0?namespace=%00", 404),
        ("/stats/jobs?period=WEEK&timezone=..%2F..%2Fetc%2Fpasswd", 400),
        ("/stats/jobs?period=WEEK&timezone=%00", 400),
        # Time zones that Python knows and PostgreSQL does not.
        ("/stats/jobs?period=WEEK&timezone=localtime", 200),
        ("/stats/lineage-events?period=WEEK&timezone=posixrules", 200),
        ("/namespaces?limit=1.0", 404),
        ("/namespaces?limit=1_0", 404),
        ("/namespaces?limit=%D9%A1", 404),
        ("/namespaces?limit=1&limit=x", 404),
        ("/namespaces?offset=2147483647", 200),
        ("/namespaces/%FF/jobs", 404),
        ("/namespaces/%ED%A0%80/jobs", 404),
        ("/lineage?nodeId=" + "a" * 9000, 400),
    ],
)
def test_an_invalid_query_gets_its_status_code(catalog: Catalog, path: str, status: int) -> None:
    response = catalog.call("GET", path)
    assert response.status_code == status, response.text


@pytest.mark.parametrize(
    "time", [253402300799999, -62135596800, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]
)
def test_a_time_out_of_range_is_refused(catalog: Catalog, time: Any) -> None:
    event = {**run_event(), "eventTime": time}
    response = catalog.call("POST", "/lineage", json=event)
    assert response.status_code == 422
    assert "eventTime" in response.json()["errors"][0]


def test_unix_time_in_milliseconds_is_exact(catalog: Catalog) -> None:
    catalog.send({**run_event(job="in ms"), "eventTime": 1763200000123})
    assert catalog.get(f"/jobs/runs/{run_id('in ms')}")["endedAt"] == "2025-11-15T09:46:40.123Z"


def test_a_gzip_body_may_have_several_members_but_no_trailing_data(catalog: Catalog) -> None:
    event = json.dumps(run_event(job="members")).encode()
    members = gzip.compress(b"[" + event) + gzip.compress(b"]")
    response = catalog.call("POST", "/lineage/batch", data=members, headers=GZIP)
    assert response.status_code == 200, response.text
    trailing = gzip.compress(event) + b"more"
    assert catalog.call("POST", "/lineage", data=trailing, headers=GZIP).status_code == 400
    # Compressed bytes count, too: empty members would never end.
    empty = gzip.compress(b"") * 1_000_000
    assert catalog.call("POST", "/lineage", data=empty, headers=GZIP).status_code == 413
    # 10 times as many members take 10 times as long, not 100 times: that would be minutes.
    began = time.monotonic()
    empty = gzip.compress(b"") * 700_000
    assert catalog.call("POST", "/lineage", data=empty, headers=GZIP).status_code == 400
    assert time.monotonic() - began < 15


def test_a_batch_with_too_many_events_is_refused(catalog: Catalog) -> None:
    lines = catalog.call(
        "POST",
        "/lineage/batch",
        data=b"{}\n" * 1_000_000,
        headers={"Content-Type": "application/x-ndjson"},
    )
    array = catalog.call("POST", "/lineage/batch", data=b"[" + b"0," * 10_000 + b"0]", headers=JSON)
    for response in (lines, array):
        assert (response.status_code, "10000" in response.text) == (413, True), response.text


def test_invalid_events_of_a_batch_are_named_by_index(catalog: Catalog) -> None:
    events = [run_event(job=f"many {i}") for i in range(450)]
    for bad in (3, 201, 449):
        events[bad] = {**events[bad], "eventType": "X"}
    response = catalog.call("POST", "/lineage/batch", json=events)
    assert (response.status_code, response.json()["status"]) == (200, "partial_success")
    assert [each["index"] for each in response.json()["failed_events"]] == [3, 201, 449]
    assert catalog.get("/search?q=many&limit=1000")["totalCount"] == 447


def test_a_list_of_large_events_is_truncated_and_can_be_paged(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        event = run_event(job="large", at=f"2029-01-0{i + 1}T00:00:00Z")
        catalog.send({**event, "note": "x" * 40_000})
    path = "/events/lineage?after=2029-01-01T00:00:00Z"
    assert "truncated" not in catalog.get(path)
    monkeypatch.setattr("headwater.catalog.store.namespaces.response_bytes", lambda _: 90_000)
    first = catalog.get(path)
    assert (len(first["events"]), first["totalCount"], first["truncated"]) == (2, 3, True)
    rest = catalog.get(f"{path}&offset=2")
    assert (len(rest["events"]), "truncated" in rest) == (1, False)
    monkeypatch.setattr("headwater.catalog.store.namespaces.response_bytes", lambda _: 1)
    assert len(catalog.get(path)["events"]) == 1


def test_lists_in_requests_are_limited(catalog: Catalog) -> None:
    catalog.call("PUT", "/namespaces/hand", json={})
    catalog.call("PUT", "/sources/s", json={"type": "X", "connectionUrl": "x"})
    body = {"type": "DB_TABLE", "physicalName": "p", "sourceName": "s"}
    for key, value in (("tags", ["t"]), ("fields", [{"name": "f"}])):
        response = catalog.call(
            "PUT", "/namespaces/hand/datasets/d", json={**body, key: value * 10_001}
        )
        assert response.status_code == 422
        assert key in response.json()["errors"][0]
