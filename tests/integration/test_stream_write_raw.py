"""Articles from a topic into the table that the batch job writes, too."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.catalog_support import Catalog
from tests.lineage_events import names, told
from tests.support import environment
from tests.waiting import wait_until

from headwater.collector import schemas
from headwater.collector.session import finish_lineage
from headwater.errors import QueryFailedError
from headwater.jobs import stream_write_raw_with_lineage
from headwater.kafka import RecordProducer, read_topic
from headwater.settings import Settings, fault_points
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import known_tables
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

JOB = "StreamWriteRawWithLineage"
TABLE = "demo.stream.articles_raw"
NEURONEWS = Path(__file__).parents[2] / "examples" / "neuronews"


@pytest.fixture
def settings(broker: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    """Settings with a home of their own, whose jobs tell the catalog of this module."""
    changed = {
        "catalog": broker.catalog.model_copy(update={"url": catalog.url}),
        "home": tmp_path / "home",
        "iceberg": broker.iceberg.model_copy(
            update={"warehouse": str(broker.home_dir / "warehouse")}
        ),
        "articles": broker.articles.model_copy(update={"table": TABLE}),
    }
    return broker.model_copy(update=changed)


def send(
    topic: str,
    settings: Settings,
    *articles: dict[str, Any] | bytes | str | None,
    partition: int = 0,
) -> None:
    """Articles, bytes that are none, the id of one that is deleted, or a deletion of nothing."""
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


def run(settings: Settings, topic: str, checkpoint: Path, *how: str) -> None:
    options = ["--input-topic", topic, "--checkpoint", str(checkpoint), "--quiet"]
    stream_write_raw_with_lineage.main.main(
        [*options, *(how or ("--available-now",))], standalone_mode=False, obj=settings
    )


def titles(spark: SparkSession) -> dict[str, str]:
    return {row["id"]: row["title"] for row in spark.table(TABLE).collect()}


def test_articles_are_merged_by_id_once_and_the_catalog_knows_from_which_offsets(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    topic = make_topic("articles", partitions=2)
    send(topic, settings, article(1, "one"), article(1, "one, corrected"), partition=1)
    send(topic, settings, article(3, "x"), partition=1)
    # The last four are no articles.
    late, nameless = {"id": "late", "published_at": "soon"}, article(4, "y") | {"id": ""}
    send(topic, settings, article(2, "two"), b"{........", late, nameless, None)
    checkpoint = tmp_path / "checkpoint"
    # The process dies behind the table's commit, before Spark's.
    faulty = settings.testing.model_copy(update={"fault_points": "after_table_commit=raise@1"})
    with pytest.raises(QueryFailedError, match="after_table_commit"):
        run(settings.model_copy(update={"testing": faulty}), topic, checkpoint)
    assert fault_points.fired() == {"after_table_commit": 1}
    # This process is not trusted with that checkpoint any more.
    checkpoint = Path(shutil.copytree(checkpoint, tmp_path / "copied"))
    run(settings, topic, checkpoint)
    assert titles(spark) == {"a1": "one, corrected", "a2": "two", "a3": "x"}
    assert spark.table(f"{TABLE}.snapshots").count() == 1

    row = spark.table(TABLE).where("id = 'a1'").head()
    assert row is not None
    assert (row["kafka_partition"], row["kafka_offset"]) == (1, 1)
    parent = row["lineage"]
    assert (parent["topic"], parent["partition"], parent["offset"]) == (topic, 1, 1)
    assert row["lineage_job_id"] == parent["run_id"]
    letters = {
        record.value: dict(record.headers)["__connect.errors.exception.message"]
        for record in read_topic(f"{topic}-dead-letter", settings.kafka)
    }
    assert letters == {
        b"{........": b"the value is not a JSON object",
        json.dumps(late).encode(): b"field 'published_at' is no timestamp: soon",
        json.dumps(nameless).encode(): b"field 'id' is missing or empty",
        None: b"a tombstone without a key deletes nothing",
    }

    # What is deleted goes, what is newer replaces.
    send(topic, settings, article(2, "two, corrected"), "never-there")
    send(topic, settings, "a3", partition=1)
    run(settings, topic, checkpoint)
    after = titles(spark)
    assert after == {"a1": "one, corrected", "a2": "two, corrected"}
    # A new checkpoint reads all again, and takes nothing back.
    run(settings, topic, tmp_path / "another")
    assert titles(spark) == after
    partitions = spark.table(f"{TABLE}.partitions").count()
    assert partitions >= len(after)

    job = catalog.get(f"/namespaces/neuronews/jobs/{JOB}")
    assert job["type"] == "STREAM"
    assert job["description"] == "News articles from a topic, merged by id"
    assert [each["name"] for each in job["inputs"]] == [topic]
    assert {each["name"] for each in job["outputs"]} == {TABLE, f"{topic}-dead-letter"}
    runs = catalog.get(f"/namespaces/neuronews/jobs/{JOB}/runs")["runs"]
    assert [each["state"] for each in reversed(runs)] == ["FAILED", *["COMPLETED"] * 3]
    events = catalog.get("/events/lineage?limit=1000&sortDirection=asc")["events"]
    offsets = [
        event["run"]["facets"]["headwater_offsets"]
        for event in events
        if event["job"]["name"] == JOB and "headwater_offsets" in event["run"]["facets"]
    ]
    ranges = [[(part["first"], part["last"]) for part in each["inputs"]] for each in offsets]
    assert ranges[-3:] == [[(0, 4), (0, 2)], [(5, 6), (3, 3)], [(0, 6), (0, 3)]]
    # Of the second run the rows are those of the commit that it found in the table.
    assert figures(events) == [(8, 3, 4, 3, 4), (3, 1, 0, 1, 0), (11, 2, 4, 2, 4)]
    found = catalog.get(f"/namespaces/neuronews/datasets/{TABLE}")
    assert found["sourceName"] == "iceberg"
    columns = {each["name"]: each["inputFields"] for each in found["columnLineage"]}
    assert {each["field"] for each in columns["title"]} == {"value.title"}
    # `impact` finds the row by its parent, without Spark.
    (known,) = known_tables(settings)
    assert LineageTable(known).find({(topic, 1): OffsetRanges.of((1, 1))}, None).rows == 1


def figures(events: list[dict[str, Any]]) -> list[tuple[int, ...]]:
    """Of runs that are complete: rows in, merged and set aside; rows of table and dead letter."""
    found = []
    for event in events:
        if event["eventType"] == "COMPLETE" and event["job"]["name"] == JOB:
            progress = event["run"]["facets"]["headwater_progress"]
            written = [
                each["outputFacets"]["outputStatistics"]["rowCount"] for each in event["outputs"]
            ]
            rows = (progress[name] for name in ("rowsIn", "rowsOut", "deadLettered"))
            found.append((*rows, *written))
    return found


def test_columns_are_added_under_the_running_job_which_ends_in_order_when_it_is_told_to(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    make_topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = "demo.evolving.articles_raw"
    articles = settings.articles.model_copy(update={"table": table})
    settings = settings.model_copy(update={"articles": articles})
    # The tables of a test are looked at behind each batch.
    monkeypatch.setattr(schemas, "_SHARE", 1.0)
    topic = make_topic("articles", partitions=1)
    send(topic, settings, article(1, "one"))
    name = "EvolvingArticles"
    troubles: list[BaseException] = []

    def told_fields() -> set[str]:
        running = [each for each in told(catalog, name) if each["eventType"] == "RUNNING"]
        outputs = running[-1]["outputs"] if running else [{"facets": {}}]
        return {each["name"] for each in outputs[0]["facets"].get("schema", {}).get("fields", ())}

    def stored_rows() -> dict[str, tuple[str, str | None]]:
        spark.sql(f"REFRESH TABLE {table}")
        columns = [each for each in spark.table(table).columns if each == "note"] or ["null"]
        found = spark.table(table).selectExpr("id", "title", f"{columns[0]} AS note").collect()
        return {row["id"]: (row["title"], row["note"]) for row in found}

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
            # Long before the interval, which is a minute.
            wait_until(lambda: "note" in told_fields())
        except BaseException as error:
            troubles.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=while_it_runs)
    watcher.start()
    run(settings, topic, tmp_path / "checkpoint", "--job-name", name, "--trigger", "0 seconds")
    watcher.join(60)
    assert not troubles
    assert set(stored_rows()) == {"a1", "a2", "a3"}
    job = catalog.get(f"/namespaces/neuronews/jobs/{name}")
    assert job["latestRun"]["state"] == "ABORTED"
    columns = catalog.get(f"/namespaces/neuronews/datasets/{table}")["fields"]
    assert "note" in {field["name"] for field in columns}


def test_the_example_of_the_streaming_job_says_whose_it_is(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    make_topic: TopicMaker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, table = make_topic("articles", partitions=2), "demo.example.streamed"
    send(topic, settings, article(1, "one"))
    given = environment(
        settings,
        MARQUEZ_URL=catalog.url,
        ICEBERG_TABLE=table,
        KAFKA_TOPIC=topic,
        HEADWATER_ICEBERG__WAREHOUSE=settings.iceberg.warehouse or "",
    )
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(NEURONEWS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = "jobs/spark/stream_write_raw_with_lineage.py"
    options = ["--available-now", "--quiet", "--checkpoint", str(tmp_path / "checkpoint")]
    monkeypatch.setattr(sys, "argv", [file, *options])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(file, run_name="__main__")
    finish_lineage(left.value)
    assert left.value.code == 0
    assert [row["title"] for row in spark.table(table).collect()] == ["one"]
    job = catalog.get(f"/namespaces/neuronews/jobs/{JOB}")
    tags = {tag["key"]: tag["value"] for tag in job["facets"]["tags"]["tags"]}
    assert (tags["team"], tags["project"]) == ("data-engineering", "neuronews")
    assert (job["location"], job["type"]) == (file, "STREAM")
    assert job["description"] == "Streaming job with OpenLineage tracking"
    # One run: the session's own has nothing to tell.
    runs = {
        event["run"]["runId"] for event in told(catalog, JOB) if topic in names(event, "inputs")
    }
    assert len(runs) == 1
    assert job["latestRun"]["id"] in runs
