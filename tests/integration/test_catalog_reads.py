"""A run that reads a dataset: the version that it read, its facets, and its test results."""

from __future__ import annotations

from typing import Any

from tests.catalog_support import PRODUCER, SPEC, Catalog, dataset, run_event, run_id


def at(minute: int) -> str:
    return f"2026-01-01T10:{minute:02}:00Z"


def input_version(catalog: Catalog, job: str) -> str:
    (read,) = catalog.get(f"/jobs/runs/{run_id(job)}")["inputDatasetVersions"]
    return str(read["datasetVersionId"]["version"])


def versions(catalog: Catalog, name: str) -> list[Any]:
    listed = catalog.get(f"/namespaces/data/datasets/{name}/versions")
    assert listed["totalCount"] == len(listed["versions"])
    return list(listed["versions"])


def test_a_run_reads_the_version_that_was_written(catalog: Catalog) -> None:
    read = dataset("x", fields=["a", "b"], documentation={"description": "by the reader"})
    catalog.send(
        run_event(job="A", at=at(0), outputs=[dataset("x", fields=["a"], storage={"a": 1})]),
        run_event("START", job="B", at=at(1), inputs=[read]),
        run_event("COMPLETE", job="B", at=at(2), inputs=[read]),
        run_event(job="C", at=at(3), inputs=["x"]),
    )
    (written,) = versions(catalog, "x")
    assert written["createdByRun"]["id"] == run_id("A")
    assert input_version(catalog, "B") == input_version(catalog, "C") == written["version"]
    upstream = catalog.get(f"/runlineage/upstream?runId={run_id('B')}")["runs"]
    assert [each["run"]["id"] for each in upstream] == [run_id("B"), run_id("A")]
    assert upstream[0]["inputs"][0]["producedByRunId"] == run_id("A")
    found = catalog.get("/namespaces/data/datasets/x")
    assert found["currentVersion"] == written["version"]
    assert [field["name"] for field in found["fields"]] == ["a"]
    assert [field["name"] for field in found["facets"]["schema"]["fields"]] == ["a"]
    # The other facets of a reader describe the dataset.
    assert (found["description"], found["facets"]["storage"]) == ("by the reader", {"a": 1})


def test_an_input_that_no_run_wrote_has_one_version_with_its_facets(catalog: Catalog) -> None:
    plain = dataset("plain", documentation={"description": "a file"})
    catalog.send(
        run_event(job="P", at=at(0), inputs=[plain]),
        run_event(job="P2", at=at(1), inputs=[plain]),
        run_event(job="S", at=at(0), inputs=[dataset("with columns", fields=["a"])]),
        run_event(job="S2", at=at(1), inputs=["with columns"]),
    )
    for name, jobs in (("plain", ("P", "P2")), ("with columns", ("S", "S2"))):
        (only,) = versions(catalog, name)
        assert {input_version(catalog, job) for job in jobs} == {only["version"]}
        assert only["createdByRun"] is None
        alone = catalog.get(f"/namespaces/data/datasets/{name}/versions/{only['version']}")
        assert alone == only
        assert (
            catalog.get(f"/namespaces/data/datasets/{name}")["currentVersion"] == alone["version"]
        )
    (only,) = versions(catalog, "plain")
    assert only["facets"]["documentation"] == {"description": "a file"}
    # Read before it was written: the version stays reachable, and is listed if it has columns.
    before = input_version(catalog, "P"), input_version(catalog, "S")
    for name in ("plain", "with columns"):
        catalog.send(run_event(job=f"W {name}", at=at(5), outputs=[dataset(name, fields=["b"])]))
    assert (input_version(catalog, "P"), input_version(catalog, "S")) == before
    catalog.get(f"/namespaces/data/datasets/plain/versions/{before[0]}")
    assert [each["version"] for each in versions(catalog, "with columns")][1:] == [before[1]]


def test_a_run_that_reads_and_writes_a_dataset_read_the_version_before(catalog: Catalog) -> None:
    same = dataset("same", fields=["a"])
    catalog.send(
        run_event(job="first", at=at(0), outputs=[same]),
        run_event(job="merge", at=at(1), inputs=[same], outputs=[same]),
    )
    run = catalog.get(f"/jobs/runs/{run_id('merge')}")
    (read,), (wrote,) = run["inputDatasetVersions"], run["outputDatasetVersions"]
    newest, oldest = versions(catalog, "same")
    assert read["datasetVersionId"]["version"] == oldest["version"]
    assert wrote["datasetVersionId"]["version"] == newest["version"]
    assert oldest["createdByRun"]["id"] == run_id("first")


