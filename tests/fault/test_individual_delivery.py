"""The individual mode sends nothing after a failed record, even if more are prepared."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from headwater import LineageJob
from headwater.errors import QueryFailedError
from headwater.job import OnFailure
from headwater.kafka import RecordProducer, read_topic
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

VALUES = [str(number).encode() for number in range(300)]
# Above the topic's limit: small enough to be prepared, and too large for that.
TOO_LARGE = {100: 20_000, 101: 70_000, 200: 20_000}


def test_prepared_records_are_not_sent_after_one_that_kafka_rejects(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    limit_records(target, 10_000, broker)
    with RecordProducer(broker.kafka) as producer:
        for number, value in enumerate(VALUES):
            padding = b"x" * TOO_LARGE.get(number, 0)
            producer.send(source, value + padding, b"key", partition=0)
    with pytest.raises(QueryFailedError, match=f"{source}/0@100.*RecordTooLarge"):
        copy(source, target, broker, tmp_path / "first", "stop")
    assert [record.value for record in read_topic(target, broker.kafka)] == VALUES[:100]
    # Again with a dead letter topic for rejected records; the others keep their order.
    copy(source, target, broker, tmp_path / "second", "dead-letter")
    again = [record.value for record in read_topic(target, broker.kafka)][100:]
    assert again == [v for number, v in enumerate(VALUES) if number not in TOO_LARGE]
    dead = [dict(record.headers) for record in read_topic(f"{target}-dead-letter", broker.kafka)]
    assert [letter["__connect.errors.offset"] for letter in dead] == [b"100", b"101", b"200"]


def copy(
    source: str, target: str, settings: Settings, checkpoint: Path, on_failure: OnFailure
) -> None:
    job = LineageJob("copy", settings=settings, checkpoint=checkpoint, delivery="individual")
    rows = job.read(source).select("key", "value", "lineage")
    job.write(rows, target, trigger={"availableNow": True}, on_failure=on_failure)


def limit_records(topic: str, size: int, settings: Settings) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(10)
