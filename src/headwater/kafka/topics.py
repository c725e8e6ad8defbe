"""The administration of topics: list and delete them, and request their state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import TopicCollection
from confluent_kafka.admin import OffsetSpec

from headwater.errors import TopicNotFoundError
from headwater.kafka.client import (
    Topic,
    admin_client,
    kafka_errors,
    offsets_at,
    request_metadata,
    result_of,
    topic_setting,
)
from headwater.kafka.errors import Access
from headwater.settings import broker_addresses
from headwater.settings.sections import KafkaSettings


@dataclass(frozen=True, slots=True)
class TopicPartitionState:
    """The offsets of a partition, from `first` to `end` (exclusive)."""

    partition: int
    first: int
    end: int

    @property
    def records(self) -> int:
        """An upper bound, because compaction and transaction markers leave gaps."""
        return self.end - self.first


def ping(settings: KafkaSettings, timeout_seconds: float | None = None) -> int:
    """Request the cluster's metadata, and return the number of brokers.

    Raises:
        BrokerUnavailableError: no response within the timeout.
    """
    with kafka_errors(settings, "requesting cluster metadata"):
        return len(request_metadata(settings, timeout_seconds=timeout_seconds).brokers)


def list_topics(settings: KafkaSettings, *, internal: bool = False) -> list[Topic]:
    """All topics by name; with `internal` also Kafka's internal ones (`__consumer_offsets`, …)."""
    with kafka_errors(settings, "listing topics"):
        metadata = request_metadata(settings)
    topics = (Topic(name, len(topic.partitions)) for name, topic in metadata.topics.items())
    return sorted(
        (t for t in topics if internal or not t.name.startswith("__")), key=lambda topic: topic.name
    )


def topic_id(name: str, settings: KafkaSettings) -> str:
    """Kafka's id of a topic, which differs after the topic was deleted and recreated.

    Raises:
        TopicNotFoundError: the topic does not exist.
    """
    return _described_ids([name], settings, missing_ok=False)[name]


def topic_ids(names: Iterable[str], settings: KafkaSettings) -> dict[str, str]:
    """Kafka's ids of the topics that exist."""
    return _described_ids(sorted(set(names)), settings, missing_ok=True)


def _described_ids(
    names: list[str], settings: KafkaSettings, *, missing_ok: bool
) -> dict[str, str]:
    ids: dict[str, str] = {}
    if not names:
        return ids
    futures = admin_client(settings).describe_topics(
        TopicCollection(names), request_timeout=settings.timeout_seconds
    )
    for name, future in futures.items():
        access = Access("Describe", "topic", name)
        try:
            with kafka_errors(settings, f"describing topic {name!r}", access):
                ids[name] = str(result_of(future, settings).topic_id)
        except TopicNotFoundError:
            if not missing_ok:
                raise
    return ids


def input_topic(name: str, settings: KafkaSettings) -> Topic:
    """A topic that is read. It is never created, also not by a broker that creates unknown topics.

    Raises:
        TopicNotFoundError: the topic does not exist.
    """
    futures = admin_client(settings).describe_topics(
        TopicCollection([name]), request_timeout=settings.timeout_seconds
    )
    access = Access("Describe", "topic", name)
    try:
        with kafka_errors(settings, f"describing topic {name!r}", access):
            return Topic(name, len(result_of(futures[name], settings).partitions))
    except TopicNotFoundError:
        raise TopicNotFoundError(
            f"input topic {name!r} does not exist at {broker_addresses(settings)}",
            hint="inputs are never created: check the name (`--input-topic`, or the argument of "
            f"`read`) and KAFKA_BOOTSTRAP_SERVERS, or `headwater topics create {name}`",
            topic=name,
        ) from None


def existing_topics(names: Iterable[str], settings: KafkaSettings) -> list[str]:
    """Those of the names that exist."""
    with kafka_errors(settings, "listing topics"):
        known = request_metadata(settings).topics
    return [name for name in names if name in known]


def delete_topics(names: Iterable[str], settings: KafkaSettings) -> None:
    """Delete topics with all their records."""
    futures = admin_client(settings).delete_topics(
        list(names), operation_timeout=settings.timeout_seconds
    )
    for name, future in futures.items():
        with kafka_errors(settings, f"deleting topic {name!r}", Access("Delete", "topic", name)):
            result_of(future, settings)


def partition_states(topic: str, settings: KafkaSettings) -> list[TopicPartitionState]:
    """First and end offset of every partition."""
    first = offsets_at(topic, settings, OffsetSpec.earliest())
    end = offsets_at(topic, settings, OffsetSpec.latest())
    return [TopicPartitionState(part, first[part], end[part]) for part in sorted(end)]


def is_compacted(topic: str, settings: KafkaSettings) -> bool:
    """Whether the broker compacts the topic."""
    return "compact" in topic_setting("cleanup.policy", topic, settings)
