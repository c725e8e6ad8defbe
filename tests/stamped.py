"""Creates records with the headers of Headwater's jobs."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.waiting import wait_until

from headwater.kafka import RecordProducer, end_offsets
from headwater.model import Address, AddressRange, Header, Lineage
from headwater.model.header import STAMP_HEADERS, JobStamp, encode
from headwater.settings import Settings

RUN = "0190c5f2-1111-7222-8333-444455556666"


def stamped(*parents: str, job: str = "job", ordinal: int = 0, unlisted: int = 0) -> list[Header]:
    """The headers of an output of these records; also of ranges, `~visits/0@3..17`, and `?`."""
    lineage = Lineage(
        RUN,
        tuple(Address.parse(parent) for parent in parents if parent[0] not in "~?"),
        unlisted,
        ordinal,
        ranges=tuple(AddressRange.parse(parent[1:]) for parent in parents if parent[0] == "~"),
        more_parents="?" in parents,
    )
    return [*JobStamp(job, "v1.0.0", 4).headers(STAMP_HEADERS), ("lineage", encode(lineage))]


def dead_letter_headers(
    origin: str,
    *,
    job: str = "job",
    reason: str = "headwater.MalformedJson",
    message: str = "the value is not a JSON object",
) -> list[Header]:
    """The headers of a dead letter made from this record."""
    address = Address.parse(origin)
    connect = {
        "topic": address.topic,
        "partition": str(address.partition),
        "offset": str(address.offset),
        "connector.name": job,
        "stage": "VALUE_CONVERTER",
        "exception.class.name": reason,
        "exception.message": message,
    }
    errors = [(f"__connect.errors.{name}", text.encode()) for name, text in connect.items()]
    return [*stamped(origin, job=job), *errors]


def write(
    topic: str,
    records: Iterable[Iterable[Header]],
    settings: Settings,
    *,
    key: bytes | None = b"k",
    partition: int = 0,
) -> None:
    """Write a record for each list of headers."""
    with RecordProducer(settings.kafka) as producer:
        for headers in records:
            producer.send(topic, b"{}", key, headers=headers, partition=partition)


def write_transaction(
    topic: str, values: Iterable[bytes], settings: Settings, *, abort: bool = False
) -> None:
    """Records of partition 0 in a transaction, followed by its marker."""
    producer = open_transaction(topic, values, settings)
    end_transaction(producer, topic, settings, abort=abort)


def end_transaction(
    producer: Producer, topic: str, settings: Settings, *, abort: bool = False
) -> None:
    """Returns when the marker is written: the coordinator responds before that."""
    end = end_offsets(topic, settings.kafka)[0] + 1
    if abort:
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)
    wait_until(
        lambda: end_offsets(topic, settings.kafka, read_committed=True)[0] >= end,
        30,
        f"the end of the transaction in {topic}",
    )


def open_transaction(topic: str, values: Iterable[bytes], settings: Settings) -> Producer:
    """Records of an open transaction."""
    config = {"bootstrap.servers": settings.bootstrap_servers, "transactional.id": f"tx-{topic}"}
    producer = Producer(config)
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, b"k", partition=0)
    assert producer.flush(30) == 0
    return producer


def delete_before(topic: str, offset: int, settings: Settings, *, partition: int = 0) -> None:
    """Like retention: the partition starts at `offset` afterwards."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    start = TopicPartition(topic, partition, offset)
    for future in admin.delete_records([start]).values():
        future.result(30)
