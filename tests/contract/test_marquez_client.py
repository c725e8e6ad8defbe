"""Marquez's own Python client works with the service."""

from __future__ import annotations

import warnings

import pytest
from tests.catalog_support import Catalog, dataset, run_event, run_id

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from marquez_client import MarquezClient
    from marquez_client.models import DatasetId, DatasetType, JobType


@pytest.fixture(scope="module")
def client(catalog: Catalog) -> MarquezClient:
    return MarquezClient(catalog.url)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_pipeline_can_be_created_through_the_api(client: MarquezClient) -> None:
    assert client.create_namespace("by-hand", "me", "mine")["ownerName"] == "me"
    client.create_source("warehouse", "POSTGRESQL", "jdbc:postgresql://localhost:5432/x")
    table = client.create_dataset(
        "by-hand",
        "orders",
        DatasetType.DB_TABLE,
        "public.orders",
        "warehouse",
        description="all orders",
        fields=[{"name": "id", "type": "INTEGER", "tags": ["PII"]}],
        tags=["SENSITIVE"],
    )
    assert (table["fields"][0]["tags"], table["tags"]) == (["PII"], ["SENSITIVE"])
    client.create_dataset("by-hand", "orders_copy", DatasetType.DB_TABLE, "copy", "warehouse")
    job = client.create_job(
        "by-hand",
        "copy",
        JobType.BATCH,
        location="https://git.example.com/copy",
        inputs=[DatasetId("by-hand", "orders")],
        outputs=[DatasetId("by-hand", "orders_copy")],
    )
    assert job["inputs"] == [{"namespace": "by-hand", "name": "orders"}]
    run = client.create_job_run("by-hand", "copy", run_id=run_id("by-hand"))
    assert run["state"] == "NEW"
    assert client.mark_job_run_as_started(run["id"])["state"] == "RUNNING"
    assert client.mark_job_run_as_completed(run["id"])["state"] == "COMPLETED"
    assert [each["id"] for each in client.list_job_runs("by-hand", "copy")["runs"]] == [run["id"]]
    assert client.get_job("by-hand", "copy")["latestRun"]["state"] == "COMPLETED"


def test_the_client_reads_what_events_created(catalog: Catalog, client: MarquezClient) -> None:
    facets = {
        "fields": {"b": {"inputFields": [{"namespace": "data", "name": "raw", "field": "a"}]}}
    }
    catalog.send(
        run_event(
            job="from events",
            inputs=[dataset("raw", fields=["a"])],
            outputs=[dataset("made", fields=["b"], columnLineage=facets)],
        )
    )
    assert "tests" in [each["name"] for each in client.list_namespaces()["namespaces"]]
    assert [each["name"] for each in client.list_jobs("tests")["jobs"]] == ["from events"]
    assert client.get_dataset("data", "made")["fields"][0]["name"] == "b"
    versions = client.list_dataset_versions("data", "made")["versions"]
    assert client.get_dataset_version("data", "made", versions[0]["version"]) == versions[0]
    graph = client.get_column_lineage_by_dataset("data", "made")["graph"]
    assert [node["id"] for node in graph] == ["datasetField:data:made:b", "datasetField:data:raw:a"]
    assert client.tag_dataset("data", "made", "PII")["tags"] == ["PII"]
