"""openlineage-spark in plain PySpark, without Headwater, against the lineage service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyspark
import pytest
from tests.catalog_support import Catalog
from tests.clients.environments import needs_environments
from tests.lineage_events import emitted, states
from tests.support import java_of_spark

from headwater.jvm.jars import ensure_jars
from headwater.settings import Settings

pytestmark = [needs_environments, pytest.mark.spark]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Names of jobs contain the name of the folder.
    return tmp_path_factory.mktemp("spark") / "data"


@pytest.fixture(scope="module")
def shop(catalog: Catalog, headwater_settings: Settings, folder: Path) -> Catalog:
    """The catalog after the application has ended."""
    configuration = {
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, ensure_jars(["openlineage"], headwater_settings))),
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": catalog.url,
        "spark.openlineage.namespace": "spark",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    options = [
        part for key, value in configuration.items() for part in ("--conf", f"{key}={value}")
    ]
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    program = Path(__file__).with_name("shop_spark.py")
    done = subprocess.run(
        [str(spark_submit), *options, str(program), str(folder)],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder.parent),
            "PYSPARK_PYTHON": sys.executable,
            **java_of_spark(headwater_settings),
        },
    )
    assert done.returncode == 0, done.stderr
    for line in ("failed as expected", "lines", "2 micro-batches", "imported: False"):
        assert line in done.stdout, done.stdout
    assert catalog.refused == []
    return catalog


def job(catalog: Catalog, name: str) -> Any:
    return catalog.get(f"/namespaces/spark/jobs/{name}")


def jobs(catalog: Catalog) -> list[Any]:
    found: list[Any] = catalog.get("/namespaces/spark/jobs?limit=100")["jobs"]
    return found


def test_a_write_is_an_edge_with_the_lineage_of_its_columns(shop: Catalog, folder: Path) -> None:
    write = job(shop, "shop.adaptive_spark_plan.data_revenue")
    assert write["latestRun"]["state"] == "COMPLETED"
    assert [each["name"] for each in write["inputs"]] == [f"{folder}/orders"]
    assert [each["name"] for each in write["outputs"]] == [f"{folder}/revenue"]
    node = f"dataset:file:{folder}/revenue"
    graph = shop.get("/column-lineage", params={"nodeId": node})["graph"]
    read = {
        each["data"]["field"]: {one["field"] for one in each["data"]["inputFields"]}
        for each in graph
        if each["data"]["dataset"] == f"{folder}/revenue"
    }
    assert read == {"status": {"status"}, "total": {"amount"}}


def test_the_application_starts_all_other_jobs_and_the_graph_shows_them(shop: Catalog) -> None:
    children = [
        each["name"] for each in shop.get("/namespaces/spark/jobs/shop/hierarchy")["children"]
    ]
    assert children == sorted(each["name"] for each in jobs(shop) if each["name"] != "shop")
    graph = shop.get("/lineage?nodeId=job:spark:shop")["graph"]
    assert {f"job:spark:{name}" for name in children} <= {node["id"] for node in graph}


def test_a_failed_write_has_failed_although_a_complete_follows(shop: Catalog, folder: Path) -> None:
    name = "shop.execute_insert_into_hadoop_fs_relation_command.data_never"
    ends = [each for each in states(emitted(shop, name)) if each in ("FAIL", "COMPLETE")]
    assert ends == ["FAIL", "COMPLETE"]
    run = job(shop, name)["latestRun"]
    assert run["state"] == "FAILED"
    assert "no rates for today" in str(run["facets"]["spark.exception"])
    never = shop.get(f"/namespaces/file/datasets/{quote(f'{folder}/never', safe='')}")
    assert never["lastWrittenAt"] is None


def test_rdd_jobs_that_send_only_a_start_end_with_their_application(shop: Catalog) -> None:
    application = job(shop, "shop")["latestRun"]
    assert application["state"] == "COMPLETED"
    unfinished = [
        each["latestRun"] for each in jobs(shop) if states(emitted(shop, each["name"])) == ["START"]
    ]
    assert unfinished
    assert {run["state"] for run in unfinished} == {"COMPLETED"}
    assert {run["endedAt"] for run in unfinished} == {application["endedAt"]}
    assert shop.get("/jobs/runs?state=RUNNING")["runs"] == []


def test_a_streaming_query_has_a_run_for_each_micro_batch(shop: Catalog, folder: Path) -> None:
    (query,) = [each for each in jobs(shop) if each["type"] == "STREAM"]
    runs = shop.get(f"/namespaces/spark/jobs/{query['name']}/runs")["runs"]
    assert [run["state"] for run in runs] == ["COMPLETED", "COMPLETED"]
    # A micro-batch of one file names the file, others the folder.
    assert all(each["name"].startswith(f"{folder}/orders") for each in query["inputs"])
    assert query["inputs"]
    # The listener does not report the output of the file sink.
    assert query["outputs"] == []
