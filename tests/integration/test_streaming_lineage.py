"""Streaming queries in the catalog: those of a job, and those of any session."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.catalog_support import Catalog
from tests.lineage_events import columns, emitted, names, states
from tests.waiting import wait_until

from headwater import LineageJob
from headwater.collector.listener import StreamTracker, track_streaming
from headwater.collector.sources import first_offsets
from headwater.errors import QueryFailedError
from headwater.jobs.visits_reducer_job import reduce_visits
from headwater.kafka import RecordProducer, read_topic
from headwater.model.header import origin_of
from headwater.openlineage.run import OpenRun, OpenRunNote
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

VISIT = {"visit_id": "v", "event_time": "2026-01-01T00:00:00Z", "user_id": "u", "page": "home"}
GOOD = json.dumps(VISIT).encode()


@pytest.fixture
def settings(broker: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    """Settings with the catalog of this module and a short interval."""
    lineage = {
        "spool": tmp_path / "spool",
        "namespace": "tests",
        "interval_seconds": 0.3,
        "disabled_jobs": ["quiet_*"],
    }
    return broker.model_copy(
        update={
            "catalog": broker.catalog.model_copy(update={"url": catalog.url}),
            "lineage": broker.lineage.model_copy(update=lineage),
        }
    )


def send(topic: str, settings: Settings, *values: bytes) -> None:
    with RecordProducer(settings.kafka) as producer:
        for value in values:
            producer.send(topic, value, b"home", partition=0)


def facet(event: dict[str, Any], name: str) -> Any:
    return event["run"]["facets"][name]


def written(events: list[dict[str, Any]]) -> set[str]:
    """The outputs that the events list as written; the first one lists none."""
    listed = [facet(event, "headwater_progress")["outputsWritten"] for event in events]
    assert listed[0] == []
    return {each["name"] for one in listed for each in one}


@pytest.mark.lines
def test_a_job_is_one_run_with_its_records_columns_and_counts(
    settings: Settings, catalog: Catalog, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("visits", partitions=1), make_topic("reduced", partitions=1)
    send(source, settings, *[GOOD] * 5, b"not json")
    checkpoint = tmp_path / "checkpoint"
    # The note of a run that was killed.
    killed = OpenRun(str(uuid.uuid4()), "tests", "reducer", "2026-01-01T00:00:00Z")
    OpenRunNote(checkpoint, settings).write(killed)
    job = LineageJob("reducer", version="v7", settings=settings, checkpoint=checkpoint)
    job.write(reduce_visits(job.read(source)), output, trigger={"availableNow": True})

    lineage = origin_of(next(iter(read_topic(output, settings.kafka)))).lineage
    assert lineage is not None
    events = emitted(catalog, "reducer")
    assert states(events, killed.run_id) == ["ABORT"]
    own = [event for event in events if event["run"]["runId"] == lineage.run_id]
    assert (own[0]["eventType"], own[-1]["eventType"]) == ("START", "COMPLETE")
    assert facet(own[0], "headwater_previous_run")["runId"] == killed.run_id
    for event in (own[0], own[-1]):
        assert names(event, "inputs") == [source]
        assert names(event, "outputs") == [output, f"{output}-dead-letter"]
        kind = event["job"]["facets"]["jobType"]
        assert (kind["processingType"], kind["emissionPattern"]["eventTrigger"]) == (
            "STREAMING",
            "PERIODIC",
        )
        fields = columns(event)
        assert set(fields) == {"key", *(f"value.{name}" for name in VISIT)}
        assert fields["value.page"][f"{source}:value.page"] == {"IDENTITY"}
        assert fields["value.event_time"][f"{source}:value.event_time"] == {"TRANSFORMATION"}
        (value,) = (
            each
            for each in event["inputs"][0]["facets"]["schema"]["fields"]
            if each["name"] == "value"
        )
        assert [each["name"] for each in value["fields"]] == list(VISIT)
    assert {facet(event, "headwater_rowLineage")["coverage"] for event in own} == {"exact"}
    assert written(own) == {output, f"{output}-dead-letter"}
    progress = facet(own[-1], "headwater_progress")
    assert {name: number for name, number in progress.items() if isinstance(number, int)} == {
        "rowsIn": 6,
        "rowsOut": 5,
        "rowsWithLineage": 5,
        "deadLettered": 1,
        "lateRows": 0,
        "lag": 0,
    }
    assert own[-1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 5
    # From a record of the output to the run and to its inputs.
    origin = catalog.get(f"/records/{output}/0/4")
    assert (origin["run"]["id"], origin["jobVersion"]) == (lineage.run_id, "v7")
    (read,) = origin["trace"]
    assert (read["topic"], read["first"], read["last"]) == (source, 0, 5)
    assert catalog.get("/namespaces/tests/jobs/reducer")["latestRun"]["state"] == "COMPLETED"
    graph = catalog.get(f"/lineage?nodeId=dataset:{own[0]['outputs'][0]['namespace']}:{output}")
    assert "job:tests:reducer" in {node["id"] for node in graph["graph"]}
    assert not list((tmp_path / "spool").glob("*/*")), (
        "all events are delivered at the end of the job"
    )


def test_a_failed_job_and_a_disabled_job(
    settings: Settings, catalog: Catalog, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("visits", partitions=1), make_topic("out", partitions=1)
    send(source, settings, GOOD)
    broken = F.raise_error(F.lit("token=abc12345 was refused")).cast("string")

    def run(name: str, settings: Settings, value: Any) -> None:
        job = LineageJob(name, settings=settings, checkpoint=tmp_path / name)
        rows = job.read(source).select("key", value.alias("value"), "lineage")
        job.write(rows, output, trigger={"availableNow": True})

    with pytest.raises(QueryFailedError):
        run("failing", settings, broken)
    *_, last = emitted(catalog, "failing")
    assert last["eventType"] == "FAIL"
    assert "token=*** was refused" in facet(last, "errorMessage")["message"]
    assert "abc12345" not in json.dumps(last)

    off = settings.lineage.model_copy(update={"enabled": False, "spool": tmp_path / "off"})
    run("silent", settings.model_copy(update={"lineage": off}), F.col("value"))
    assert emitted(catalog, "silent") == []
    assert not (tmp_path / "off").exists()


@pytest.fixture
def tracker(spark: SparkSession, settings: Settings, tmp_path: Path) -> Iterator[StreamTracker]:
    """Reports all queries of the session while the test runs."""
    outputs = {"into_batches": [delta_table(str(tmp_path / "table"))]}
    found = track_streaming(spark, settings, outputs=outputs)
    assert found is not None
    # A session has one tracker: a second call adds none, and keeps the outputs.
    assert track_streaming(spark) is found
    yield found
    spark.streams.removeListener(found)
    found.stop()


@dataclass
class PlainQueries:
    """Starts streaming queries as a user writes them, without Headwater."""

    spark: SparkSession
    folder: Path
    # Another address of the same broker than the settings have.
    brokers: str

    def read(self, topic: str, starting_offsets: str = "earliest") -> DataFrame:
        options = {"kafka.bootstrap.servers": self.brokers, "subscribe": topic}
        reader = self.spark.readStream.format("kafka").options(**options)
        return reader.option("startingOffsets", starting_offsets).load()

    def start(self, rows: DataFrame, name: str, **sink: Any) -> StreamingQuery:
        """A query that runs until it is stopped."""
        writer = self._writer(rows, name).trigger(processingTime="0 seconds")
        return writer.format(sink.pop("format")).options(**sink).start()

    def start_finite(self, rows: DataFrame, name: str, **sink: Any) -> StreamingQuery:
        """A query that ends by itself; without a sink, a `foreachBatch` that does nothing."""
        writer = self._writer(rows, name).trigger(availableNow=True)
        if not sink:
            return writer.foreachBatch(lambda batch_rows, batch: None).start()
        return writer.format(sink.pop("format")).options(**sink).start()

    def _writer(self, rows: DataFrame, name: str) -> DataStreamWriter:
        location = str(self.folder / name)
        return rows.writeStream.queryName(name).option("checkpointLocation", location)


@pytest.fixture
def queries(spark: SparkSession, settings: Settings, tmp_path: Path) -> PlainQueries:
    host, port = settings.bootstrap_servers.rsplit(":", 1)
    other_name = "127.0.0.1" if host == "localhost" else "localhost"
    return PlainQueries(spark, tmp_path, f"{other_name}:{port}")


def read_ranges(catalog: Catalog, job: str) -> list[tuple[int, int]]:
    return [
        (each["first"], each["last"])
        for event in emitted(catalog, job)
        for each in event["run"]["facets"].get("headwater_offsets", {}).get("inputs", ())
    ]


def sleeping() -> Callable[[Any], Any]:
    """For `mapInPandas`; nested, so that it is pickled by value: workers can't import tests."""

    def sleep(rows: Any) -> Any:
        for each in rows:
            time.sleep(60)
            yield each

    return sleep


