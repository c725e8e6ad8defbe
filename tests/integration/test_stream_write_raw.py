"""Articles from a topic are merged into the table that the batch job writes as well."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from tests.catalog_support import Catalog
from tests.lineage_events import emitted, names
from tests.lines.environments import needs_iceberg
from tests.support import environment
from tests.waiting import wait_until

from headwater import process
from headwater.collector import sources as schemas
from headwater.collector.session import finish_lineage
from headwater.errors import QueryFailedError
from headwater.jobs import stream_write_raw_with_lineage
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.settings import Settings, fault_points
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import known_tables
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, needs_iceberg]

Json = dict[str, Any]

JOB = "StreamWriteRawWithLineage"
TABLE = "demo.stream.articles_raw"
NEURONEWS = Path(__file__).parents[2] / "examples" / "neuronews"


def settings_in(home: Path, broker: Settings, catalog: Catalog) -> Settings:
    """Settings with a separate home and the catalog of this module."""
    changed = {
        "catalog": broker.catalog.model_copy(update={"url": catalog.url}),
        "home": home,
        "iceberg": broker.iceberg.model_copy(
            update={"warehouse": str(broker.home_dir / "warehouse")}
        ),
    }
    return broker.model_copy(update=changed)


@pytest.fixture
def settings(broker: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    return settings_in(tmp_path / "home", broker, catalog)


def send(
    topic: str,
    settings: Settings,
    *articles: dict[str, Any] | bytes | str | None,
    partition: int = 0,
) -> None:
    """Send articles, invalid bytes, deletions by id, or a tombstone without a key."""
    with RecordProducer(settings.kafka) as producer:
        for each in articles:
            if isinstance(each, dict):
                value = json.dumps(each).encode()
                producer.send(topic, value, each["id"].encode(), partition=partition)
            elif isinstance(each, bytes):
                producer.send(topic, each, b"x", partition=partition)
            else:
                key = None if each is None else each.encode()
                producer.send(topic, None, key, partition=partition)


def article(number: int, title: str) -> dict[str, Any]:
    at = f"2026-01-0{number}T00:00:00+00:00"
    return {"id": f"a{number}", "published_at": at, "title": title}


def run(
    settings: Settings, topic: str, checkpoint: Path, *trigger: str, table: str = TABLE
) -> None:
    options = ["--input-topic", topic, "--table", table, "--checkpoint", str(checkpoint), "--quiet"]
    stream_write_raw_with_lineage.main.main(
        [*options, *(trigger or ("--available-now",))], standalone_mode=False, obj=settings
    )


def titles(spark: SparkSession) -> dict[str, str]:
    return {row["id"]: row["title"] for row in spark.table(TABLE).collect()}


# Neither has a valid article: no timestamp, no id.
UNDATED, NAMELESS = {"id": "late", "published_at": "soon"}, article(4, "y") | {"id": ""}


@dataclass
class Merged:
    """What four runs of the job have written: one failed, and three completed ones."""

    topic: str
    settings: Settings
    first_rows: dict[str, Row] = field(default_factory=dict)
    titles: list[dict[str, str]] = field(default_factory=list)
    snapshots_after_rerun: int = 0
    job: Json = field(default_factory=dict)
    run_states: list[str] = field(default_factory=list)
    events: list[Json] = field(default_factory=list)


@pytest.fixture(scope="module")
def merged(
    broker: Settings,
    spark: SparkSession,
    catalog: Catalog,
    tmp_path_factory: pytest.TempPathFactory,
) -> Merged:
    folder = tmp_path_factory.mktemp("merged-articles")
    settings = settings_in(folder / "home", broker, catalog)
    topic = "merged-articles"
    create_topic(topic, 2, settings.kafka)
    result = Merged(topic, settings)
    send(topic, settings, article(1, "one"), article(1, "one, corrected"), partition=1)
    send(topic, settings, article(3, "x"), partition=1)
    send(topic, settings, article(2, "two"), b"{........", UNDATED, NAMELESS, None)
    checkpoint = folder / "checkpoint"
    # The process fails after the commit of the table, before Spark's.
    faulty = settings.testing.model_copy(update={"fault_points": "after_table_commit=raise@1"})
    with pytest.raises(QueryFailedError, match="after_table_commit"):
        run(settings.model_copy(update={"testing": faulty}), topic, checkpoint)
    assert fault_points.fired() == {"after_table_commit": 1}
    # This process may not use that checkpoint again.
    checkpoint = Path(shutil.copytree(checkpoint, folder / "copied"))
    run(settings, topic, checkpoint)
    result.first_rows = {row["id"]: row for row in spark.table(TABLE).collect()}
    result.titles.append(titles(spark))
    result.snapshots_after_rerun = spark.table(f"{TABLE}.snapshots").count()
    # A newer article, a deletion of a missing one, and a deletion.
    send(topic, settings, article(2, "two, corrected"), "never-there")
    send(topic, settings, "a3", partition=1)
    run(settings, topic, checkpoint)
    result.titles.append(titles(spark))
    # A new checkpoint reads all records again.
    run(settings, topic, folder / "another")
    result.titles.append(titles(spark))
    result.job = catalog.get(f"/namespaces/neuronews/jobs/{JOB}")
    runs = catalog.get(f"/namespaces/neuronews/jobs/{JOB}/runs")["runs"]
    result.run_states = [each["state"] for each in reversed(runs)][-4:]
    result.events = [each for each in emitted(catalog, JOB) if topic in names(each, "inputs")]
    return result


@pytest.mark.lines
def test_articles_are_merged_by_id_once_although_the_batch_was_rerun(merged: Merged) -> None:
    first, second, third = merged.titles
    assert first == {"a1": "one, corrected", "a2": "two", "a3": "x"}
    assert merged.snapshots_after_rerun == 1
    assert second == {"a1": "one, corrected", "a2": "two, corrected"}
    # Reading all records again reverts nothing.
    assert third == second


@pytest.mark.lines
def test_rows_have_their_record_as_parent_and_impact_finds_them_without_spark(
    merged: Merged, spark: SparkSession
) -> None:
    row = merged.first_rows["a1"]
    assert (row["kafka_partition"], row["kafka_offset"]) == (1, 1)
    parent = row["lineage"]
    assert (parent["topic"], parent["partition"], parent["offset"]) == (merged.topic, 1, 1)
    assert row["lineage_job_id"] == parent["run_id"]
    assert spark.table(f"{TABLE}.partitions").count() >= len(merged.titles[-1])
    (known,) = known_tables(merged.settings)
    offsets = {(merged.topic, 1): OffsetRanges.of((1, 1))}
    assert LineageTable(known).find(offsets, None).rows == 1


def test_invalid_records_go_to_the_dead_letter_topic_with_the_reason(merged: Merged) -> None:
    letters = {
        record.value: dict(record.headers)["__connect.errors.exception.message"]
        for record in read_topic(f"{merged.topic}-dead-letter", merged.settings.kafka)
    }
    assert letters == {
        b"{........": b"the value is not a JSON object",
        json.dumps(UNDATED).encode(): b"field 'published_at' is not a timestamp: soon",
        json.dumps(NAMELESS).encode(): b"field 'id' is missing or empty",
        None: b"a tombstone without a key deletes nothing",
    }


def test_the_catalog_has_the_offsets_and_counts_of_each_run(
    merged: Merged, catalog: Catalog
) -> None:
    job = merged.job
    assert job["type"] == "STREAM"
    assert job["description"] == "News articles from a topic, merged by id"
    assert [each["name"] for each in job["inputs"]] == [merged.topic]
    assert {each["name"] for each in job["outputs"]} == {TABLE, f"{merged.topic}-dead-letter"}
    assert merged.run_states == ["FAILED", *["COMPLETED"] * 3]
    facets = [event["run"]["facets"] for event in merged.events]
    offsets = [each["headwater_offsets"] for each in facets if "headwater_offsets" in each]
    ranges = [[(part["first"], part["last"]) for part in each["inputs"]] for each in offsets]
    assert ranges[-3:] == [[(0, 4), (0, 2)], [(5, 6), (3, 3)], [(0, 6), (0, 3)]]
    # The second run counts the rows of the commit that it found in the table.
    assert counts(merged.events) == [(8, 3, 4, 3, 4), (3, 1, 0, 1, 0), (11, 2, 4, 2, 4)]
    dataset = catalog.get(f"/namespaces/neuronews/datasets/{TABLE}")
    assert dataset["sourceName"] == "iceberg"
    columns = {each["name"]: each["inputFields"] for each in dataset["columnLineage"]}
    assert {each["field"] for each in columns["title"]} == {"value.title"}


def counts(events: list[Json]) -> list[tuple[int, ...]]:
    """Of completed runs: rows in, merged rows, dead letters; rows of both outputs."""
    of_runs = []
    for event in events:
        if event["eventType"] == "COMPLETE" and event["job"]["name"] == JOB:
            progress = event["run"]["facets"]["headwater_progress"]
            written = [
                each["outputFacets"]["outputStatistics"]["rowCount"] for each in event["outputs"]
            ]
            rows = (progress[name] for name in ("rowsIn", "rowsOut", "deadLettered"))
            of_runs.append((*rows, *written))
    return of_runs


def test_columns_can_be_added_while_the_job_runs_and_sigterm_stops_it(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    make_topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = "demo.evolving.articles_raw"
    # Read the schema of the table after each batch.
    monkeypatch.setattr(schemas, "_SHARE", 1.0)
    topic = make_topic("articles", partitions=1)
    send(topic, settings, article(1, "one"))
    name = "EvolvingArticles"
    errors: list[BaseException] = []

    def reported_fields() -> set[str]:
        running = [each for each in emitted(catalog, name) if each["eventType"] == "RUNNING"]
        outputs = running[-1]["outputs"] if running else [{"facets": {}}]
        return {each["name"] for each in outputs[0]["facets"].get("schema", {}).get("fields", ())}

    def stored_rows() -> dict[str, tuple[str, str | None]]:
        spark.sql(f"REFRESH TABLE {table}")
        columns = [each for each in spark.table(table).columns if each == "note"] or ["null"]
        rows = spark.table(table).selectExpr("id", "title", f"{columns[0]} AS note").collect()
        return {row["id"]: (row["title"], row["note"]) for row in rows}

    def while_it_runs() -> None:
        try:
            wait_until(lambda: spark.catalog.tableExists(table))
            wait_until(lambda: stored_rows() == {"a1": ("one", None)})
            spark.sql(f"ALTER TABLE {table} ADD COLUMN note string")
            spark.sql(f"UPDATE {table} SET note = 'kept' WHERE id = 'a1'")  # noqa: S608
            send(topic, settings, article(1, "one, corrected"), article(2, "two"))
            expected = {"a1": ("one, corrected", "kept"), "a2": ("two", None)}
            wait_until(lambda: stored_rows() == expected)
            send(topic, settings, article(3, "three"))
            # Without waiting for the interval of a minute.
            wait_until(lambda: "note" in reported_fields())
        except BaseException as error:
            errors.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=while_it_runs)
    watcher.start()
    options = ("--job-name", name, "--trigger", "0 seconds")
    # As with `headwater run`: otherwise the signals are the program's own.
    with process.owned_process():
        run(settings, topic, tmp_path / "checkpoint", *options, table=table)
    watcher.join(60)
    assert not errors
    assert set(stored_rows()) == {"a1", "a2", "a3"}
    job = catalog.get(f"/namespaces/neuronews/jobs/{name}")
    assert job["latestRun"]["state"] == "ABORTED"
    columns = catalog.get(f"/namespaces/neuronews/datasets/{table}")["fields"]
    assert "note" in {field["name"] for field in columns}


def test_the_example_of_the_streaming_job_has_its_owner_and_location(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    make_topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, table = make_topic("articles", partitions=2), "demo.example.streamed"
    send(topic, settings, article(1, "one"))
    variables = environment(
        settings,
        MARQUEZ_URL=catalog.url,
        ICEBERG_TABLE=table,
        KAFKA_TOPIC=topic,
        CHECKPOINT_LOCATION=str(tmp_path / "checkpoint"),
        ENVIRONMENT="staging",
        HEADWATER_ICEBERG__WAREHOUSE=settings.iceberg.warehouse or "",
    )
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(NEURONEWS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = "jobs/spark/stream_write_raw_with_lineage.py"
    monkeypatch.setattr(sys, "argv", [file, "--available-now", "--quiet"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(file, run_name="__main__")
    finish_lineage(left.value)
    assert left.value.code == 0
    assert [row["title"] for row in spark.table(table).collect()] == ["one"]
    job = catalog.get(f"/namespaces/neuronews/jobs/{JOB}")
    tags = {tag["key"]: tag["value"] for tag in job["facets"]["tags"]["tags"]}
    expected = ("data-engineering", "neuronews", "staging")
    assert tuple(tags[key] for key in ("team", "project", "environment")) == expected
    assert (tmp_path / "checkpoint" / "commits").is_dir()
    assert (job["location"], job["type"]) == (file, "STREAM")
    assert job["description"] == "Streaming job with OpenLineage tracking"
    # One run: the session has no events to emit.
    runs = {
        event["run"]["runId"] for event in emitted(catalog, JOB) if topic in names(event, "inputs")
    }
    assert len(runs) == 1
    assert job["latestRun"]["id"] in runs
