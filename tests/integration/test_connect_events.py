"""Dataset lineage of a server of Spark Connect with separate executors: OpenLineage's listener."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.catalog_support import Catalog
from tests.connect import APPLICATION, JOB, ConnectServer, connect_server
from tests.lineage_events import columns, names
from tests.unchanged import Records, true_parents
from tests.waiting import wait_until

from headwater.kafka import read_topic
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

RECORDS = 80
BATCH_CLIENT = """
import sys
from pyspark.sql import SparkSession, functions as F

remote, servers, topic, folder = sys.argv[1:]
spark = SparkSession.builder.remote(remote).getOrCreate()
source = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
text = F.col("value").cast("string")
rows = source.option("subscribe", topic).load()
rows.select(F.get_json_object(text, "$.k").alias("k")).write.parquet(f"{folder}/keys")
spark.read.parquet(f"{folder}/keys").groupBy("k").count().write.parquet(f"{folder}/counts")
spark.stop()
"""


@pytest.fixture(scope="module")
def server(
    broker: Settings, catalog: Catalog, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectServer]:
    configuration = {
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": catalog.url,
        "spark.openlineage.namespace": "connect",
    }
    with connect_server(
        broker,
        tmp_path_factory.mktemp("server"),
        master="local-cluster[1,2,1024]",
        configuration=configuration,
        connectors=("kafka", "openlineage"),
    ) as running:
        yield running


def completed(catalog: Catalog) -> list[Any]:
    events = catalog.get("/events/lineage?limit=1000&sortDirection=asc")["events"]
    return [event for event in events if event["eventType"] == "COMPLETE"]


def writes_to(catalog: Catalog, output: str) -> list[Any]:
    return [event for event in completed(catalog) if output in names(event, "outputs")]


def test_a_batch_of_a_connect_client_is_reported_as_a_job_of_the_server(
    server: ConnectServer,
    catalog: Catalog,
    broker: Settings,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    topic = make_topic("in")
    Records(broker).fill(topic, RECORDS)
    place = [broker.bootstrap_servers, topic, str(tmp_path)]
    server.run("-c", BATCH_CLIENT, server.remote, *place)
    keys, counts = str(tmp_path / "keys"), str(tmp_path / "counts")
    wait_until(lambda: writes_to(catalog, counts), what="the event of the second write")

    (first,), (second,) = writes_to(catalog, keys), writes_to(catalog, counts)
    assert names(first, "inputs") == [topic]
    assert names(second, "inputs") == [keys]
    assert set(columns(second)["k"]) == {f"{keys}:k"}
    for event in (first, second):
        assert event["job"]["name"].startswith(f"{APPLICATION}.")
        assert event["run"]["facets"]["parent"]["job"]["name"] == APPLICATION


def test_streams_are_reported_by_micro_batch_and_their_topic_only_with_the_sink_of_spark(
    server: ConnectServer,
    catalog: Catalog,
    broker: Settings,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    ledger, topic = Records(broker), make_topic("in")
    ledger.fill(topic, RECORDS)
    outputs = {query: make_topic(query) for query in ("windowed", "copied")}
    for query, sink in (("windowed", "headwater"), ("copied", "headers")):
        place = [broker.bootstrap_servers, str(tmp_path / query), topic]
        setting = f"spark.headwater.lineage.sink={sink}"
        server.run(str(JOB), server.remote, *place, setting, f"{query}:{outputs[query]}")
    wait_until(lambda: writes_to(catalog, outputs["copied"]), what="the events of the query")

    # Rows have their parents, also from executors in other processes.
    for output in outputs.values():
        records = list(read_topic(output, broker.kafka))
        assert records
        for record in records:
            parents = ledger.parents(record)
            assert parents is not None, record
            assert parents.exact, record
            assert parents.numbers == true_parents(record), record
    reads = [event for event in completed(catalog) if names(event, "inputs") == [topic]]
    jobs = {event["job"]["name"].split(".")[0] for event in reads}
    assert jobs == {APPLICATION}
    assert len({event["run"]["runId"] for event in reads}) >= 4
    assert not writes_to(catalog, outputs["windowed"])
    with_output = {event["job"]["name"] for event in writes_to(catalog, outputs["copied"])}
    assert with_output == {f"{APPLICATION}.write_to_data_source_v2"}