def check_kafka_query(
    events: list[dict[str, Any]], brokers: str, inputs: list[str], output: str
) -> None:
    """One run that was stopped, with the topics and columns of its plan."""
    assert states(events)[0] == "START"
    assert states(events)[-1] == "ABORT"
    assert (states(events).count("START"), states(events).count("ABORT")) == (1, 1)
    # No second dataset under the address that the settings have.
    for event in events:
        offsets = event["run"]["facets"].get("headwater_offsets", {"inputs": (), "outputs": ()})
        datasets = [*event["inputs"], *event["outputs"], *offsets["inputs"], *offsets["outputs"]]
        assert {each["namespace"] for each in datasets} == {f"kafka://{brokers}"}
    assert (names(events[0], "inputs"), names(events[0], "outputs")) == (inputs, [output])
    assert columns(events[0])["value"] == {f"{topic}:value.page": {"IDENTITY"} for topic in inputs}
    decisive = events[0]["outputs"][0]["facets"]["columnLineage"]["dataset"]
    assert {one["subtype"] for each in decisive for one in each["transformations"]} == {"FILTER"}
    assert len({event["run"]["runId"] for event in events}) == 1


def check_delta_query(events: list[dict[str, Any]], path: str) -> None:
    assert states(events)[-1] == "COMPLETE"
    assert names(events[-1], "outputs") == [path]
    assert facet(events[-1], "headwater_job")["opaqueSteps"] == ["MapInPandas"]
    # Delta's sink reports no row count: the metrics of the tasks are used.
    progress = facet(events[-1], "headwater_progress")
    assert (progress["rowsIn"], progress["rowsOut"]) == (3, 3)
    assert events[-1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 3


def check_foreach_batch_query(events: list[dict[str, Any]], table: str, source: str) -> None:
    assert states(events)[-1] == "COMPLETE"
    assert names(events[-1], "outputs") == [table]
    # The rows that a function writes are unknown, and not reported.
    assert "rowsOut" not in facet(events[-1], "headwater_progress")
    assert columns(events[-1])["offset"] == {f"{source}:offset": {"IDENTITY"}}


def test_plain_queries_of_a_session_are_reported_with_one_call(
    tracker: StreamTracker,
    settings: Settings,
    catalog: Catalog,
    queries: PlainQueries,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    source, ads = make_topic("visits", partitions=1), make_topic("ads", partitions=1)
    output = make_topic("out", partitions=1)
    send(source, settings, b'{"page": "a"}', b'{"page": "b"}')
    page = F.get_json_object(F.col("value").cast("string"), "$.page").alias("value")
    both = queries.read(source).select(page).union(queries.read(ads).select(page))
    sink = {"format": "kafka", "topic": output, "kafka.bootstrap.servers": queries.brokers}
    running = queries.start(both.where("value IS NOT NULL"), "to_kafka", **sink)

    # RUNNING events have the records that were read since the previous event.
    def last_read() -> int:
        return max((last for _, last in read_ranges(catalog, "to_kafka")), default=-1)

    wait_until(lambda: last_read() == 1)
    send(source, settings, b'{"page": "c"}')
    wait_until(lambda: last_read() == 2)
    running.stop()

    values = queries.read(source).select("value")
    offsets = queries.read(source).select("key", "offset")
    opaque = values.mapInPandas(lambda rows: rows, "value binary")
    delta = {"format": "delta", "path": str(tmp_path / "d")}
    queries.start_finite(opaque, "to_delta", **delta).awaitTermination()
    queries.start_finite(offsets, "into_batches").awaitTermination()
    later = queries.read(source, json.dumps({source: {"0": 1}})).select("value")
    queries.start_finite(later, "later").awaitTermination()
    slow = values.mapInPandas(sleeping(), "value binary")
    interrupted = queries.start_finite(slow, "interrupted", format="noop")
    wait_until((tmp_path / "interrupted" / "offsets" / "0").exists)
    interrupted.stop()
    queries.start_finite(offsets, "quiet_copy").awaitTermination()
    tracker.stop()

    check_kafka_query(emitted(catalog, "to_kafka"), queries.brokers, [source, ads], output)
    check_delta_query(emitted(catalog, "to_delta"), str(tmp_path / "d"))
    check_foreach_batch_query(emitted(catalog, "into_batches"), str(tmp_path / "table"), source)
    assert emitted(catalog, "quiet_copy") == []
    # Records before the starting offsets are not reported as read, on any file system.
    assert read_ranges(catalog, "later") == [(1, 2)]
    assert first_offsets(f"file://{tmp_path}/later", 30) == {source: {0: 1}}
    # A finite query that was stopped.
    assert states(emitted(catalog, "interrupted"))[-1] == "ABORT"
