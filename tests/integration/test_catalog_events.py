"""The catalog after events, also where Marquez is wrong."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from tests.catalog_support import Catalog, dataset, fresh_database, run_event, run_id, running

from headwater.settings import Settings

STREAMING = {"jobType": {"processingType": "STREAMING", "integration": "SPARK", "jobType": "JOB"}}


def graph(catalog: Catalog, node: str, **params: Any) -> dict[str, dict[str, Any]]:
    response = catalog.get("/lineage", params={"nodeId": node, **params})
    return {each["id"]: each for each in response["graph"]}


def test_an_empty_service_has_the_same_content_as_an_empty_marquez(
    headwater_settings: Settings, postgres: str
) -> None:
    with running(headwater_settings, fresh_database(postgres)) as empty:
        assert [each["name"] for each in empty.get("/namespaces")["namespaces"]] == ["default"]
        assert [each["name"] for each in empty.get("/tags")["tags"]] == ["PII", "SENSITIVE"]
        assert empty.get("/jobs") == {"totalCount": 0, "jobs": []}
        assert empty.get("/sources") == {"sources": []}
        assert empty.get("/jobs/runs") == {"runs": [], "totalCount": 0}


def test_a_late_running_event_does_not_reopen_a_finished_run(catalog: Catalog) -> None:
    run = run_id("late")
    for kind, at in (("START", "10:00"), ("COMPLETE", "10:05"), ("RUNNING", "10:01")):
        catalog.send(run_event(kind, job="late", run=run, at=f"2026-01-01T{at}:00Z"))
    found = catalog.get(f"/jobs/runs/{run}")
    assert (found["state"], found["durationMs"]) == ("COMPLETED", 300_000)
    assert found["startedAt"] == "2026-01-01T10:00:00Z"


def test_the_same_event_twice_changes_nothing(catalog: Catalog) -> None:
    event = run_event(job="twice", inputs=[dataset("twice_in", fields=["a"])])
    catalog.send(event)
    everything = "SELECT xmin, * FROM {} ORDER BY 2"
    tables = ("events", "runs", "jobs", "datasets", "dataset_versions", "edges")
    before = [catalog.rows(everything.format(table)) for table in tables]
    catalog.send(event)
    assert [catalog.rows(everything.format(table)) for table in tables] == before


def test_a_streaming_job_is_in_the_graph_after_its_start_event(catalog: Catalog) -> None:
    catalog.send(
        run_event(
            "START",
            job="streaming",
            inputs=[dataset("clicks", fields=["id"])],
            outputs=[dataset("enriched", fields=["id"])],
            job_facets=STREAMING,
        )
    )
    nodes = graph(catalog, "job:tests:streaming")
    assert set(nodes) == {"job:tests:streaming", "dataset:data:clicks", "dataset:data:enriched"}
    assert catalog.get("/namespaces/data/datasets/enriched")["fields"][0]["name"] == "id"


def test_the_graph_is_the_union_of_runs_or_of_a_time_or_of_one_run(
    catalog: Catalog,
) -> None:
    first, second = run_id("union 1"), run_id("union 2")
    common: dict[str, Any] = {"job": "union", "outputs": ["union_out"]}
    catalog.send(
        run_event(run=first, at="2026-01-01T00:00:00Z", inputs=["union_a"], **common),
        run_event(run=second, at="2026-01-02T00:00:00Z", inputs=["union_b"], **common),
    )
    inputs = {"dataset:data:union_a", "dataset:data:union_b"}
    assert inputs < set(graph(catalog, "job:tests:union"))
    earlier = graph(catalog, "job:tests:union", at="2026-01-01T12:00:00Z")
    assert inputs & set(earlier) == {"dataset:data:union_a"}
    of_run = graph(catalog, "job:tests:union", run=second)
    assert set(of_run) == {"job:tests:union", "dataset:data:union_b", "dataset:data:union_out"}


def test_a_parent_job_lists_its_children(catalog: Catalog) -> None:
    parent = {
        "run": {"runId": run_id("the dag")},
        "job": {"namespace": "tests", "name": "the_dag"},
    }
    catalog.send(
        run_event("START", job="the_dag", run=run_id("the dag")),
        run_event(job="the_dag.task", inputs=["task_in"], run_facets={"parent": parent}),
    )
    child = catalog.get("/namespaces/tests/jobs/the_dag.task")
    assert (child["parentJobName"], child["simpleName"]) == ("the_dag", "task")
    nodes = graph(catalog, "job:tests:the_dag", depth=0)
    assert set(nodes) == {"job:tests:the_dag", "job:tests:the_dag.task", "dataset:data:task_in"}
    children = nodes["job:tests:the_dag"]["data"]["children"]
    assert children == [{"namespace": "tests", "name": "the_dag.task"}]


def test_a_run_belongs_to_the_job_that_its_own_events_name(catalog: Catalog) -> None:
    run = run_id("mentioned")
    parent = {"run": {"runId": run}, "job": {"namespace": "tests", "name": "named by child"}}
    catalog.send(
        run_event(job="a child", at="2026-01-01T00:00:00Z", run_facets={"parent": parent}),
        run_event("START", job="named by run", run=run, at="2026-01-02T00:00:00Z"),
    )
    runs = catalog.get("/namespaces/tests/jobs/named%20by%20run/runs")["runs"]
    assert [each["id"] for each in runs] == [run]
    assert catalog.get("/namespaces/tests/jobs/named%20by%20child/runs")["runs"] == []


def test_the_version_of_an_input_is_not_from_a_failed_run(catalog: Catalog) -> None:
    for day, kind in ((1, "COMPLETE"), (2, "FAIL")):
        run, at = run_id(f"version {day}"), f"2026-01-0{day}T00:00:00Z"
        catalog.send(run_event(kind, job="writes", run=run, at=at, outputs=["versioned"]))
    catalog.send(run_event(job="reads", at="2026-01-03T00:00:00Z", inputs=["versioned"]))
    upstream = catalog.get(f"/runlineage/upstream?runId={run_id('reads')}")["runs"]
    assert [each["run"]["id"] for each in upstream] == [run_id("reads"), run_id("version 1")]


def test_column_lineage_has_both_directions_and_transformations(catalog: Catalog) -> None:
    direct = {
        "type": "DIRECT",
        "subtype": "AGGREGATION",
        "description": "",
        "masking": False,
    }
    for source, target in (("raw", "mid"), ("mid", "end")):
        field = {
            "namespace": "data",
            "name": f"c_{source}",
            "field": "a",
            "transformations": [direct],
        }
        lineage = {"fields": {"a": {"inputFields": [field]}}}
        catalog.send(
            run_event(
                job=f"to_{target}",
                inputs=[dataset(f"c_{source}", fields=["a"])],
                outputs=[dataset(f"c_{target}", fields=["a"], columnLineage=lineage)],
            )
        )
    down = catalog.get(
        "/column-lineage", params={"nodeId": "datasetField:data:c_raw:a", "withDownstream": "true"}
    )["graph"]
    names = [f"datasetField:data:c_{name}:a" for name in ("end", "mid", "raw")]
    assert [node["id"] for node in down] == names
    (end,) = [node for node in down if node["id"] == names[0]]
    assert end["data"]["inputFields"][0]["transformations"] == [direct]
    assert end["data"]["transformationType"] == "AGGREGATION"
    up = catalog.get("/column-lineage", params={"nodeId": "dataset:data:c_mid"})["graph"]
    assert [node["id"] for node in up] == names[1:]


def test_unknown_facets_are_stored_unchanged(catalog: Catalog) -> None:
    odd = {"deep": [{"n": 123456789012345678901, "t": "a\0b", "ü": None}], "f": 1.0}
    catalog.send(run_event(job="odd", run_facets={"odd": odd}, outputs=[dataset("odd", odd=odd)]))
    assert catalog.get(f"/jobs/runs/{run_id('odd')}")["facets"]["odd"] == odd
    assert catalog.get("/namespaces/data/datasets/odd")["facets"]["odd"] == odd
    (event,) = [
        each
        for each in catalog.get("/events/lineage?limit=1000")["events"]
        if each["job"]["name"] == "odd"
    ]
    assert event["run"]["facets"]["odd"] == odd


def test_a_failed_run_does_not_change_the_schema_of_its_output(catalog: Catalog) -> None:
    catalog.send(run_event(job="w", run=run_id("w1"), outputs=[dataset("kept", fields=["good"])]))
    bad = dataset("kept", fields=["bad"])
    catalog.send(
        run_event("FAIL", job="w", run=run_id("w2"), at="2026-01-02T00:00:00Z", outputs=[bad])
    )
    found = catalog.get("/namespaces/data/datasets/kept")
    assert [field["name"] for field in found["fields"]] == ["good"]


def test_a_dataset_is_found_by_its_symlink_in_the_namespace_of_the_job(catalog: Catalog) -> None:
    symlinks = {
        "identifiers": [
            {"namespace": "hive://metastore", "name": "demo.news.articles_raw", "type": "TABLE"}
        ]
    }
    output = dataset("/warehouse/news/articles_raw", fields=["id"], symlinks=symlinks)
    catalog.send(run_event(job="BatchWrite", namespace="neuronews", outputs=[output]))
    for namespace in ("neuronews", "hive%3A%2F%2Fmetastore"):
        found = catalog.get(f"/namespaces/{namespace}/datasets/demo.news.articles_raw")
        assert found["name"] == "/warehouse/news/articles_raw"
    # A reader that uses the symlink is connected, in any order of events.
    reader = {"namespace": "hive://metastore", "name": "demo.news.articles_raw"}
    catalog.send(run_event(job="reader", namespace="neuronews", inputs=[reader]))
    assert set(graph(catalog, "job:neuronews:reader")) >= {"job:neuronews:BatchWrite"}


def test_a_write_to_a_symlink_updates_the_dataset(catalog: Catalog) -> None:
    symlinks = {"identifiers": [{"namespace": "hive", "name": "t", "type": "TABLE"}]}
    table = {"namespace": "hive", "name": "t", "facets": dataset("", fields=["new"])["facets"]}
    table["facets"]["documentation"] = {"description": "documented by name"}
    by_path = run_event(job="by path", outputs=[dataset("/t", fields=["old"], symlinks=symlinks)])
    by_name = run_event(job="by name", at="2026-01-02T00:00:00Z", outputs=[table])
    reader = run_event(job="later", at="2026-01-03T00:00:00Z", inputs=["/t"])
    catalog.send(by_path, by_name, reader)
    found = catalog.get("/namespaces/data/datasets/%2Ft")
    assert [field["name"] for field in found["fields"]] == ["new"]
    assert found["description"] == "documented by name"
    assert found["updatedAt"] == "2026-01-03T00:00:00Z"
    versions = catalog.get("/namespaces/hive/datasets/t/versions")
    assert versions["totalCount"] == 2
    newest = versions["versions"][0]
    assert (newest["version"], newest["name"]) == (found["currentVersion"], "/t")
    assert newest["createdByRun"]["id"] == run_id("by name")
    (read,) = catalog.get(f"/jobs/runs/{run_id('later')}")["inputDatasetVersions"]
    assert read["datasetVersionId"]["version"] == found["currentVersion"]
    # An event that uses the symlink restores a deleted dataset.
    assert catalog.call("DELETE", "/namespaces/data/datasets/%2Ft").status_code == 200
    assert catalog.call("GET", "/namespaces/hive/datasets/t").status_code == 404
    catalog.send({**by_name, "eventTime": "2026-01-04T00:00:00Z"})
    assert catalog.get("/namespaces/hive/datasets/t")["name"] == "/t"


@pytest.mark.parametrize(
    "name",
    ["a/b", "a:b", "a#b", "a?b=c", "100%", "ü😀", "\u202eabc", "x" * 2000, "A", "a b"],
)
def test_any_name_can_be_stored_and_queried(catalog: Catalog, name: str) -> None:
    catalog.send(run_event(job=name, namespace=f"ns {name}"[:2000], outputs=[f"of {name}"[:2000]]))
    path = f"/namespaces/{quote(f'ns {name}'[:2000], safe='')}/jobs/{quote(name, safe='')}"
    assert catalog.get(path)["name"] == name
    output = quote(f"of {name}"[:2000], safe="")
    assert catalog.get(f"/namespaces/data/datasets/{output}")["name"] == f"of {name}"[:2000]
    node = f"job:{f'ns {name}'[:2000]}:{name}"
    assert node in graph(catalog, node)


BAD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b"[" * 5000,
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
    json.dumps({**run_event(), "eventType": 7}).encode(),
    json.dumps({**run_event(), "job": {"namespace": "", "name": ""}}).encode(),
    json.dumps({**run_event(), "run": {"runId": "not-a-uuid"}}).encode(),
    json.dumps({**run_event(), "inputs": [{"namespace": "\0", "name": "x"}]}).encode(),
    json.dumps({**run_event(), "eventTime": "0001-01-01T00:00:00+14:00"}).encode(),
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_an_invalid_body_is_refused_and_changes_nothing(catalog: Catalog, body: bytes) -> None:
    response = catalog.call(
        "POST", "/lineage", data=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code in (400, 413, 422)
    assert response.json().keys() == {"code", "message", "errors"}
    for path in (
        "/namespaces",
        "/jobs",
        "/sources",
        "/jobs/runs",
        "/search?q=a",
        "/events/lineage",
    ):
        catalog.get(path)


def test_a_cycle_is_stored_and_shown(catalog: Catalog) -> None:
    catalog.send(
        run_event(job="there", inputs=["c1"], outputs=["c2"]),
        run_event(job="back", inputs=["c2"], outputs=["c1"]),
        run_event(job="itself", inputs=["c1"], outputs=["c1"]),
    )
    nodes = graph(catalog, "job:tests:there", depth=10**9)
    assert len(nodes) == 5
    assert len(nodes["dataset:data:c1"]["outEdges"]) == 2


def test_the_graph_does_not_pass_through_deleted_nodes(catalog: Catalog) -> None:
    for step in range(4):
        catalog.send(run_event(job=f"s{step}", inputs=[f"d{step}"], outputs=[f"d{step + 1}"]))
    jobs = {f"job:tests:s{step}" for step in range(4)}
    assert jobs < set(graph(catalog, "job:tests:s0"))
    catalog.call("DELETE", "/namespaces/tests/jobs/s1")
    expected = {"job:tests:s0", "dataset:data:d0", "dataset:data:d1"}
    assert set(graph(catalog, "job:tests:s0")) == expected
    assert set(graph(catalog, "dataset:data:d1")) == expected
    catalog.call("DELETE", "/namespaces/data/datasets/d3")
    assert jobs & set(graph(catalog, "job:tests:s2")) == {"job:tests:s2"}


def test_a_deleted_job_is_restored_by_its_next_event(catalog: Catalog) -> None:
    event = run_event(job="gone")
    catalog.send(event)
    assert catalog.call("DELETE", "/namespaces/tests/jobs/gone").status_code == 200
    assert catalog.call("GET", "/namespaces/tests/jobs/gone").status_code == 404
    catalog.send(event)
    assert catalog.call("GET", "/namespaces/tests/jobs/gone").status_code == 404
    catalog.send(run_event(job="gone", at="2026-02-01T00:00:00Z"))
    assert catalog.get("/namespaces/tests/jobs/gone")["name"] == "gone"


def test_a_search_has_no_wildcards(catalog: Catalog) -> None:
    catalog.send(run_event(job="fifty_percent%"))
    assert [r["name"] for r in catalog.get("/search?q=t%25")["results"]] == ["fifty_percent%"]
    assert catalog.get("/search?q=fiftyxpercent")["results"] == []
