"""Topics: create, list, describe and delete them, and request their offsets."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType

from headwater.errors import HeadwaterError, InputError, TopicNotFoundError
from headwater.kafka.admin import admin_client, request_metadata, result_of
from headwater.kafka.error_kinds import UNKNOWN_TOPIC
from headwater.kafka.errors import Access, from_kafka_error, kafka_errors
from headwater.model.topic_names import is_topic_name
from headwater.settings.sections import KafkaSettings

_LIST_TOPICS = "`headwater topics list` lists all topics"


_NO_LEADER_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # The client has a newer leader epoch than the leader itself.
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its number of partitions."""

    name: str
    partitions: int


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
    return sorted((t for t in topics if internal or not t.name.startswith("__")), key=_by_name)


def describe_topic(name: str, settings: KafkaSettings) -> Topic:
    """One topic.

    Raises:
        TopicNotFoundError: the topic does not exist.
    """
    topic = find_topic(name, settings)
    if topic is None:
        raise TopicNotFoundError(f"topic {name!r} does not exist", hint=_LIST_TOPICS)
    return topic


def find_topic(name: str, settings: KafkaSettings) -> Topic | None:
    """One topic, or None if it does not exist."""
    with kafka_errors(settings, f"describing topic {name!r}"):
        metadata = request_metadata(settings, name)
    topic = metadata.topics[name]
    if topic.error is None:
        return Topic(name, len(topic.partitions))
    if topic.error.code() in UNKNOWN_TOPIC:
        return None
    raise from_kafka_error(
        topic.error, settings, f"topic {name!r}", Access("Describe", "topic", name)
    )


def topic_id(name: str, settings: KafkaSettings) -> str:
    """Kafka's id of a topic, which differs after the topic was deleted and recreated.

    Raises:
        TopicNotFoundError: the topic does not exist.
    """
    futures = admin_client(settings).describe_topics(
        TopicCollection([name]), request_timeout=_timeout(settings)
    )
    with kafka_errors(settings, f"describing topic {name!r}", Access("Describe", "topic", name)):
        return str(result_of(futures[name], settings).topic_id)


def create_topic(
    name: str,
    partitions: int,
    settings: KafkaSettings,
    *,
    replication_factor: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic.

    Raises:
        InputError: the name is invalid, or the topic exists already.
    """
    if not is_topic_name(name):
        raise InputError(
            f"not a topic name: {name!r}",
            hint="at most 249 letters, digits, `.`, `_` and `-`",
        )
    if partitions < 1:
        raise InputError(f"a topic needs at least one partition, got {partitions}")
    topic = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
    future = admin_client(settings).create_topics([topic], operation_timeout=_timeout(settings))[
        name
    ]
    with kafka_errors(settings, f"creating topic {name!r}", Access("Create", "topic", name)):
        result_of(future, settings)
    _wait_until_known(name, settings)


def ensure_topic(name: str, partitions: int, settings: KafkaSettings) -> Topic:
    """Return the topic; create it with `partitions` if it does not exist."""
    existing = find_topic(name, settings)
    if existing is not None:
        return existing
    try:
        create_topic(name, partitions, settings)
    except InputError as error:
        # Another client may have created it in the meantime.
        if error.attributes.get("code") != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return describe_topic(name, settings)
    return Topic(name, partitions)


def delete_topics(names: Iterable[str], settings: KafkaSettings) -> None:
    """Delete topics with all their records."""
    futures = admin_client(settings).delete_topics(
        list(names), operation_timeout=_timeout(settings)
    )
    for name, future in futures.items():
        with kafka_errors(settings, f"deleting topic {name!r}", Access("Delete", "topic", name)):
            result_of(future, settings)


def end_offsets(
    topic: str, settings: KafkaSettings, *, read_committed: bool = False
) -> dict[int, int]:
    """The offset of the next record of each partition.

    With `read_committed`, the end is the start of the first open transaction.
    """
    return _offsets(topic, settings, OffsetSpec.latest(), read_committed)


def partition_states(topic: str, settings: KafkaSettings) -> list[TopicPartitionState]:
    """First and end offset of every partition."""
    first = _offsets(topic, settings, OffsetSpec.earliest(), False)
    end = _offsets(topic, settings, OffsetSpec.latest(), False)
    return [TopicPartitionState(part, first[part], end[part]) for part in sorted(end)]


def is_compacted(topic: str, settings: KafkaSettings) -> bool:
    """Whether the broker compacts the topic."""
    return "compact" in _setting("cleanup.policy", topic, settings)


def max_record_bytes(topic: str, settings: KafkaSettings) -> int:
    """The largest record batch that the topic accepts, which also limits a single record."""
    return int(_setting("max.message.bytes", topic, settings))


def _setting(name: str, topic: str, settings: KafkaSettings) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    future = admin_client(settings).describe_configs([resource], request_timeout=_timeout(settings))
    what, access = "the configuration of topic", Access("DescribeConfigs", "topic", topic)
    with kafka_errors(settings, f"requesting {what} {topic!r}", access):
        return str(result_of(future[resource], settings)[name].value)


def _wait_until_known(name: str, settings: KafkaSettings) -> None:
    """Wait until brokers know the topic: the controller responds before all of them do."""
    deadline = time.monotonic() + _timeout(settings)
    while find_topic(name, settings) is None:
        if time.monotonic() > deadline:
            describe_topic(name, settings)
        time.sleep(0.02)


def _offsets(
    topic: str, settings: KafkaSettings, spec: OffsetSpec, read_committed: bool
) -> dict[int, int]:
    partitions = range(describe_topic(topic, settings).partitions)
    deadline = time.monotonic() + _timeout(settings)
    while True:
        try:
            return _list_offsets(topic, partitions, settings, spec, read_committed)
        except HeadwaterError as error:
            # A leader election is in progress: the partition is new, or its broker stopped.
            if error.attributes.get("code") not in _NO_LEADER_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _list_offsets(
    topic: str,
    partitions: Iterable[int],
    settings: KafkaSettings,
    spec: OffsetSpec,
    committed: bool,
) -> dict[int, int]:
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    futures = admin_client(settings).list_offsets(
        {TopicPartition(topic, part): spec for part in partitions},
        isolation_level=level,
        request_timeout=_timeout(settings),
    )
    offsets: dict[int, int] = {}
    access = Access("Describe", "topic", topic)
    for partition, future in futures.items():
        with kafka_errors(settings, f"requesting offsets of {topic}/{partition.partition}", access):
            offsets[partition.partition] = result_of(future, settings).offset
    return offsets


def _timeout(settings: KafkaSettings) -> float:
    return settings.timeout_seconds


def _by_name(topic: Topic) -> str:
    return topic.name
