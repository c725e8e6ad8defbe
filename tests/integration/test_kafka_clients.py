"""Topics, producers and consumers with a real broker."""

from __future__ import annotations

import threading
import time

import pytest
from tests.stamped import end_transaction, open_transaction, write_transaction
from tests.waiting import wait_until

from headwater.errors import (
    BrokerUnavailableError,
    DeliveryError,
    InputError,
    RecordTooLargeError,
    TopicNotFoundError,
)
from headwater.kafka import (
    Position,
    RecordProducer,
    create_topic,
    delete_topics,
    describe_topic,
    end_offsets,
    ensure_topic,
    list_topics,
    partition_states,
    read_topic,
)
from headwater.settings import Settings
from headwater.testing import TcpProxy, free_port
from headwater.testing.fixtures import TopicMaker

pytestmark = pytest.mark.kafka


def with_kafka(settings: Settings, **changes: object) -> Settings:
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update=changes)})


def test_a_record_is_read_with_its_bytes_headers_and_timestamp(
    broker: Settings, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    headers = [("a", b"\xff\x00"), ("b", None), ("a", b""), ("traceparent", b"00-x")]
    with RecordProducer(broker.kafka) as producer:
        producer.send(topic, b"\x00v", b"k", headers=headers, partition=1, timestamp_ms=1_700_000)
        producer.send(topic, None, None, partition=1)
    first, tombstone = read_topic(topic, broker.kafka)
    assert (first.key, first.value, first.headers) == (b"k", b"\x00v", tuple(headers))
    assert (first.timestamp_ms, str(first.address)) == (1_700_000, f"{topic}/1@0")
    assert first.header("a") == b""
    assert (tombstone.key, tombstone.value, tombstone.headers) == (None, None, ())


def test_a_range_of_offsets_is_read_exactly(broker: Settings, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=2)
    with RecordProducer(broker.kafka) as producer:
        for number in range(100):
            producer.send(topic, str(number).encode(), partition=number % 2)
    found = read_topic(topic, broker.kafka, start={0: 10, 1: 40}, until={0: 13, 1: 50})
    assert sorted(str(r.address).removeprefix(topic) for r in found) == [
        "/0@10",
        "/0@11",
        "/0@12",
        *(f"/1@{offset}" for offset in range(40, 50)),
    ]


def test_each_partition_is_read_in_order_to_its_end(
    broker: Settings, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=3)
    with RecordProducer(broker.kafka) as producer:
        for number in range(5000):
            producer.send(topic, str(number).encode(), str(number % 7).encode())
    records = list(read_topic(topic, broker.kafka))
    assert len(records) == 5000
    assert sum(end_offsets(topic, broker.kafka).values()) == 5000
    for partition in range(3):
        values = [int(r.value or b"") for r in records if r.address.partition == partition]
        assert values == sorted(values)


def test_reading_waits_for_the_end_it_was_given(broker: Settings, make_topic: TopicMaker) -> None:
    """As after a change of the leader, which knows the last records a moment later."""
    topic = make_topic(partitions=1)

    def send(numbers: range) -> None:
        with RecordProducer(broker.kafka) as producer:
            for number in numbers:
                producer.send(topic, str(number).encode())

    send(range(10))
    later = threading.Timer(0.5, send, [range(10, 15)])
    later.start()
    found = list(read_topic(topic, broker.kafka, until={0: 15}, read_uncommitted=True))
    later.join()
    assert [int(record.value or b"") for record in found] == list(range(15))


def test_an_open_transaction_ends_a_partition_without_a_wait(
    broker: Settings, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    write_transaction(topic, [b"1", b"2"], broker)
    producer = open_transaction(topic, [b"3"], broker)
    started = time.monotonic()
    assert [record.value for record in read_topic(topic, broker.kafka)] == [b"1", b"2"]
    assert time.monotonic() - started < broker.kafka.timeout_seconds / 2
    found = read_topic(topic, broker.kafka, read_uncommitted=True)
    assert [record.value for record in found] == [b"1", b"2", b"3"]
    end_transaction(producer, topic, broker)


def test_following_returns_new_records(broker: Settings, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=1)
    deadline = time.monotonic() + 30
    records = read_topic(
        topic,
        broker.kafka,
        start=Position.EARLIEST,
        follow=True,
        stopped=lambda: time.monotonic() > deadline,
    )
    for number in range(3):
        with RecordProducer(broker.kafka) as producer:
            producer.send(topic, str(number).encode())
        assert next(records).value == str(number).encode()
    records.close()


def test_keys_have_the_same_partitions_as_with_java_clients(
    broker: Settings, make_topic: TopicMaker
) -> None:
    # Compared with Kafka's murmur2 partitioner on 4 partitions.
    topic = make_topic(partitions=4)
    with RecordProducer(broker.kafka) as producer:
        for key in (b"a", b"b", b"visit-1", b"visit-2"):
            producer.send(topic, b"", key)
    found = {record.key: record.address.partition for record in read_topic(topic, broker.kafka)}
    assert found == {key: _java_partition(key or b"", 4) for key in found}


def _java_partition(key: bytes, partitions: int) -> int:
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(key)) & mask
    words = len(key) // 4
    for index in range(words):
        k = int.from_bytes(key[index * 4 : index * 4 + 4], "little")
        k = k * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    rest = key[words * 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return ((h ^ (h >> 15)) & 0x7FFFFFFF) % partitions


def test_topics_are_created_listed_described_and_deleted(broker: Settings) -> None:
    create_topic("to-be-deleted", 3, broker.kafka)
    assert describe_topic("to-be-deleted", broker.kafka).partitions == 3
    assert [state.end for state in partition_states("to-be-deleted", broker.kafka)] == [0, 0, 0]
    with pytest.raises(InputError, match="already exists"):
        create_topic("to-be-deleted", 3, broker.kafka)
    delete_topics(["to-be-deleted"], broker.kafka)
    wait_until(
        lambda: "to-be-deleted" not in [topic.name for topic in list_topics(broker.kafka)],
        10,
        "the deletion of the topic",
        pause_seconds=0.1,
    )


def test_ensure_topic_does_not_change_an_existing_topic(
    broker: Settings, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=3)
    assert ensure_topic(topic, 1, broker.kafka).partitions == 3


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "x" * 250, "a\nb"])
def test_an_invalid_topic_name_is_rejected_with_the_rule(broker: Settings, name: str) -> None:
    with pytest.raises(InputError) as error:
        create_topic(name, 1, broker.kafka)
    assert error.value.hint is not None
    assert "at most 249 letters" in error.value.hint


