"""Events of plain streaming queries: what became of their row lineage, and foreachBatch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.catalog_support import Catalog
from tests.lineage_events import columns, emitted, names, reporting_to, states
from tests.lines.environments import fills_missing_columns, needs_iceberg
from tests.unchanged import ENABLED, Ledger

from headwater.collector.listener import StreamTracker, track_streaming
from headwater.kafka import create_topic, read_topic
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "plain-query-events"


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("events"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 20)
    return ledger


@pytest.fixture
def tracker(
    spark: SparkSession, broker: Settings, catalog: Catalog, tmp_path: Path
) -> Iterator[StreamTracker]:
    settings = reporting_to(catalog, broker, spool=tmp_path / "spool", namespace="tests")
    found = track_streaming(spark, settings)
    assert found is not None
    yield found
    spark.streams.removeListener(found)
    found.stop()


def run(rows: DataFrame, name: str, folder: Path, writer: Any, *, lineage: bool) -> None:
    """Run a query to its end; `writer` sets its sink."""
    stream: DataStreamWriter = (
        rows.writeStream.queryName(name)
        .option("checkpointLocation", str(folder / name))
        .trigger(availableNow=True)
    )
    with configured(rows.sparkSession, ENABLED if lineage else {}):
        query = writer(stream).start()
    query.awaitTermination(120)
    assert not query.isActive


def coverage(catalog: Catalog, job: str) -> dict[str, Any] | None:
    """The same in all events of the run, without the fields of every facet."""
    events = emitted(catalog, job)
    found = [event["run"]["facets"].get("headwater_rowLineage") for event in events]
    assert found
    assert all(each == found[0] for each in found)
    return found[0] and {name: each for name, each in found[0].items() if name[0] != "_"}


def datasets(catalog: Catalog, job: str) -> Any:
    """Inputs and outputs with schemas and column lineage of the last event."""
    last = emitted(catalog, job)[-1]
    return [
        (each["namespace"], each["name"], each["facets"])
        for side in ("inputs", "outputs")
        for each in last[side]
    ]


def test_row_lineage_is_in_the_events_of_a_plain_query_and_does_not_change_its_datasets(
    ledger: Ledger,
    tracker: StreamTracker,
    catalog: Catalog,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    output = make_topic("out")
    rows = ledger.read(TOPIC).select("key", F.col("n").cast("string").alias("value"))

    def to_kafka(stream: DataStreamWriter) -> DataStreamWriter:
        servers = ledger.settings.bootstrap_servers
        options = {"kafka.bootstrap.servers": servers, "topic": output}
        return stream.format("kafka").options(**options)

    same = rows.mapInPandas(lambda batches: batches, rows.schema)
    run(rows, "with_rows", tmp_path, to_kafka, lineage=True)
    run(rows, "without_rows", tmp_path, to_kafka, lineage=False)
    run(same, "in_pandas", tmp_path, to_kafka, lineage=True)
    with configured(ledger.spark, {"spark.headwater.lineage.sink": "headers"}):
        run(rows, "with_header", tmp_path, to_kafka, lineage=True)
    other = ledger.spark.readStream.format("rate").load()
    run(other, "no_topic", tmp_path, lambda stream: stream.format("noop"), lineage=True)
    tracker.stop()

    assert coverage(catalog, "with_rows") == {"coverage": "exact", "steps": []}
    assert coverage(catalog, "without_rows") == {
        "coverage": "off",
        "steps": [],
        "reason": "spark.headwater.lineage.enabled is false",
    }
    assert coverage(catalog, "in_pandas") == {"coverage": "ranges", "steps": ["MapInPandas"]}
    assert coverage(catalog, "no_topic") is None
    assert any(record.header("lineage") for record in read_topic(output, ledger.settings.kafka))
    first, *_ = emitted(catalog, "with_rows")
    assert (names(first, "inputs"), names(first, "outputs")) == ([TOPIC], [output])
    assert set(columns(first)) == {"key", "value"}
    assert datasets(catalog, "with_rows") == datasets(catalog, "without_rows")
    assert datasets(catalog, "with_header") == datasets(catalog, "without_rows")


@needs_iceberg
@fills_missing_columns
@pytest.mark.parametrize("lineage", [True, False])
def test_outputs_of_foreach_batch_are_found_with_their_columns(
    ledger: Ledger,
    tracker: StreamTracker,
    catalog: Catalog,
    make_topic: TopicMaker,
    tmp_path: Path,
    lineage: bool,
) -> None:
    topic, delta, merged = make_topic("out"), tmp_path / "delta", tmp_path / "merged"
    name = f"into_three_{lineage}".lower()
    table = f"demo.events.{name}"
    ledger.spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.events")
    ledger.spark.sql(f"CREATE TABLE {table} (n int, key int, lineage string) USING iceberg")
    ledger.spark.sql(f"CREATE TABLE delta.`{merged}` (n int, twice int) USING delta")

    def write(batch: DataFrame, _: int) -> None:
        servers = ledger.settings.bootstrap_servers
        numbered = batch.where("k > 1").select(F.col("n").cast("string").alias("value"))
        numbered.write.format("kafka").option("kafka.bootstrap.servers", servers).option(
            "topic", topic
        ).save()
        batch.select("n", (F.col("k") * 2).alias("twice")).write.format("delta").mode(
            "append"
        ).save(str(delta))
        batch.select("n", F.col("k").alias("key")).writeTo(table).append()
        batch.createOrReplaceTempView("batch_rows")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{merged}` t USING (SELECT n, k AS twice FROM batch_rows) s "  # noqa: S608
            "ON t.n = s.n WHEN NOT MATCHED THEN INSERT *"
        )

    run(
        ledger.read(TOPIC).select("n", "k"),
        name,
        tmp_path,
        lambda stream: stream.foreachBatch(write),
        lineage=lineage,
    )
    tracker.stop()

    events = emitted(catalog, name)
    assert states(events)[-1] == "COMPLETE"
    assert len({event["run"]["runId"] for event in events}) == 1
    check_outputs(events[-1], topic, str(delta), table, str(merged))


def check_outputs(last: dict[str, Any], topic: str, delta: str, table: str, merged: str) -> None:
    """Four outputs, with columns that come from the query's input, and schemas."""
    assert names(last, "inputs") == [TOPIC]
    outputs = {each["name"]: each for each in last["outputs"]}
    assert set(outputs) == {topic, delta, table, merged}
    found = {each: columns({"outputs": [outputs[each]]}) for each in outputs}
    assert found[topic] == {"value": {f"{TOPIC}:value.n": {"TRANSFORMATION"}}}
    assert found[delta] == {
        "n": {f"{TOPIC}:value.n": {"IDENTITY"}},
        "twice": {f"{TOPIC}:value.k": {"TRANSFORMATION"}},
    }
    assert found[table]["key"] == {f"{TOPIC}:value.k": {"IDENTITY"}}
    assert found[merged]["twice"] == {f"{TOPIC}:value.k": {"IDENTITY"}}
    decisive = outputs[topic]["facets"]["columnLineage"]["dataset"]
    assert [each["field"] for each in decisive] == ["value.k"]
    fields = {
        each: [field["name"] for field in outputs[each]["facets"]["schema"]["fields"]]
        for each in outputs
    }
    assert fields == {
        topic: ["value"],
        delta: ["n", "twice"],
        table: ["n", "key", "lineage"],
        merged: ["n", "twice"],
    }
    written = last["run"]["facets"]["headwater_progress"]["outputsWritten"]
    assert {each["name"] for each in written} == set(outputs)
