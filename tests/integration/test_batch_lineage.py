"""Lineage of batch jobs in the catalog: the shipped job and user jobs."""

from __future__ import annotations

import csv
import json
import runpy
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from tests.catalog_support import Catalog
from tests.lineage_events import emitted, reporting_to, states
from tests.lines.environments import needs_iceberg
from tests.support import environment
from tests.waiting import wait_until

from headwater.collector.configuration import LISTENER, lineage_configuration
from headwater.collector.metadata import add_lineage_metadata
from headwater.collector.session import create_spark_session_with_lineage, finish_lineage
from headwater.errors import InputError
from headwater.generator import generate
from headwater.jobs import batch_write_raw_with_lineage
from headwater.jobs.articles import FIELDS
from headwater.settings import Settings
from headwater.spark.configuration import session_configuration

pytestmark = [pytest.mark.spark, needs_iceberg]

JOB = "BatchWriteRawWithLineage"
ARTICLES = 40
NEURONEWS = Path(__file__).parents[2] / "examples" / "neuronews"


@pytest.fixture
def settings(headwater_settings: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    owner = {"team": "data-engineering", "project": "neuronews"}
    return reporting_to(catalog, headwater_settings, spool=tmp_path / "spool", **owner)


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    finish_lineage("the test left it open")


def write_csv(path: Path, rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(header or FIELDS), *rows])
    return path


def articles(count: int = ARTICLES, seed: int = 1) -> list[list[str]]:
    values = [json.loads(value) for _, value in generate("articles", count, seed=seed)]
    return [[value[name] for name in FIELDS] for value in values]


def run(settings: Settings, *options: str) -> None:
    batch_write_raw_with_lineage.main.main(
        ["--quiet", *options], standalone_mode=False, obj=settings
    )


def latest_run(catalog: Catalog, job: str = JOB) -> dict[str, Any]:
    return dict(catalog.get(f"/namespaces/neuronews/jobs/{job}")["latestRun"])


def check_rows(spark: SparkSession, table: str, rows: list[list[str]], folder: Path) -> None:
    """The tables have the valid rows and the rejected ones."""
    written = spark.table(table)
    assert written.count() == ARTICLES
    one = written.where(F.col("id") == rows[3][0]).head()
    assert one is not None
    assert one["body"] == rows[3][3]
    assert one["processing_job"] == JOB
    assert one["lineage_enabled"]
    assert one["lineage"]["parents"] == [f"file://{folder}/a.csv"]
    reasons = {row["reason"] for row in spark.table(f"{table}_rejected").collect()}
    assert reasons == {
        "field 'published_at' is not a timestamp: yesterday",
        "field 'id' is missing or empty",
        "the row does not have the 6 columns of the header",
    }


def check_job(catalog: Catalog, table: str, folder: Path) -> dict[str, Any]:
    """The catalog has the job with its metadata, inputs and outputs; returns its latest run."""
    job = catalog.get(f"/namespaces/neuronews/jobs/{JOB}")
    assert (job["name"], job["type"]) == (JOB, "BATCH")
    assert job["description"] == "News articles from CSV files, merged by id"
    assert job["location"].endswith("jobs/batch_write_raw_with_lineage.py")
    tags = {tag["key"]: tag["value"] for tag in job["facets"]["tags"]["tags"]}
    assert tags == {
        "team": "data-engineering",
        "project": "neuronews",
        "environment": "development",
        "source_system": "files",
        "target_system": "iceberg",
    }
    assert [each["name"] for each in job["inputs"]] == [f"{folder}/{n}.csv" for n in "ab"]
    assert {each["name"] for each in job["outputs"]} == {table, f"{table}_rejected"}
    done = job["latestRun"]
    assert done["state"] == "COMPLETED"
    nominal = done["facets"]["nominalTime"]
    assert nominal["nominalStartTime"] <= done["startedAt"] <= done["endedAt"]
    assert nominal["nominalEndTime"] <= done["endedAt"]
    assert set(done["args"]) == {"nominal_start_time", "nominal_end_time"}
    return dict(done)


def check_dataset(catalog: Catalog, table: str, folder: Path) -> None:
    """The catalog has the output table with its schema and column lineage."""
    dataset = catalog.get(f"/namespaces/neuronews/datasets/{table}")
    assert (dataset["name"], dataset["physicalName"]) == (table, table)
    assert (dataset["sourceName"], dataset["type"]) == ("iceberg", "DB_TABLE")
    fields = {field["name"]: field["type"] for field in dataset["fields"]}
    assert list(fields)[:6] == list(FIELDS)
    assert fields["published_at"] == "timestamp"
    columns = {each["name"]: each["inputFields"] for each in dataset["columnLineage"]}
    assert {each["field"] for each in columns["title"]} == {"title"}
    assert {each["dataset"] for each in columns["title"]} == {f"{folder}/{n}.csv" for n in "ab"}


def check_statistics(done: dict[str, Any], table: str) -> None:
    """The run has the statistics of its output, and its cost."""
    (output,) = [
        each for each in done["outputDatasetVersions"] if each["datasetVersionId"]["name"] == table
    ]
    statistics = output["facets"]["outputStatistics"]
    assert statistics["rowCount"] == ARTICLES
    assert statistics["size"] > 0
    assert done["facets"]["headwater_cost"]["coreSeconds"] > 0


