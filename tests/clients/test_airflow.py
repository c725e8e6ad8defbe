"""Airflow with its OpenLineage provider, against the lineage service: `make test-clients`."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.catalog_support import Catalog
from tests.clients.environments import needs_environments, run

pytestmark = needs_environments

TASKS = ["shop.convert", "shop.load.extract", "shop.tidy"]


@pytest.fixture(scope="module")
def shop(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The catalog after a run of the DAG whose last task failed."""
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "dags").mkdir()
    shutil.copy(Path(__file__).with_name("shop_dag.py"), folder / "dags")
    airflow = functools.partial(
        run,
        "airflow",
        "airflow",
        folder=folder,
        AIRFLOW_HOME=str(folder),
        AIRFLOW__CORE__DAGS_FOLDER=str(folder / "dags"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__OPENLINEAGE__NAMESPACE="airflow",
        OPENLINEAGE_URL=catalog.url,
    )
    airflow("db", "migrate")
    output = airflow("dags", "test", "shop")
    assert "DagRun failed" in output, output
    assert "ValueError: no rates for today" in output
    assert catalog.refused == []
    return catalog


def job(catalog: Catalog, name: str) -> Any:
    return catalog.get(f"/namespaces/airflow/jobs/{name}")


def test_the_dag_starts_its_tasks_and_a_task_starts_a_script(shop: Catalog) -> None:
    dag = shop.get("/namespaces/airflow/jobs/shop/hierarchy")
    assert dag["parent"] is None
    assert [child["name"] for child in dag["children"]] == TASKS
    task = shop.get("/namespaces/airflow/jobs/shop.tidy/hierarchy")
    assert task["parent"]["name"] == "shop"
    assert [child["name"] for child in task["children"]] == ["tidy_script"]
    assert job(shop, "shop.tidy")["parentJobName"] == "shop"
    assert job(shop, "tidy_script")["parentJobName"] == "shop.tidy"


def test_the_runs_have_the_same_hierarchy_as_the_jobs(shop: Catalog) -> None:
    dag_run = job(shop, "shop")["latestRun"]["id"]
    children = shop.get(f"/jobs/runs/{dag_run}/hierarchy")["children"]
    assert sorted(child["name"] for child in children) == TASKS
    task_run = job(shop, "shop.tidy")["latestRun"]["id"]
    task = shop.get(f"/jobs/runs/{task_run}/hierarchy")
    assert task["parent"]["id"] == dag_run
    assert [child["name"] for child in task["children"]] == ["tidy_script"]


def test_the_graph_around_the_dag_has_its_tasks(shop: Catalog) -> None:
    graph = shop.get("/lineage?nodeId=job:airflow:shop")["graph"]
    assert {f"job:airflow:{name}" for name in TASKS} <= {node["id"] for node in graph}


def test_a_failed_task_and_its_dag_have_failed_with_the_error(shop: Catalog) -> None:
    states = {name: job(shop, name)["latestRun"]["state"] for name in ["shop", *TASKS]}
    assert states == {
        "shop": "FAILED",
        "shop.convert": "FAILED",
        "shop.load.extract": "COMPLETED",
        "shop.tidy": "COMPLETED",
    }
    error = job(shop, "shop.convert")["latestRun"]["facets"]["errorMessage"]
    assert error["message"] == "no rates for today"
    assert "in fail" in error["stackTrace"]


def test_a_dag_that_sent_no_start_starts_with_its_first_task(shop: Catalog) -> None:
    events = shop.get("/events/lineage?limit=1000")["events"]
    assert [each["eventType"] for each in events if each["job"]["name"] == "shop"] == ["FAIL"]
    dag_run = job(shop, "shop")["latestRun"]
    assert dag_run["startedAt"] == job(shop, "shop.load.extract")["latestRun"]["startedAt"]
    assert dag_run["durationMs"] > 0


def test_inlets_and_outlets_are_edges(shop: Catalog) -> None:
    edges = {
        name: tuple(
            [each["name"] for each in job(shop, name)[side]] for side in ("inputs", "outputs")
        )
        for name in TASKS
    }
    assert edges == {
        "shop.load.extract": ([], ["/raw"]),
        "shop.tidy": (["/raw"], ["/clean"]),
        "shop.convert": (["/clean"], ["/rates"]),
    }
    graph = shop.get("/lineage?nodeId=dataset:file%3A%2F%2Fshop:%2Fraw")["graph"]
    assert "dataset:file://shop:/rates" in {node["id"] for node in graph}


def test_what_a_failed_task_did_not_write_has_no_last_write(shop: Catalog) -> None:
    written = {
        each["name"]: each["lastWrittenAt"] is not None
        for each in shop.get("/namespaces/file%3A%2F%2Fshop/datasets")["datasets"]
    }
    assert written == {"/raw": True, "/clean": True, "/rates": False}


def test_nominal_times_and_tags_are_those_of_airflow(shop: Catalog) -> None:
    dag = job(shop, "shop")
    assert dag["latestRun"]["nominalStartTime"] is not None
    assert dag["tags"] == ["sales"]
