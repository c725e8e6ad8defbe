"""`headwater doctor --spark` with a real catalog, and a job with an invalid catalog address."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.catalog_support import Catalog

from headwater.collector.metadata import add_lineage_metadata
from headwater.collector.session import (
    create_spark_session_with_lineage,
    current_application,
    finish_lineage,
)
from headwater.service.doctor import run_spark_checks
from headwater.settings import Settings

pytestmark = pytest.mark.spark


def reporting_to(url: str, settings: Settings, tmp_path: Path) -> Settings:
    catalog = settings.catalog.model_copy(update={"url": url})
    lineage = settings.lineage.model_copy(update={"spool": tmp_path / "spool"})
    return settings.model_copy(update={"catalog": catalog, "lineage": lineage})


def test_doctor_checks_that_a_spark_write_arrives(
    spark: SparkSession, headwater_settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    (found,) = run_spark_checks(reporting_to(catalog.url, headwater_settings, tmp_path))
    assert (found.ok, "has arrived" in found.text) == (True, True), found
    job = catalog.get("/namespaces/headwater-checks/jobs/lineage_of_a_write_arrives")
    assert job["latestRun"]["state"] == "COMPLETED"


def test_an_invalid_catalog_address_does_not_fail_the_job(
    spark: SparkSession,
    headwater_settings: Settings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = reporting_to("http://a..b:5000", headwater_settings, tmp_path)
    session = create_spark_session_with_lineage("Unreported", settings=settings)
    add_lineage_metadata(session, team="other")
    session.range(3).write.parquet(str(tmp_path / "rows"))
    finish_lineage()
    assert session.read.parquet(str(tmp_path / "rows")).count() == 3
    assert current_application(session) is None
    assert "lineage is disabled: MARQUEZ_URL has no usable host" in caplog.text
