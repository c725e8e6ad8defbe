"""Events are listed as they were sent; batches, times and tags of OpenLineage's clients."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.catalog_support import PRODUCER, SPEC, Catalog, dataset, run_event, run_id

JSON = {"Content-Type": "application/json"}
# Numbers, escapes, spaces and the order of keys that a parser would change.
RAW = """{ "eventTime": "2026-01-01T10:00:00.537518495Z",  "eventType":"COMPLETE",
 "run": {"runId": "%s", "facets": {"n": {"pi": 3.14159265358979323846, "big": 1e400, "i": -0.0,
   "long": 123456789012345678901234567890, "text": "\\u00fc \\u0000 \\/", "none": null}}},
 "job": {"name": "raw", "namespace": "tests"}, "producer": "https://example.com/tests",
 "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent" }"""


def raw_answer(catalog: Catalog, run: str) -> str:
    return str(catalog.call("GET", f"/events/lineage?runId={run}").text)


@pytest.mark.parametrize("way", ["single", "array", "lines"])
def test_an_event_is_listed_byte_for_byte_as_it_was_sent(catalog: Catalog, way: str) -> None:
    run = run_id(f"raw {way}")
    text = RAW.replace("1e400", "1e300") % run
    if way == "single":
        response = catalog.call("POST", "/lineage", data=text.encode(), headers=JSON)
        assert response.status_code == 201, response.text
    elif way == "array":
        body = f" [ {text} ,\n{text}] "
        response = catalog.call("POST", "/lineage/batch", data=body.encode(), headers=JSON)
        assert (response.status_code, response.json()["status"]) == (200, "success")
    else:
        text = text.replace("\n", " ")
        lines = {"Content-Type": "application/x-ndjson"}
        response = catalog.call(
            "POST", "/lineage/batch", data=f"{text}\n\n".encode(), headers=lines
        )
        assert response.status_code == 200, response.text
    assert raw_answer(catalog, run) == f'{{"totalCount":1,"events":[{text}]}}'
    assert catalog.get(f"/jobs/runs/{run}")["endedAt"] == "2026-01-01T10:00:00.537518Z"


def test_only_events_of_runs_are_listed_unless_others_are_requested(catalog: Catalog) -> None:
    common: dict[str, Any] = {"eventTime": "2020-01-01T00:00:00Z", "producer": PRODUCER}
    job = {**common, "schemaURL": f"{SPEC}JobEvent", "job": {"namespace": "tests", "name": "j"}}
    of_dataset = {
        **common,
        "schemaURL": f"{SPEC}DatasetEvent",
        "dataset": {"namespace": "data", "name": "d"},
    }
    run = run_event(job="listed", at="2020-01-01T00:00:00Z")
    untyped = run_event(job="untyped", at="2020-01-01T00:00:00Z")
    del untyped["eventType"]
    catalog.send(job, of_dataset, run, untyped)
    day = "/events/lineage?before=2020-01-02T00:00:00Z"

    def listed(kind: str) -> list[str]:
        found = catalog.get(day + kind)
        assert found["totalCount"] == len(found["events"])
        return sorted(json.dumps(each, sort_keys=True) for each in found["events"])

    def expected(*events: dict[str, Any]) -> list[str]:
        return sorted(json.dumps(each, sort_keys=True) for each in events)

    assert listed("") == listed("&kind=run-event") == expected(run, untyped)
    assert listed("&kind=JOB_EVENT") == expected(job)
    assert listed("&kind=dataset_event") == expected(of_dataset)
    assert listed("&kind=ALL") == expected(job, of_dataset, run, untyped)
    assert catalog.call("GET", "/events/lineage?kind=OTHER").status_code == 400


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-01T10:00:00z", "2026-01-01T10:00:00Z"),
        ("2026-01-01t10:00:00.5z", "2026-01-01T10:00:00.500Z"),
        ("2026-01-01T10:00:00.123456789Z[UTC]", "2026-01-01T10:00:00.123456Z"),
        ("2026-01-01T11:00:00+01:00[Europe/Berlin]", "2026-01-01T10:00:00Z"),
    ],
)
def test_times_of_other_clients_are_accepted(catalog: Catalog, time: str, expected: str) -> None:
    catalog.send(run_event(job=time, at=time))
    assert catalog.get(f"/jobs/runs/{run_id(time)}")["endedAt"] == expected


@pytest.mark.parametrize(
    "time", ["2026-01-01T10:00:00[UTC]", "2026-01-01T10:00:00Z[", "z", "[UTC]"]
)
def test_a_time_without_an_offset_is_refused(catalog: Catalog, time: str) -> None:
    assert catalog.call("POST", "/lineage", json=run_event(at=time)).status_code == 422


def test_a_run_has_its_nominal_times(catalog: Catalog) -> None:
    nominal = {"nominalStartTime": "2026-01-01T00:00:00Z", "nominalEndTime": "2026-01-02T00:00Z"}
    catalog.send(run_event(job="nominal", run_facets={"nominalTime": nominal}))
    found = catalog.get(f"/jobs/runs/{run_id('nominal')}")
    assert found["nominalStartTime"] == "2026-01-01T00:00:00Z"
    assert found["nominalEndTime"] == "2026-01-02T00:00:00Z"
    catalog.send(run_event(job="not nominal", run_facets={"nominalTime": {"nominalEndTime": None}}))
    found = catalog.get(f"/jobs/runs/{run_id('not nominal')}")
    assert (found["nominalStartTime"], found["nominalEndTime"]) == (None, None)


def test_tags_of_the_facet_are_shown_with_those_of_the_api(catalog: Catalog) -> None:
    tags = [
        {"key": "tier", "value": "gold", "source": "DBT"},
        {"key": "pii", "value": "true", "field": "mail"},
        {"key": "nightly", "value": ""},
        {"key": "sales", "value": "sales", "source": "AIRFLOW"},
        {"value": "no key"},
        7,
    ]
    output = dataset("tagged", fields=["mail", "id"], tags={"tags": tags})
    catalog.send(run_event(job="tagged", outputs=[output], job_facets={"tags": {"tags": tags}}))
    path = "/namespaces/data/datasets/tagged"
    for tag in ("mine", "tier:gold"):
        assert catalog.call("POST", f"{path}/tags/{tag}").status_code == 200
    found = catalog.get(path)
    assert found["tags"] == ["mine", "nightly", "sales", "tier:gold"]
    assert {field["name"]: field["tags"] for field in found["fields"]} == {
        "mail": ["pii"],
        "id": [],
    }
    job = catalog.get("/namespaces/tests/jobs/tagged")
    assert job["tags"] == ["nightly", "pii", "sales", "tier:gold"]
    graph = catalog.get("/lineage?nodeId=job:tests:tagged")["graph"]
    (node,) = [each for each in graph if each["type"] == "DATASET"]
    assert node["data"]["tags"] == ["mine", "nightly", "sales", "tier:gold"]
    # A later facet replaces an earlier one; tags of the API stay.
    later = dataset("tagged", fields=["mail"], tags={"tags": []})
    catalog.send(run_event(job="untagged", at="2026-01-02T00:00:00Z", outputs=[later]))
    assert catalog.get(path)["tags"] == ["mine", "tier:gold"]
