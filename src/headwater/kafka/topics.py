"""The administration of topics: list and delete them, and request their state."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import ClusterMetadata, OffsetSpec

from headwater.kafka.client import (
    LOGIN_SECONDS,
    Topic,
    admin_client,
    describe_topic,
    kafka_errors,
    login_refused,
    offsets_at,
    polled_after,
    result_of,
    topic_setting,
)
from headwater.kafka.error_kinds import UNREACHABLE
from headwater.kafka.errors import Access
from headwater.settings.kafka import KafkaSettings


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


def request_metadata(
    settings: KafkaSettings, topic: str | None = None, *, timeout_seconds: float | None = None
) -> ClusterMetadata:
    """Brokers and topics, or one topic.

    Raises:
        KafkaException: the cluster does not respond, or does not accept the client.
    """
    admin = admin_client(settings)
    deadline = time.monotonic() + (timeout_seconds or settings.timeout_seconds)
    while True:
        left = deadline - time.monotonic()
        try:
            with polled_after(admin):
                return admin.list_topics(topic, timeout=max(min(left, LOGIN_SECONDS), 0.01))
        except KafkaException as error:
            # Not retried before: a request of a client that is not accepted fails at once.
            if error.args[0].code() not in UNREACHABLE or time.monotonic() >= deadline:
                raise
            if login_refused(settings):
                raise
            time.sleep(0.05)


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
    return describe_topic(name, settings).id


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
