"""Expectations and cost of a job in the catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import functions as F
from tests.catalog_support import Catalog, dataset, run_event, run_id

from headwater import LineageJob
from headwater.errors import ExpectationFailedError
from headwater.kafka import RecordProducer
from headwater.quality import in_range, not_null
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker


@pytest.fixture
def settings(broker: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    """Settings with the catalog of this module, and with prices."""
    changed = {
        "home": tmp_path / "home",
        "catalog": broker.catalog.model_copy(update={"url": catalog.url}),
        "lineage": broker.lineage.model_copy(update={"namespace": "tests"}),
        "cost": broker.cost.model_copy(update={"per_core_hour": 60, "currency": "EUR"}),
    }
    return broker.model_copy(update=changed)


def versions(catalog: Catalog, namespace: str, name: str) -> list[dict[str, Any]]:
    path = f"/namespaces/{quote(namespace, safe='')}/datasets/{quote(name, safe='')}/versions"
    listed: list[dict[str, Any]] = catalog.get(path)["versions"]
    return listed


def test_each_version_has_its_own_facets(catalog: Catalog) -> None:
    for number, nulls in enumerate((0, 3)):
        metrics = {"rowCount": 10, "columnMetrics": {"id": {"nullCount": nulls}}}
        assertion = {"assertion": "not_null", "success": nulls == 0, "column": "id"}
        written = dataset(
            "articles",
            fields=["id"],
            dataQualityMetrics=metrics,
            dataQualityAssertions={"assertions": [assertion]},
        )
        at = f"2026-01-0{number + 1}T00:00:00Z"
        run = run_id(f"run {number}")
        catalog.send(run_event(job="write_articles", run=run, at=at, outputs=[written]))
    newest, oldest = versions(catalog, "data", "articles")
    results = [
        (
            each["facets"]["dataQualityMetrics"]["columnMetrics"]["id"]["nullCount"],
            each["facets"]["dataQualityAssertions"]["assertions"][0]["success"],
        )
        for each in (oldest, newest)
    ]
    assert results == [(0, True), (3, False)]


@pytest.mark.kafka
@pytest.mark.spark
def test_a_job_reports_quality_of_its_table_and_input_and_its_cost(
    settings: Settings,
    catalog: Catalog,
    spark: object,
    make_topic: TopicMaker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = make_topic("prices", partitions=1)

    def start(*prices: float | None) -> None:
        with RecordProducer(settings.kafka) as producer:
            for price in prices:
                producer.send(source, json.dumps({"price": price}).encode(), partition=0)
        job = LineageJob("priced", settings=settings, checkpoint=tmp_path / "checkpoint")
        read = job.expect(job.read(source), columns=["value"], name="input", topic=source)
        value = F.get_json_object(F.col("value").cast("string"), "$.price").cast("double")
        rows = read.select(value.alias("price"), "lineage")
        expected = [not_null("price"), in_range("price", 0, 100, severity="fail")]
        rows = job.expect(rows, expected, columns=["price"])
        job.write_table(rows, tmp_path / "table", trigger={"availableNow": True})

    start(1.5, None, 99.0)
    assert "priced 2: 1 of 3 rows break not_null(price)" in caplog.messages
    (version,) = versions(catalog, "file", str(tmp_path / "table"))
    facets = version["facets"]
    assert facets["dataQualityMetrics"]["rowCount"] == 3
    assert facets["dataQualityMetrics"]["columnMetrics"]["price"] == {
        "nullCount": 1,
        "count": 2,
        "distinctCount": 2,
        "min": 1.5,
        "max": 99.0,
    }
    assertions = facets["dataQualityAssertions"]["assertions"]
    assert [(each["success"], each["failures"]) for each in assertions] == [(False, 1), (True, 0)]
    run = version["createdByRun"]
    cost = run["facets"]["headwater_cost"]
    assert cost["tasks"] > 0 < cost["coreSeconds"]
    assert cost["bytesWritten"] > 0
    assert cost["money"]["amount"] == pytest.approx(cost["coreSeconds"] / 60, abs=1e-6)
    (output,) = run["outputDatasetVersions"]
    statistics = output["facets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"]) == (3, cost["bytesWritten"])
    cluster = f"kafka://{settings.bootstrap_servers}"
    path = f"/namespaces/{quote(cluster, safe='')}/datasets/{quote(source, safe='')}"
    read = catalog.get(path)["facets"]
    assert read["headwater_quality"]["measuredAs"] == "input"
    assert read["dataQualityMetrics"]["columnMetrics"]["value"]["count"] == 3

    with pytest.raises(ExpectationFailedError, match=r"priced 2: a row violates in_range\(price"):
        start(2.0, -1.0)
    failed, *_ = versions(catalog, "file", str(tmp_path / "table"))
    (only,) = failed["facets"]["dataQualityAssertions"]["assertions"]
    assert (only["success"], only["severity"]) == (False, "error")
    assert failed["createdByRun"]["state"] == "FAILED"
    table = LineageJob("read", settings=settings).spark.read.format("delta")
    assert table.load(str(tmp_path / "table")).count() == 3
