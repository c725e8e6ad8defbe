"""Checkpoints, topics and delivery modes that do not belong together are refused, with real ones.

A batch is interrupted as by a kill after its last record: Spark's commit of it is removed.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import SparkSession
from tests.lineage_events import spooled
from tests.orders_payments import Topics
from tests.stamped import delete_before
from tests.waiting import wait_until

from headwater import LineageJob
from headwater.errors import CheckpointError, UnsafeDeliveryError
from headwater.kafka import RecordProducer, create_topic, delete_topics, read_topic, topic_id
from headwater.kafka.client import admin_client
from headwater.kafka.topics import request_metadata
from headwater.settings import Settings
from headwater.storage.checkpoint import IDENTITY_FILE, read_identity, read_progress
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Run = Callable[..., None]


@pytest.fixture
def source(broker: Settings, make_topic: TopicMaker) -> str:
    topic = make_topic("in", partitions=1)
    send(broker, topic, range(10))
    return topic


@pytest.fixture
def run(spark: SparkSession, broker: Settings, source: str, tmp_path: Path) -> Run:
    """Runs a copying job in this process until all records are processed."""

    def copy(
        target: str,
        *,
        name: str = "copy",
        delivery: str = "exactly-once",
        accept: tuple[str, ...] = (),
        checkpoint: str = "checkpoint",
        inputs: tuple[str, ...] = (),
        **options: str,
    ) -> None:
        job = LineageJob(
            name,
            settings=broker,
            checkpoint=checkpoint if "://" in checkpoint else tmp_path / checkpoint,
            delivery=delivery,
            accept=accept,
        )
        rows = job.read(*(() if options else inputs or (source,)), **options)  # type: ignore[arg-type]
        rows = rows.select("key", "value", "lineage")
        job.write(rows, target, trigger={"availableNow": True})

    return copy


def send(settings: Settings, topic: str, numbers: range) -> None:
    with RecordProducer(settings.kafka) as producer:
        for number in numbers:
            producer.send(topic, str(number).encode(), b"key", partition=0)


def values(settings: Settings, topic: str) -> list[int]:
    return [int(record.value or b"") for record in read_topic(topic, settings.kafka)]


def interrupt(checkpoint: Path) -> int:
    """Remove the commit of the last batch; returns its id."""
    batch = read_progress(checkpoint).committed
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
    assert read_progress(checkpoint).cut_off == batch
    return batch


def recreate(settings: Settings, topic: str, **config: str) -> tuple[str, str]:
    """Delete and create a topic; returns both ids."""
    before = topic_id(topic, settings.kafka)
    delete_topics([topic], settings.kafka)
    create_topic(topic, 1, settings.kafka, config=config)
    after = topic_id(topic, settings.kafka)
    assert after != before
    return before, after


@pytest.mark.parametrize(
    ("first", "second"), [("exactly-once", "transactional"), ("idempotent", "exactly-once")]
)
def test_another_delivery_mode_is_refused_until_the_interrupted_batch_is_complete(
    run: Run, broker: Settings, make_topic: TopicMaker, tmp_path: Path, first: str, second: str
) -> None:
    target = make_topic("out", partitions=1)
    run(target, delivery=first)
    interrupt(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError) as refused:
        run(target, delivery=second)
    assert f"batch 0 was interrupted with --delivery {first}, and {second}" in refused.value.message
    run(target, delivery=first)
    run(target, delivery=second)
    expected = 1 if first == "exactly-once" else 2
    assert set(Counter(values(broker, target)).values()) == {expected}


def test_the_checkpoint_of_another_job_output_or_input_is_refused_with_both_names(
    run: Run, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target, other = make_topic("out"), make_topic("other")
    run(target)
    checkpoint = tmp_path / "checkpoint"
    for options, expected in (
        ({"name": "other_job"}, "the job copy, not to other_job"),
        ({"inputs": (other,)}, f"the input {source}, not to {other}"),
    ):
        with pytest.raises(CheckpointError, match=f"{checkpoint} belongs to {expected}"):
            run(target, **options)
    with pytest.raises(CheckpointError, match=f"the output {target}, not to {other}"):
        run(other)
    # One more input and a pattern that includes the former one continue.
    run(target, inputs=(source, other))
    run(target, subscribePattern=f"^({source}|{other})$")
    run(target, name="other_job", inputs=(source, other), accept=("other-checkpoint",))
    stored = read_identity(checkpoint)
    assert stored is not None
    assert [each["change"] for each in stored.accepted] == ["other-checkpoint"]
    run(target, name="other_job", inputs=(source, other))


def test_a_lost_checkpoint_is_refused_and_an_accepted_one_writes_again_and_reports_it(
    run: Run, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target, other = make_topic("out", partitions=1), make_topic("other", partitions=1)
    run(target)
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match=f"is new, but {target}/0@0 was written by the job"):
        run(target)
    assert values(broker, target) == list(range(10))
    # A job with another name, and the same one with other inputs, are not meant.
    run(target, name="another_copy", checkpoint="2")
    send(broker, other, range(20, 30))
    run(target, checkpoint="3", inputs=(other,))
    run(target, accept=("duplicates",))
    assert Counter(values(broker, target)) == {
        **dict.fromkeys(range(10), 3),
        **dict.fromkeys(range(20, 30), 1),
    }
    starts = [each for each in spooled(broker, "copy") if each["eventType"] == "START"]
    (change,) = starts[-1]["run"]["facets"]["headwater_accepted"]["changes"]
    assert change["change"] == "duplicates"


@pytest.mark.parametrize(
    ("delivery", "evidence"),
    [
        ("exactly-once", "the run .* wrote {target}/0@10"),
        ("transactional", "its newest batch is 0, but the output has batch 1"),
    ],
)
def test_an_older_copy_of_a_checkpoint_is_refused(
    run: Run,
    broker: Settings,
    source: str,
    make_topic: TopicMaker,
    tmp_path: Path,
    delivery: str,
    evidence: str,
) -> None:
    target, checkpoint = make_topic("out", partitions=1), tmp_path / "checkpoint"
    run(target, delivery=delivery)
    shutil.copytree(checkpoint, tmp_path / "copy")
    send(broker, source, range(10, 20))
    run(target, delivery=delivery)
    # A batch that is committed in Kafka, and not in the checkpoint, is completed.
    interrupt(checkpoint)
    run(target, delivery=delivery)
    shutil.rmtree(checkpoint)
    (tmp_path / "copy").rename(checkpoint)
    # They would be in the next batch of the copy, whose number is in the output.
    send(broker, source, range(20, 30))
    refused = f"is older than the output: {evidence.format(target=target)}"
    with pytest.raises(CheckpointError, match=refused):
        run(target, delivery=delivery)
    assert values(broker, target) == list(range(20))


def test_a_batch_that_was_interrupted_before_the_retention_of_group_offsets_is_refused(
    run: Run, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target = make_topic("out", partitions=1)
    run(target, delivery="transactional")
    interrupt(tmp_path / "checkpoint")
    # The default of brokers is a week.
    offsets = tmp_path / "checkpoint" / "offsets" / "0"
    before = int(time.time() * 1000) - 8 * 24 * 3600 * 1000
    text = re.sub('"batchTimestampMs":[0-9]+', f'"batchTimestampMs":{before}', offsets.read_text())
    offsets.write_text(text)
    (offsets.parent / ".0.crc").unlink()
    with pytest.raises(CheckpointError, match="keeps the offsets of its groups for 7 days"):
        run(target, delivery="transactional")
    run(target, delivery="transactional", accept=("duplicates",))
    # The offsets have not really expired.
    assert values(broker, target) == list(range(10))


def test_deleted_records_of_an_interrupted_batch_are_not_written_again_silently(
    run: Run, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target = make_topic("out", partitions=1)
    run(target)
    interrupt(tmp_path / "checkpoint")
    delete_before(target, 4, broker)
    with pytest.raises(CheckpointError) as refused:
        run(target)
    assert f"{target}/0@0 to @3 were deleted from the output" in refused.value.message
    assert values(broker, target) == list(range(4, 10))
    run(target, accept=("duplicates",))
    assert Counter(values(broker, target)) == dict.fromkeys(range(10), 1)


def test_compacted_records_of_an_interrupted_batch_are_not_written_after_newer_ones(
    run: Run, broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target = make_topic("out", partitions=1)
    recreate(broker, target, **COMPACTED)
    run(target)
    interrupt(tmp_path / "checkpoint")
    # Without a removed record the batch is completed, also on a compacted topic.
    run(target)
    interrupt(tmp_path / "checkpoint")
    # Proof of the fault: all records have one key, and only the newest one is left.
    wait_for_compaction(target, broker)
    with pytest.raises(
        CheckpointError, match=f"compaction removed \\d+ of the records {target}/0@0"
    ):
        run(target)
    assert values(broker, target)[-1] == 100
    run(target, accept=("duplicates",))


# Compaction of a segment as soon as there is a next one.
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
}


def wait_for_compaction(topic: str, settings: Settings) -> None:
    """Send records until the cleaner, which otherwise looks every 15 s, has removed older ones."""
    (broker,) = request_metadata(settings.kafka).brokers
    resource = ConfigResource(ResourceType.BROKER, str(broker))

    def set_backoff(operation: AlterConfigOpType, value: str | None) -> None:
        name = "log.cleaner.backoff.ms"
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource.incremental_configs = [entry]
        admin_client(settings.kafka).incremental_alter_configs([resource])[resource].result(30)

    def compacted() -> bool:
        send(settings, topic, range(100, 101))
        return 0 not in values(settings, topic)

    set_backoff(AlterConfigOpType.SET, "100")
    try:
        wait_until(compacted, 60, f"compaction of {topic}", pause_seconds=0.3)
    finally:
        set_backoff(AlterConfigOpType.DELETE, None)


@pytest.mark.parametrize("records", [0, 30], ids=["shorter", "longer"])
def test_a_recreated_output_is_refused_with_both_ids(
    run: Run, broker: Settings, make_topic: TopicMaker, tmp_path: Path, records: int
) -> None:
    target = make_topic("out", partitions=1)
    run(target)
    interrupt(tmp_path / "checkpoint")
    before, after = recreate(broker, target)
    send(broker, target, range(100, 100 + records))
    with pytest.raises(
        CheckpointError, match=re.escape(f"{before}, but the id in Kafka is {after}")
    ):
        run(target)
    run(target, accept=("recreated-output",))
    # The interrupted batch is complete in the new topic, once.
    assert values(broker, target) == [*range(100, 100 + records), *range(10)]


def test_a_recreated_input_is_refused_with_both_ids_and_can_be_read_from_its_beginning(
    run: Run, broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target = make_topic("out", partitions=1)
    run(target)
    before, after = recreate(broker, source)
    send(broker, source, range(100, 120))
    with pytest.raises(CheckpointError) as refused:
        run(target)
    assert (refused.value.attributes["before"], refused.value.attributes["after"]) == (
        before,
        after,
    )
    with pytest.raises(CheckpointError, match=re.escape(before)):
        run(target, subscribePattern=source)
    run(target, accept=("recreated-input",))
    assert values(broker, target) == [*range(10), *range(100, 120)]
    start = [each for each in spooled(broker, "copy") if each["eventType"] == "START"][-1]
    (change,) = start["run"]["facets"]["headwater_accepted"]["changes"]
    assert (change["change"], change["subject"]) == ("recreated-input", source)
    assert (change["before"], change["after"]) == (before, after)
    run(target)


def test_an_interrupted_batch_is_complete_before_a_recreated_input_is_read(
    run: Run, broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target, other = make_topic("out", partitions=1), make_topic("other", partitions=1)
    send(broker, other, range(50, 60))
    run(target, inputs=(source, other))
    interrupt(tmp_path / "checkpoint")
    recreate(broker, source)
    send(broker, source, range(100, 105))
    run(target, inputs=(source, other), accept=("recreated-input",))
    expected = [*range(10), *range(50, 60), *range(100, 105)]
    assert sorted(values(broker, target)) == expected


def test_a_recreated_input_of_a_join_is_refused(
    spark: SparkSession, broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topics = Topics(broker, make_topic, tmp_path / "checkpoint")
    topics.send_orders(("a", 1, 0))
    topics.send_payments(("a", 1, 1))
    topics.join().write(trigger={"availableNow": True})
    assert len(topics.records()) == 1
    before, after = recreate(broker, topics.payments)
    topics.send_payments(("a", 2, 1), ("a", 3, 2), ("a", 4, 3))
    with pytest.raises(
        CheckpointError, match=re.escape(f"{before}, but the id in Kafka is {after}")
    ):
        topics.join().write(trigger={"availableNow": True})


def test_a_checkpoint_with_a_uri_is_compared_and_reset_as_well(
    run: Run,
    spark: SparkSession,
    broker: Settings,
    source: str,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    """On a file system that only Spark can reach."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.remote.link./data", f"file://{tmp_path}")
    target, uri = make_topic("out", partitions=1), "viewfs://remote/data/checkpoint"
    run(target, checkpoint=uri, delivery="transactional")
    with pytest.raises(CheckpointError, match=f"{uri} belongs to the job copy, not to other_job"):
        run(target, checkpoint=uri, delivery="transactional", name="other_job")
    before, _ = recreate(broker, source)
    send(broker, source, range(100, 120))
    with pytest.raises(CheckpointError, match=re.escape(before)):
        run(target, checkpoint=uri, delivery="transactional")
    accept = ("recreated-input",)
    run(target, checkpoint=uri, delivery="transactional", accept=accept)
    assert values(broker, target) == [*range(10), *range(100, 120)]


def test_a_checkpoint_without_an_identity_is_adopted(
    run: Run, broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target = make_topic("out")
    run(target)
    (tmp_path / "checkpoint" / IDENTITY_FILE).unlink()
    run(target)
    stored = read_identity(tmp_path / "checkpoint")
    assert stored is not None
    assert (stored.job, stored.delivery) == ("copy", "exactly-once")
    assert stored.inputs == {source: topic_id(source, broker.kafka)}
    assert stored.outputs == {target: topic_id(target, broker.kafka)}


def test_a_source_that_reads_aborted_transactions_is_refused(run: Run, source: str) -> None:
    with pytest.raises(UnsafeDeliveryError, match=r"isolation\.level=read_uncommitted"):
        run("out", subscribe=source, **{"kafka.isolation.level": "read_uncommitted"})