def test_an_unknown_topic_raises_topic_not_found(broker: Settings) -> None:
    with pytest.raises(TopicNotFoundError):
        next(read_topic("no-such-topic", broker.kafka))


def test_the_error_of_a_record_over_the_size_limit_has_the_reason(
    broker: Settings, make_topic: TopicMaker
) -> None:
    topic = make_topic()
    with pytest.raises(RecordTooLargeError, match="too large"):
        with RecordProducer(broker.kafka) as producer:
            producer.send(topic, b"x" * 2_000_000)
    limits: dict[str, str | int] = {"message.max.bytes": 5_000_000, "compression.type": "none"}
    with pytest.raises(DeliveryError, match="1 records were not acknowledged") as error:
        with RecordProducer(broker.kafka, **limits) as producer:
            producer.send(topic, b"x" * 2_000_000)
    assert error.value.attributes["failed"] == 1


def test_an_unreachable_broker_raises_within_the_timeout(broker: Settings) -> None:
    unreachable = with_kafka(
        broker, bootstrap_servers=f"127.0.0.1:{free_port()}", timeout_seconds=1.0
    )
    began = time.monotonic()
    with pytest.raises(BrokerUnavailableError) as error:
        list_topics(unreachable.kafka)
    assert "KAFKA_BOOTSTRAP_SERVERS" in (error.value.hint or "")
    with pytest.raises(DeliveryError) as lost:
        with RecordProducer(unreachable.kafka) as producer:
            producer.send("visits", b"x")
    assert "HEADWATER_KAFKA__TIMEOUT_SECONDS" in (lost.value.hint or "")
    assert time.monotonic() - began < 15


def test_sending_blocks_while_the_queue_is_full(broker: Settings, make_topic: TopicMaker) -> None:
    topic = make_topic()
    limits = {"queue.buffering.max.messages": 10, "linger.ms": 5}
    with RecordProducer(broker.kafka, **limits) as producer:
        for number in range(2000):
            producer.send(topic, str(number).encode())
    assert producer.delivered == 2000


def test_reading_fails_if_the_broker_stops_responding(
    broker: Settings, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    with RecordProducer(broker.kafka) as producer:
        for number in range(50_000):
            producer.send(topic, str(number).encode() * 100)
    # The metadata of the broker has its own address, so only the bootstrap uses the proxy.
    with TcpProxy("127.0.0.1", broker.kafka.port) as proxy:
        through = with_kafka(
            broker, bootstrap_servers=f"127.0.0.1:{proxy.port}", timeout_seconds=2.0
        )
        proxy.half_open()
        with pytest.raises(BrokerUnavailableError):
            list(read_topic(topic, through.kafka))
        assert proxy.faults["half_open"] == 1