def test_a_described_version_is_read_and_stays_current(catalog: Catalog) -> None:
    described = {
        "eventTime": at(0),
        "dataset": dataset("described", fields=["a"]),
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}DatasetEvent",
    }
    catalog.send(
        described,
        run_event(job="R", at=at(1), inputs=[dataset("described", fields=["a", "b"])]),
    )
    (version,) = versions(catalog, "described")
    assert input_version(catalog, "R") == version["version"]
    found = catalog.get("/namespaces/data/datasets/described")
    assert (found["currentVersion"], len(found["fields"])) == (version["version"], 1)


def test_results_of_tests_are_found_over_time_and_on_the_run(catalog: Catalog) -> None:
    def tested(minute: int, *, success: bool) -> dict[str, Any]:
        assertion = {"assertion": "accepted_values", "success": success, "column": "status"}
        facets = {"dataQualityAssertions": {"assertions": [assertion]}}
        read = {**dataset("orders"), "inputFacets": facets}
        kind = "COMPLETE" if success else "FAIL"
        return run_event(kind, job="test", run=run_id(f"t{minute}"), at=at(minute), inputs=[read])

    metrics = {"dataQualityMetrics": {"rowCount": 3, "columnMetrics": {}}}
    catalog.send(
        run_event(job="model", at=at(0), outputs=[dataset("orders", fields=["status"], **metrics)]),
        tested(1, success=True),
        tested(2, success=False),
        # Some clients send the results among the other facets of the input.
        run_event(
            job="test",
            run=run_id("t3"),
            at=at(3),
            inputs=[dataset("orders", fields=["status"], dataQualityAssertions={"assertions": []})],
        ),
    )
    points = catalog.get("/namespaces/data/datasets/orders/quality")["quality"]
    assert [(each["at"], each["written"]) for each in points] == [
        (at(3), False),
        (at(2), False),
        (at(1), False),
        (at(0), True),
    ]
    assert {each["version"] for each in points} == {versions(catalog, "orders")[0]["version"]}
    failed, model = points[1], points[3]
    state = {"id": run_id("t2"), "namespace": "tests", "name": "test", "state": "FAILED"}
    assert failed["run"] == state
    (assertion,) = failed["facets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["success"], assertion["column"]) == (False, "status")
    assert model["facets"] == metrics
    run = catalog.get(f"/jobs/runs/{run_id('t2')}")
    assert run["inputDatasetVersions"][0]["facets"] == failed["facets"]
    assert len(catalog.get("/namespaces/data/datasets/orders/quality?limit=2")["quality"]) == 2
    assert catalog.call("GET", "/namespaces/data/datasets/none/quality").status_code == 404


def test_column_lineage_at_a_version_is_that_of_the_version(catalog: Catalog) -> None:
    def lineage(source: str) -> dict[str, Any]:
        return {
            "fields": {"x": {"inputFields": [{"namespace": "data", "name": source, "field": "a"}]}}
        }

    for minute, source in ((0, "old"), (2, "new"), (4, "old"), (6, "new")):
        wide = dataset("wide", fields=["x"], columnLineage=lineage(f"{source} input"))
        upper = dataset(f"{source} input", fields=["a"], columnLineage=lineage("root"))
        run = run_id(f"wide {minute}")
        catalog.send(
            run_event(job="up", run=run_id(f"up {minute}"), at=at(minute), outputs=[upper]),
            run_event(job="wide", run=run, at=at(minute + 1), outputs=[wide]),
        )
    shown = {}
    for version in versions(catalog, "wide"):
        node = {"nodeId": f"dataset:data:wide#{version['version']}"}
        graph = catalog.get("/column-lineage", params=node)["graph"]
        (start,) = [each for each in graph if each["id"] == "datasetField:data:wide:x"]
        assert start["data"]["datasetVersion"] == version["version"]
        (read,) = start["data"]["inputFields"]
        shown[version["createdAt"]] = read["dataset"]
    assert [shown[at(n)] for n in (1, 3, 5, 7)] == [f"{s} input" for s in ("old", "new") * 2]
