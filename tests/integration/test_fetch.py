"""Reading single records by address from a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import shake_256

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.stamped import (
    delete_before,
    end_transaction,
    open_transaction,
    write,
    write_transaction,
)

from headwater.errors import BrokerUnavailableError
from headwater.kafka import Absence, RecordProducer, RecordReader, create_topic
from headwater.model import Address, Record
from headwater.settings import Settings
from headwater.testing import free_port
from headwater.testing.fixtures import TopicMaker

pytestmark = pytest.mark.kafka


@pytest.fixture
def reader(broker: Settings) -> Iterator[RecordReader]:
    with RecordReader(broker.kafka) as each:
        yield each


def test_a_record_is_fetched_with_its_bytes_headers_and_timestamp(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    topic = make_topic(partitions=2)
    headers = [("a", b"\xff\x00"), ("b", None), ("a", b"")]
    with RecordProducer(broker.kafka) as producer:
        producer.send(topic, b"\x00v", b"k", headers=headers, partition=1, timestamp_ms=1_700_000)
        producer.send(topic, None, partition=1)
    address = Address(topic, 1, 0)
    assert reader.fetch(address) == Record(address, b"k", b"\x00v", tuple(headers), 1_700_000)
    tombstone = reader.fetch(Address(topic, 1, 1))
    assert isinstance(tombstone, Record)
    assert (tombstone.key, tombstone.value, tombstone.headers) == (None, None, ())


def test_records_are_fetched_in_any_order(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    topics = [make_topic(name, partitions=2) for name in "abc"]
    with RecordProducer(broker.kafka) as producer:
        for number in range(6000):
            topic = topics[number % 3]
            producer.send(topic, str(number).encode(), partition=number // 3 % 2)
    for step in range(300):
        number = step * 2741 % 6000
        fetched = reader.fetch(Address(topics[number % 3], number // 3 % 2, number // 6))
        assert isinstance(fetched, Record)
        assert fetched.value == str(number).encode()


def test_large_records_are_read_between_small_ones(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    topic = make_topic(partitions=1)
    values = [b"small", shake_256(b"").digest(900_000), b"small again"]
    with RecordProducer(broker.kafka, **{"batch.size": 1}) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    fetched = [reader.fetch(Address(topic, 0, offset)) for offset in (1, 0, 2, 1)]
    assert [r.value for r in fetched if isinstance(r, Record)] == [values[i] for i in (1, 0, 2, 1)]


def test_an_absent_record_has_a_reason(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    topic = make_topic(partitions=1)
    write(topic, [[]] * 10, broker)
    delete_before(topic, 4, broker)
    reasons = {
        Address(topic, 0, 3): Absence.EXPIRED,
        Address(topic, 0, 10): Absence.BEYOND_END,
        Address(topic, 0, 2**63 - 1): Absence.BEYOND_END,
        Address(topic, 1, 0): Absence.NO_PARTITION,
        Address(topic, 2**31 - 1, 0): Absence.NO_PARTITION,
        Address("never-made", 0, 0): Absence.NO_PARTITION,
    }
    assert {address: reader.fetch(address) for address in reasons} == reasons
    assert isinstance(reader.fetch(Address(topic, 0, 4)), Record)


def test_a_reader_sees_changes_of_the_topic(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    topic = make_topic(partitions=1)
    later = f"{topic}.later"
    write(topic, [[]] * 5, broker)
    assert isinstance(reader.fetch(Address(topic, 0, 2)), Record)
    assert reader.fetch(Address(topic, 0, 5)) is Absence.BEYOND_END
    assert reader.fetch(Address(topic, 1, 0)) is Absence.NO_PARTITION
    assert reader.fetch(Address(later, 0, 0)) is Absence.NO_PARTITION
    write(topic, [[]], broker)
    delete_before(topic, 3, broker)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result(30)
    create_topic(later, 1, broker.kafka)
    write(topic, [[]], broker, partition=1)
    write(later, [[]], broker)
    assert reader.fetch(Address(topic, 0, 2)) is Absence.EXPIRED
    assert isinstance(reader.fetch(Address(topic, 0, 5)), Record)
    assert isinstance(reader.fetch(Address(topic, 1, 0)), Record)
    assert isinstance(reader.fetch(Address(later, 0, 0)), Record)


def test_records_of_aborted_and_open_transactions_are_not_returned(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    topic = make_topic(partitions=1)
    write_transaction(topic, [b"kept", b"kept"], broker)
    write_transaction(topic, [b"dropped"], broker, abort=True)
    # 0 and 1 are records, 2 is their marker, 3 is aborted, 4 is its marker.
    assert [type(reader.fetch(Address(topic, 0, offset))) for offset in (0, 1)] == [Record] * 2
    holes = [reader.fetch(Address(topic, 0, offset)) for offset in (2, 3, 4)]
    assert holes == [Absence.HOLE] * 3
    producer = open_transaction(topic, [b"not yet"], broker)
    assert reader.fetch(Address(topic, 0, 5)) is Absence.BEYOND_END
    end_transaction(producer, topic, broker)
    fetched = reader.fetch(Address(topic, 0, 5))
    assert isinstance(fetched, Record)
    assert fetched.value == b"not yet"


def test_a_gap_does_not_return_the_next_record(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    topic = make_topic(partitions=1)
    write_transaction(topic, [b"dropped"], broker, abort=True)
    write(topic, [[]], broker)
    assert reader.fetch(Address(topic, 0, 0)) is Absence.HOLE
    assert isinstance(reader.fetch(Address(topic, 0, 2)), Record)


def test_a_warm_reader_fetches_in_milliseconds(
    broker: Settings, make_topic: TopicMaker, reader: RecordReader
) -> None:
    # With default client settings a fetch takes half a second, even on an idle machine.
    topics = [make_topic(name, partitions=1) for name in "ab"]
    for topic in topics:
        write(topic, [[]] * 200, broker)
        reader.fetch(Address(topic, 0, 0))
    started = time.monotonic()
    for offset in range(100):
        reader.fetch(Address(topics[offset % 2], 0, 199 - offset))
    assert time.monotonic() - started < 5


def test_an_unreachable_broker_raises_within_the_timeout(broker: Settings) -> None:
    kafka = {"bootstrap_servers": f"127.0.0.1:{free_port()}", "timeout_seconds": 1.0}
    unreachable = broker.model_copy(update={"kafka": broker.kafka.model_copy(update=kafka)})
    started = time.monotonic()
    with RecordReader(unreachable.kafka) as reader, pytest.raises(BrokerUnavailableError) as error:
        reader.fetch(Address("visits", 0, 0))
    assert time.monotonic() - started < 5
    assert "HEADWATER_KAFKA__TIMEOUT_SECONDS" in (error.value.hint or "")
