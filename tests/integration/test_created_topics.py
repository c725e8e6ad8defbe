"""Which topics a job creates: missing outputs, never inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import Headwater

from headwater import LineageJob
from headwater.errors import TopicNotFoundError
from headwater.kafka import RecordProducer, list_topics, read_topic
from headwater.kafka.client import admin_client, topic_setting
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def names(broker: Settings) -> set[str]:
    return {topic.name for topic in list_topics(broker.kafka)}


def fill(settings: Settings, topic: str, *values: bytes) -> None:
    with RecordProducer(settings.kafka) as producer:
        for value in values:
            producer.send(topic, value)


def without_creation(broker: Settings) -> Settings:
    jobs = broker.jobs.model_copy(update={"create_topics": False})
    return broker.model_copy(update={"jobs": jobs})


@pytest.mark.parametrize("create", [True, False])
def test_a_missing_input_is_refused_and_not_created(
    create: bool, broker: Settings, spark: object
) -> None:
    settings = broker if create else without_creation(broker)
    with pytest.raises(TopicNotFoundError, match="input topic 'mistyped' does not exist") as caught:
        LineageJob("reader", settings=settings).read("mistyped")
    assert "--input-topic" in (caught.value.hint or "")
    assert "mistyped" not in names(broker)


@pytest.mark.parametrize(
    "job", ["visits_decorator_job", "data_synchronization_job", "stream_write_raw_with_lineage"]
)
def test_a_shipped_job_names_the_missing_input_before_spark_starts(
    job: str, broker: Settings, headwater: Headwater
) -> None:
    done = headwater("run", job, "--input-topic", "mistyped", "--available-now")
    assert done.returncode == TopicNotFoundError.exit_code, done.stderr
    assert "input topic 'mistyped' does not exist" in done.stderr
    assert not {name for name in names(broker) if name.startswith("mistyped")}


def test_created_outputs_have_the_partitions_of_the_input_and_the_brokers_replicas(
    broker: Settings, make_topic: TopicMaker, spark: object, tmp_path: Path
) -> None:
    source = make_topic("in", partitions=3)
    fill(broker, source, b"1")
    job = LineageJob("creator", settings=broker, checkpoint=tmp_path / "checkpoint")
    job.write(job.read(source), f"{source}.out", trigger={"availableNow": True})
    topic = admin_client(broker.kafka).list_topics(f"{source}.out").topics[f"{source}.out"]
    assert len(topic.partitions) == 3
    assert {len(partition.replicas) for partition in topic.partitions.values()} == {1}
    assert topic_setting("cleanup.policy", f"{source}.out", broker.kafka) == "delete"


def test_a_missing_dead_letter_topic_is_tolerated_until_a_record_needs_it(
    broker: Settings, make_topic: TopicMaker, spark: object, tmp_path: Path
) -> None:
    source, output = make_topic("in", partitions=1), make_topic("out", partitions=1)
    job = LineageJob(
        "careful", settings=without_creation(broker), checkpoint=tmp_path / "checkpoint"
    )
    for expected in ([b"first"], [b"first", b"second"]):
        fill(broker, source, expected[-1])
        job.write(job.read(source), output, trigger={"availableNow": True})
        assert [record.value for record in read_topic(output, broker.kafka)] == expected
    assert f"{output}-dead-letter" not in {topic.name for topic in list_topics(broker.kafka)}