def test_the_batch_job_is_in_the_catalog_with_all_its_metadata(
    spark: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    rows = articles()
    # Line breaks, quotes and commas are valid; three rows are not.
    rows[3][3] = 'A quote: "one,\ntwo"'
    bad = [["no-time", "yesterday", "t", "b", "s", "u"], ["", *rows[0][1:]], ["two", "columns"]]
    write_csv(tmp_path / "in" / "a.csv", rows[:25])
    write_csv(tmp_path / "in" / "b.csv", [*rows[25:], *bad, rows[0]])
    table = "demo.news.articles_raw"
    # Other tests write to the same tables.
    for name in (table, f"{table}_rejected"):
        spark.sql(f"DROP TABLE IF EXISTS {name} PURGE")
    options = ("--files", f"{tmp_path}/in/*.csv", "--table", table)
    run(settings, *options)

    folder = tmp_path / "in"
    check_rows(spark, table, rows, folder)
    done = check_job(catalog, table, folder)
    check_dataset(catalog, table, folder)
    check_statistics(done, table)

    # Queries that only read are not jobs.
    names = [each["name"] for each in catalog.get("/namespaces/neuronews/jobs")["jobs"]]
    assert names == [JOB]

    # A second run changes nothing.
    before = spark.table(table).orderBy("id").collect()
    run(settings, *options)
    assert spark.table(table).orderBy("id").collect() == before
    assert spark.table(f"{table}_rejected").count() == len(bad)
    assert latest_run(catalog)["id"] != done["id"]
    assert catalog.get(f"/namespaces/neuronews/jobs/{JOB}/runs")["totalCount"] == 2


def test_a_job_that_fails_is_a_failed_run_with_its_error(
    spark: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no such file"):
        run(settings, "--files", f"{tmp_path}/nothing/*.csv", "--table", "demo.other.a")
    failed = latest_run(catalog)
    assert failed["state"] == "FAILED"
    assert "no such file" in failed["facets"]["errorMessage"]["message"]
    swapped = ["published_at", "id", *list(FIELDS)[2:]]
    write_csv(tmp_path / "in" / "a.csv", articles(3), swapped)
    with pytest.raises(InputError, match="other columns than an article"):
        run(settings, "--files", f"{tmp_path}/in/a.csv", "--table", "demo.other.a")
    assert latest_run(catalog)["state"] == "FAILED"


def test_named_queries_have_the_metadata_of_their_application_and_are_reported_once(
    spark: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    spark.range(3).selectExpr("cast(id AS string) AS value").write.text(str(lines))

    def start(name: str, **trigger: Any) -> StreamingQuery:
        writer = spark.readStream.text(str(lines)).writeStream.queryName(name)
        writer = writer.option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        return writer.trigger(**trigger).format("parquet").start(str(tmp_path / name))

    create_spark_session_with_lineage("Streams", settings=settings)
    running = start("long_running", processingTime="1 hour")
    # While a query is active its session keeps its tracker.
    create_spark_session_with_lineage("MoreStreams", settings=settings)
    add_lineage_metadata(spark, job_type="streaming", team="numbers", description="Copies lines")
    start("copies_lines", availableNow=True).awaitTermination(60)
    running.stop()
    finish_lineage("the program broke")
    wait_until(lambda: "COMPLETE" in states(emitted(catalog, "copies_lines")))
    events = emitted(catalog, "copies_lines")
    assert (states(events).count("START"), states(events).count("COMPLETE")) == (1, 1)
    job = catalog.get("/namespaces/default/jobs/copies_lines")
    assert job["facets"]["ownership"]["owners"][0]["name"] == "team:numbers"
    assert (job["description"], job["type"]) == ("Copies lines", "STREAM")
    # The runs of the queries report how the application ended.
    assert catalog.call("GET", "/namespaces/default/jobs/MoreStreams").status_code == 404


def test_a_disabled_job_costs_nothing_and_another_transport_is_unchanged(
    spark: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    off = settings.lineage.model_copy(
        update={"disabled_jobs": ["Nightly*"], "spool": tmp_path / "none"}
    )
    quiet = settings.model_copy(update={"lineage": off})
    threads = {thread.name for thread in threading.enumerate()}
    create_spark_session_with_lineage("NightlyCopy", settings=quiet)
    add_lineage_metadata(spark, team="other")
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    finish_lineage()
    assert {thread.name for thread in threading.enumerate()} <= threads
    assert not (tmp_path / "none").exists()
    assert catalog.call("GET", "/namespaces/default/jobs/NightlyCopy").status_code == 404

    console = {"spark.openlineage.transport.type": "console"}
    found = lineage_configuration("Own", settings, console)
    assert not found.through_spool
    assert found.spark["spark.openlineage.transport.type"] == "console"
    assert found.spark["spark.extraListeners"] == LISTENER
    assert "spark.plugins" not in found.spark
    assert "spark.openlineage.transport.url" not in found.spark
    for key in ("spark.extraListeners", "spark.plugins"):
        assert key not in dict(session_configuration(("openlineage",), quiet))


def test_the_job_file_of_the_example_has_its_source_code_location(
    spark: SparkSession, settings: Settings, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "demo.example.articles_raw"
    variables = environment(
        settings, MARQUEZ_URL=catalog.url, ICEBERG_TABLE=table, ENVIRONMENT="staging"
    )
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(NEURONEWS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path("jobs/spark/batch_write_raw_with_lineage.py", run_name="__main__")
    finish_lineage()
    assert spark.table(table).count() == 20
    job = catalog.get(f"/namespaces/neuronews/jobs/{JOB}")
    assert job["location"] == "jobs/spark/batch_write_raw_with_lineage.py"
    assert job["description"] == "Batch job with OpenLineage tracking"
    tags = {tag["key"]: tag["value"] for tag in job["facets"]["tags"]["tags"]}
    assert tags["environment"] == "staging"
    assert job["latestRun"]["state"] == "COMPLETED"
