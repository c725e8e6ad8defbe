"""Datasets and job facets in the events of a streaming query."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType
from tests.lineage_events import batch, spooled, states
from tests.waiting import wait_until

from headwater.collector.columns import Description
from headwater.collector.query import QueryDescription
from headwater.collector.reporter import StreamingRunReporter
from headwater.collector.sources import OutputSchemas, topic_dataset
from headwater.collector.streaming import observe_row_count, report_streaming_run, topic_outputs
from headwater.openlineage import Emitter
from headwater.openlineage.events import OBSERVED, Roles
from headwater.openlineage.facets import register_job_facets
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings, load
from headwater.spark.query_runner import StopSignal


def test_topics_keep_the_brokers_that_the_query_uses(settings: Settings, tmp_path: Path) -> None:
    description = Description(
        [topic_dataset("127.0.0.1:9092", "visits")], bootstrap_servers="c:1,d:2"
    )
    lineage = QueryDescription(
        "own", None, None, None, [topic_dataset("e:9092", "out"), topic_dataset("e:9092", "visits")]
    )
    emitter = Emitter.from_settings(settings)
    assert emitter is not None
    reporter = StreamingRunReporter(lineage, str(uuid.uuid4()), settings, emitter, description)
    reporter.start()
    read = {"visits": (0, 3), "by-pattern": (0, 1)}
    reporter.add(batch(0, read, {"out/0": "0,0,1", "visits/0": "5,5,1", "late/0": "0,0,1"}))
    reporter.end(None, stopped=False)
    events = spooled(settings, "own")
    last = events[-1]
    datasets = {
        side: sorted((each["namespace"], each["name"]) for each in last[side])
        for side in ("inputs", "outputs")
    }
    assert datasets == {
        "inputs": [("kafka://127.0.0.1:9092", "visits"), ("kafka://c:1", "by-pattern")],
        "outputs": [
            ("kafka://b:9092", "late"),
            ("kafka://e:9092", "out"),
            ("kafka://e:9092", "visits"),
        ],
    }
    # Only once: in the last event, or in an earlier one because of the new topics.
    facets = [each["run"]["facets"] for each in events]
    (offsets,) = [each["headwater_offsets"] for each in facets if "headwater_offsets" in each]
    for side in ("inputs", "outputs"):
        named = sorted((each["namespace"], each["topic"]) for each in offsets[side])
        assert named == datasets[side]


def test_a_changed_table_schema_is_reported_without_delay(
    settings: Settings, tmp_path: Path
) -> None:
    table = delta_table(str(tmp_path / "table"))
    parts = StructType().add("a", "integer")
    schema = StructType().add("id", "string").add("parts", parts).add("lineage", parts)
    columns = [schema]

    def schema_of(dataset: Mapping[str, Any]) -> StructType:
        assert dataset["name"] == table["name"]
        return columns[0]

    lineage = QueryDescription("evolving", None, None, None, [table], unnested=("lineage",))
    emitter = Emitter.from_settings(settings)
    assert emitter is not None
    reporter = StreamingRunReporter(
        lineage, str(uuid.uuid4()), settings, emitter, Description(), schema_of=schema_of
    )

    def fields() -> list[list[str]]:
        events = [each for each in spooled(settings, "evolving") if each["eventType"] == "RUNNING"]
        schemas = [each["outputs"][0]["facets"]["schema"]["fields"] for each in events]
        return [[field["name"] for field in each] for each in schemas]

    reporter.start()
    known = ["id", "parts", "lineage"]
    # The first check reports the schema: here the plan had no columns.
    reporter.add(batch(0, {}))
    wait_until(lambda: fields() == [known])
    columns[0] = StructType([*schema.fields, StructField("added", StringType())])

    def is_reported() -> bool:
        reporter.add(batch(1, {}))
        return len(fields()) == 2

    wait_until(is_reported)
    assert fields() == [known, [*known, "added"]]
    reporter.end(None, stopped=False)
    events = spooled(settings, "evolving")
    assert states(events) == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    reported = events[-1]["outputs"][0]["facets"]["schema"]["fields"]
    assert reported[1] == {
        "name": "parts",
        "type": "struct",
        "fields": [{"name": "a", "type": "integer"}],
    }
    assert reported[2] == {"name": "lineage", "type": "struct"}


def test_reading_schemas_takes_at_most_a_hundredth_of_the_time() -> None:
    now = [100.0]

    def slow(dataset: Mapping[str, Any]) -> StructType:
        now[0] += 0.5
        return StructType().add("id", "string")

    tables = OutputSchemas([delta_table("/a"), delta_table("/b")], slow, clock=lambda: now[0])
    assert tables.due()
    assert len(tables.changed()) == 2
    now[0] += 99
    assert not tables.due()
    now[0] += 1
    assert tables.due()
    assert tables.changed() == {}
    topics = topic_outputs(("out",), load(kafka={"bootstrap_servers": "b:9092"}))
    assert not OutputSchemas(topics, slow, clock=lambda: now[0]).due()


def test_queries_have_the_job_facets_of_their_application_and_their_own_win(
    settings: Settings,
) -> None:
    application_facets: dict[str, dict[str, Any]] = {
        "documentation": {"description": "of the application"},
        "acme_a": {"a": 1},
    }
    register_job_facets("named-query", {"documentation": {"description": "of the query"}})
    lineage = QueryDescription("named-query", None, None, None, [], job_facets=application_facets)
    emitter = Emitter.from_settings(settings)
    assert emitter is not None
    reporter = StreamingRunReporter(lineage, str(uuid.uuid4()), settings, emitter, Description())
    reporter.start()
    reporter.end(None, stopped=True)
    (start, _) = spooled(settings, "named-query")
    facets_of_job = start["job"]["facets"]
    assert facets_of_job["documentation"]["description"] == "of the query"
    assert facets_of_job["acme_a"] == {"a": 1}


def test_observed_rows_are_counted_apart_from_dead_letters(
    settings: Settings, tmp_path: Path
) -> None:
    table = delta_table(str(tmp_path / "table"))
    outputs = [table, *topic_outputs(("letters",), settings)]
    roles = Roles(dead_letters=("letters",))
    lineage = QueryDescription("counting", None, None, None, outputs, roles, finite=True)
    observed = {OBSERVED: {"rows": 3, "dead_letter": 2}}
    with report_streaming_run(lineage, str(uuid.uuid4()), settings, StopSignal()) as on_batch:
        assert on_batch is not None
        on_batch({**batch(0, {"visits": (0, 9)}), "observedMetrics": observed})
    last = spooled(settings, "counting")[-1]
    progress = last["run"]["facets"]["headwater_progress"]
    assert [progress[name] for name in ("rowsIn", "rowsOut", "deadLettered")] == [9, 3, 2]
    written = [each["outputFacets"]["outputStatistics"]["rowCount"] for each in last["outputs"]]
    assert written == [3, 2]


def test_rows_of_a_disabled_job_are_not_counted(settings: Settings) -> None:
    off = settings.lineage.model_copy(update={"disabled_jobs": ["quiet_*"]})
    rows: Any = object()
    # Counting would call a method that this object does not have.
    assert (
        observe_row_count(rows, settings.model_copy(update={"lineage": off}), "quiet_copy") is rows
    )
    with pytest.raises(AttributeError):
        observe_row_count(rows, settings, "loud_copy")
