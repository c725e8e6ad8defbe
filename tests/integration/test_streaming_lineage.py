"""What the catalog knows of streaming queries: a job's, and those of a plain session."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from tests.catalog_support import Catalog
from tests.lineage_events import columns, names, states, told
from tests.waiting import wait_until

from headwater import LineageJob
from headwater.collector.listener import StreamTracker, track_streaming
from headwater.collector.starting_offsets import first_offsets
from headwater.errors import QueryFailedError
from headwater.jobs.visits_reducer_job import reduce_visits
from headwater.kafka import RecordProducer, read_topic
from headwater.model.headers import origin_of
from headwater.openlineage.open_runs import OpenRun, OpenRunNote
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

VISIT = {"visit_id": "v", "event_time": "2026-01-01T00:00:00Z", "user_id": "u", "page": "home"}
GOOD = json.dumps(VISIT).encode()


@pytest.fixture
def settings(broker: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    """Settings whose jobs tell the catalog of this module, more often than is usual."""
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


def test_a_job_is_one_run_with_its_records_columns_and_counts(
    settings: Settings, catalog: Catalog, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("visits", partitions=1), make_topic("reduced", partitions=1)
    send(source, settings, *[GOOD] * 5, b"not json")
    checkpoint = tmp_path / "checkpoint"
    # A run that was killed has left its note.
    killed = OpenRun(str(uuid.uuid4()), "tests", "reducer", "2026-01-01T00:00:00Z")
    OpenRunNote(checkpoint, settings).write(killed)
    job = LineageJob("reducer", version="v7", settings=settings, checkpoint=checkpoint)
    job.write(reduce_visits(job.read(source)), output, trigger={"availableNow": True})

    record = next(iter(read_topic(output, settings.kafka)))
    lineage = origin_of(record).lineage
    assert lineage is not None
    events = told(catalog, "reducer")
    assert states(events, killed.run_id) == ["ABORT"]
    mine = [event for event in events if event["run"]["runId"] == lineage.run_id]
    assert (mine[0]["eventType"], mine[-1]["eventType"]) == ("START", "COMPLETE")
    assert facet(mine[0], "headwater_previous_run")["runId"] == killed.run_id
    for event in (mine[0], mine[-1]):
        assert names(event, "inputs") == [source]
        assert names(event, "outputs") == [output, f"{output}-dead-letter"]
        kind = event["job"]["facets"]["jobType"]
        assert (kind["processingType"], kind["emissionPattern"]["eventTrigger"]) == (
            "STREAMING",
            "PERIODIC",
        )
        found = columns(event)
        assert set(found) == {"key", *(f"value.{name}" for name in VISIT)}
        assert found["value.page"][f"{source}:value.page"] == {"IDENTITY"}
        assert found["value.event_time"][f"{source}:value.event_time"] == {"TRANSFORMATION"}
        (value,) = (
            each
            for each in event["inputs"][0]["facets"]["schema"]["fields"]
            if each["name"] == "value"
        )
        assert [each["name"] for each in value["fields"]] == list(VISIT)
    progress = facet(mine[-1], "headwater_progress")
    counts = {name: number for name, number in progress.items() if not name.startswith("_")}
    assert counts == {
        "rowsIn": 6,
        "rowsOut": 5,
        "rowsWithLineage": 5,
        "deadLettered": 1,
        "lateRows": 0,
        "lag": 0,
    }
    assert mine[-1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 5
    # From a record of the output to the run and to what it read.
    found = catalog.get(f"/records/{output}/0/4")
    assert (found["run"]["id"], found["jobVersion"]) == (lineage.run_id, "v7")
    (read,) = found["trace"]
    assert (read["topic"], read["first"], read["last"]) == (source, 0, 5)
    assert catalog.get("/namespaces/tests/jobs/reducer")["latestRun"]["state"] == "COMPLETED"
    graph = catalog.get(f"/lineage?nodeId=dataset:{mine[0]['outputs'][0]['namespace']}:{output}")
    assert "job:tests:reducer" in {node["id"] for node in graph["graph"]}
    assert not list((tmp_path / "spool").glob("*/*")), "all is delivered when the job has ended"


def test_a_job_that_fails_or_is_switched_off(
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
    *_, last = told(catalog, "failing")
    assert last["eventType"] == "FAIL"
    assert "token=*** was refused" in facet(last, "errorMessage")["message"]
    assert "abc12345" not in json.dumps(last)

    off = settings.lineage.model_copy(update={"enabled": False, "spool": tmp_path / "off"})
    run("silent", settings.model_copy(update={"lineage": off}), F.col("value"))
    assert told(catalog, "silent") == []
    assert not (tmp_path / "off").exists()


@pytest.fixture
def tracker(spark: SparkSession, settings: Settings, tmp_path: Path) -> Iterator[StreamTracker]:
    """Hears of all queries of the session while the test runs."""
    outputs = {"into_batches": [delta_table(str(tmp_path / "table"))]}
    found = track_streaming(spark, settings, outputs=outputs)
    assert found is not None
    # A session has one: a second call for it adds none that would tell all twice, and nothing
    # that was said before is forgotten.
    assert track_streaming(spark) is found
    yield found
    spark.streams.removeListener(found)
    found.stop()


def test_plain_queries_of_a_session_are_told_of_with_one_call(
    tracker: StreamTracker,
    settings: Settings,
    catalog: Catalog,
    spark: SparkSession,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    source, ads = make_topic("visits", partitions=1), make_topic("ads", partitions=1)
    output = make_topic("out", partitions=1)
    send(source, settings, b'{"page": "a"}', b'{"page": "b"}')

    # As the user writes it; the settings have another word for the same broker.
    named = settings.bootstrap_servers
    host, port = named.rsplit(":", 1)
    own = f"{'127.0.0.1' if host == 'localhost' else 'localhost'}:{port}"
    brokers = {"kafka.bootstrap.servers": own}

    def stream(topic: str, begin: str = "earliest") -> DataFrame:
        reader = spark.readStream.format("kafka").options(**brokers, subscribe=topic)
        return reader.option("startingOffsets", begin).load()

    def start(rows: DataFrame, name: str, *, finite: bool = False, **sink: Any) -> StreamingQuery:
        writer = rows.writeStream.queryName(name)
        writer = writer.option("checkpointLocation", str(tmp_path / name))
        writer = writer.trigger(
            **({"availableNow": True} if finite else {"processingTime": "0 seconds"})
        )
        if "batches" in sink:
            return writer.foreachBatch(sink["batches"]).start()
        return writer.format(sink.pop("format")).options(**sink).start()

    page = F.get_json_object(F.col("value").cast("string"), "$.page")
    both = stream(source).select(page.alias("value")).union(stream(ads).select(page.alias("value")))
    sink: dict[str, Any] = {"format": "kafka", "topic": output, **brokers}
    running = start(both.where("value IS NOT NULL"), "to_kafka", **sink)

    # While it runs: RUNNING with what was read since the event before.
    def read_ranges(name: str) -> list[tuple[int, int]]:
        return [
            (each["first"], each["last"])
            for event in told(catalog, name)
            for each in event["run"]["facets"].get("headwater_offsets", {}).get("inputs", ())
        ]

    def last_read() -> int:
        return max((last for _, last in read_ranges("to_kafka")), default=-1)

    wait_until(lambda: last_read() == 1)
    send(source, settings, b'{"page": "c"}')
    wait_until(lambda: last_read() == 2)
    running.stop()

    opaque = stream(source).select("value").mapInPandas(lambda rows: rows, "value binary")
    start(
        opaque, "to_delta", finite=True, format="delta", path=str(tmp_path / "d")
    ).awaitTermination()
    counting = stream(source).select("key", "offset")
    start(
        counting, "into_batches", finite=True, batches=lambda rows, batch: None
    ).awaitTermination()
    later = stream(source, json.dumps({source: {"0": 1}})).select("value")
    start(later, "later", finite=True, batches=lambda rows, batch: None).awaitTermination()

    def wait(rows: Any) -> Any:
        for each in rows:
            time.sleep(60)
            yield each

    slow = stream(source).select("value").mapInPandas(wait, "value binary")
    cut_off = start(slow, "cut_off", finite=True, format="noop")
    wait_until((tmp_path / "cut_off" / "offsets" / "0").exists)
    cut_off.stop()
    start(counting, "quiet_copy", finite=True, batches=lambda rows, batch: None).awaitTermination()
    tracker.stop()

    events = told(catalog, "to_kafka")
    assert states(events)[0] == "START"
    assert states(events)[-1] == "ABORT"
    assert (states(events).count("START"), states(events).count("ABORT")) == (1, 1)
    # No second, phantom dataset under the settings' name of the broker.
    for event in events:
        offsets = event["run"]["facets"].get("headwater_offsets", {"inputs": (), "outputs": ()})
        places = [*event["inputs"], *event["outputs"], *offsets["inputs"], *offsets["outputs"]]
        assert {each["namespace"] for each in places} == {f"kafka://{own}"}
    assert (names(events[0], "inputs"), names(events[0], "outputs")) == ([source, ads], [output])
    assert columns(events[0])["value"] == {
        f"{source}:value.page": {"IDENTITY"},
        f"{ads}:value.page": {"IDENTITY"},
    }
    decisive = events[0]["outputs"][0]["facets"]["columnLineage"]["dataset"]
    assert {way["subtype"] for each in decisive for way in each["transformations"]} == {"FILTER"}
    assert len({event["run"]["runId"] for event in events}) == 1

    delta = told(catalog, "to_delta")
    assert states(delta)[-1] == "COMPLETE"
    assert names(delta[-1], "outputs") == [str(tmp_path / "d")]
    assert facet(delta[-1], "headwater_job")["opaqueSteps"] == ["MapInPandas"]
    # Delta's sink does not count; its tasks do.
    progress = facet(delta[-1], "headwater_progress")
    assert (progress["rowsIn"], progress["rowsOut"]) == (3, 3)
    assert delta[-1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert told(catalog, "quiet_copy") == []
    # What lies before its begin is not told as read, wherever the checkpoint is.
    assert read_ranges("later") == [(1, 2)]
    assert first_offsets(f"file://{tmp_path}/later", 30) == {source: {0: 1}}
    # It would have ended by itself.
    assert states(told(catalog, "cut_off"))[-1] == "ABORT"
    batches = told(catalog, "into_batches")
    assert states(batches)[-1] == "COMPLETE"
    assert names(batches[-1], "outputs") == [str(tmp_path / "table")]
    # What a function does with its rows is not known, and not told.
    assert "rowsOut" not in facet(batches[-1], "headwater_progress")
    assert columns(batches[-1])["offset"] == {f"{source}:offset": {"IDENTITY"}}
