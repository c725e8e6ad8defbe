"""Articles from a topic into the table that the batch job writes, too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.catalog_support import Catalog

from headwater import faultpoints
from headwater.deltafiles.intervals import Intervals
from headwater.errors import QueryFailedError
from headwater.jobs import stream_write_raw_with_lineage
from headwater.kafka import RecordProducer, read_topic
from headwater.settings import Settings
from headwater.tables.reader import LineageTable
from headwater.tables.registry import known_tables
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

JOB = "StreamWriteRawWithLineage"
TABLE = "demo.stream.articles_raw"


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


def send(topic: str, settings: Settings, *articles: dict[str, Any] | bytes | str) -> None:
    """Articles, bytes that are none, or the id of one that is deleted."""
    with RecordProducer(settings) as producer:
        for each in articles:
            if isinstance(each, dict):
                producer.send(topic, json.dumps(each).encode(), each["id"].encode(), partition=0)
            elif isinstance(each, bytes):
                producer.send(topic, each, b"x", partition=0)
            else:
                producer.send(topic, None, each.encode(), partition=0)


def article(number: int, title: str) -> dict[str, Any]:
    at = f"2026-01-0{number}T00:00:00+00:00"
    return {"id": f"a{number}", "published_at": at, "title": title}


def run(settings: Settings, topic: str, checkpoint: Path) -> None:
    options = ["--input-topic", topic, "--checkpoint", str(checkpoint)]
    stream_write_raw_with_lineage.main.main(
        [*options, "--available-now", "--quiet"], standalone_mode=False, obj=settings
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
    topic = make_topic("articles", partitions=1)
    first = [article(1, "one"), article(2, "two"), article(1, "one, corrected"), article(3, "x")]
    send(topic, settings, *first, b"{........", {"id": "late", "published_at": "soon"})
    checkpoint = tmp_path / "checkpoint"
    # The process dies behind the table's commit, before Spark's.
    faulty = settings.testing.model_copy(update={"fault_points": "after_table_commit=raise@1"})
    with pytest.raises(QueryFailedError, match="after_table_commit"):
        run(settings.model_copy(update={"testing": faulty}), topic, checkpoint)
    assert faultpoints.fired() == {"after_table_commit": 1}
    # This process is not trusted with that checkpoint any more.
    checkpoint = Path(shutil.copytree(checkpoint, tmp_path / "copied"))
    run(settings, topic, checkpoint)
    assert titles(spark) == {"a1": "one, corrected", "a2": "two", "a3": "x"}
    assert spark.table(f"{TABLE}.snapshots").count() == 1

    row = spark.table(TABLE).where("id = 'a1'").head()
    assert row is not None
    assert (row["kafka_partition"], row["kafka_offset"]) == (0, 2)
    parent = row["lineage"]
    assert (parent["topic"], parent["partition"], parent["offset"]) == (topic, 0, 2)
    assert row["lineage_job_id"] == parent["run_id"]
    letters = {record.value for record in read_topic(f"{topic}-dead-letter", settings)}
    assert letters == {b"{........", b'{"id": "late", "published_at": "soon"}'}

    # What is deleted goes, what is newer replaces.
    send(topic, settings, article(2, "two, corrected"), "a3", "never-there")
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
    assert [each["name"] for each in job["outputs"]] == [TABLE]
    runs = catalog.get(f"/namespaces/neuronews/jobs/{JOB}/runs")["runs"]
    assert [each["state"] for each in reversed(runs)] == ["FAILED", *["COMPLETED"] * 3]
    events = catalog.get("/events/lineage?limit=1000&sortDirection=asc")["events"]
    told = [
        event["run"]["facets"]["headwater_offsets"]
        for event in events
        if event["job"]["name"] == JOB and "headwater_offsets" in event["run"]["facets"]
    ]
    ranges = [(each["inputs"][0]["first"], each["inputs"][0]["last"]) for each in told]
    assert ranges[-3:] == [(0, 5), (6, 8), (0, 8)]
    found = catalog.get(f"/namespaces/neuronews/datasets/{TABLE}")
    assert found["sourceName"] == "iceberg"
    columns = {each["name"]: each["inputFields"] for each in found["columnLineage"]}
    assert {each["field"] for each in columns["title"]} == {"value.title"}
    # `impact` finds the row by its parent, without Spark.
    (known,) = known_tables(settings)
    assert LineageTable(known).find({(topic, 0): Intervals.of((2, 2))}, None).rows == 1
