"""One cluster has one namespace, in whatever order its brokers are written."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from headwater.openlineage.emitter import Emitter
from headwater.openlineage.events import kafka_namespace, kafka_topic, with_cluster_namespace
from headwater.openlineage.spool.files import segments_of
from headwater.settings import load

BROKERS = ("b3:9092", "b1:9092", "b2:9093")


def event_of(servers: str) -> dict[str, object]:
    """As Spark's listener makes it, with column lineage that names the input."""
    first = servers.partition(",")[0]
    namespace = f"kafka://{first}"
    source = {"namespace": namespace, "name": "visits", "field": "id"}
    fields = {"id": {"inputFields": [source]}}
    return {
        "run": {"facets": {}},
        "inputs": [{"namespace": namespace, "name": "visits", "facets": {}}],
        "outputs": [
            {
                "namespace": "file",
                "name": f"/kafka://{first}",
                "facets": {
                    "columnLineage": {"fields": fields},
                    "dataSource": {"name": namespace, "uri": namespace},
                },
            }
        ],
    }


def test_the_order_of_the_brokers_changes_no_namespace() -> None:
    orders = [",".join(order) for order in itertools.permutations(BROKERS)]
    assert {kafka_namespace(order) for order in orders} == {"kafka://b1:9092"}
    settings = orders[0]
    events = [with_cluster_namespace(event_of(order), settings, None) for order in orders]
    for event in events:
        text = json.dumps({**event, "outputs": [event["outputs"][0]["facets"]]})
        assert "kafka://b2" not in text
        assert "kafka://b3" not in text
        assert text.count("kafka://b1:9092") == 4


def test_one_broker_has_the_namespace_of_earlier_versions() -> None:
    event = event_of("localhost:9092")
    assert with_cluster_namespace(event, "localhost:9092", None) is event
    assert kafka_topic("localhost:9092", "t").namespace == "kafka://localhost:9092"


@pytest.mark.parametrize("servers", ["b1:9092", "b2:9093,b1:9092"])
def test_emitted_events_have_the_namespace_of_the_settings(servers: str, tmp_path: Path) -> None:
    settings = load(
        home=tmp_path,
        kafka={"bootstrap_servers": servers, "namespace": "kafka://production"},
        catalog={"url": "http://127.0.0.1:9"},
        lineage={"close_seconds": 0},
    )
    emitter = Emitter.from_settings(settings)
    assert emitter is not None
    emitter.emit(event_of(servers))
    emitter.close()
    (segment,) = segments_of(settings.spool_dir)
    text = segment.read_text()
    assert text.count('"kafka://production"') == 4
    assert '"kafka://b' not in text


def test_a_cluster_that_the_settings_do_not_name_keeps_its_namespace() -> None:
    event = event_of("other:9092")
    assert with_cluster_namespace(event, "b1:9092,b2:9092", "kafka://production") == event
