"""`headwater doctor --spark` against a real catalog, and a job whose catalog's address is wrong."""

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
from headwater.service.doctor import check_up_spark
from headwater.settings import Settings

pytestmark = pytest.mark.spark


def told_to(url: str, settings: Settings, tmp_path: Path) -> Settings:
    catalog = settings.catalog.model_copy(update={"url": url})
    lineage = settings.lineage.model_copy(update={"spool": tmp_path / "spool"})
    return settings.model_copy(update={"catalog": catalog, "lineage": lineage})


def test_doctor_sees_a_write_of_sparks_arrive(
    spark: SparkSession, headwater_settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    (found,) = check_up_spark(told_to(catalog.url, headwater_settings, tmp_path))
    assert (found.ok, "has arrived" in found.text) == (True, True), found
    job = catalog.get("/namespaces/headwater-checks/jobs/lineage_of_a_write_arrives")
    assert job["latestRun"]["state"] == "COMPLETED"


def test_a_wrong_address_of_the_catalog_costs_the_lineage_and_not_the_job(
    spark: SparkSession,
    headwater_settings: Settings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = told_to("http://a..b:5000", headwater_settings, tmp_path)
    session = create_spark_session_with_lineage("Unheard", settings=settings)
    add_lineage_metadata(session, team="nobody")
    session.range(3).write.parquet(str(tmp_path / "rows"))
    finish_lineage()
    assert session.read.parquet(str(tmp_path / "rows")).count() == 3
    assert current_application(session) is None
    assert "no lineage is sent: MARQUEZ_URL has no usable host" in caplog.text
