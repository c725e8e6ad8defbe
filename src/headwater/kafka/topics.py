"""Topics: list, describe, create, delete, and where their partitions begin and end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from headwater.errors import InputError, TopicNotFoundError
from headwater.kafka.client import client_config, from_kafka_error, kafka_errors
from headwater.model import is_topic_name
from headwater.settings.sections import KafkaSettings

_NO_LEADER_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # A partition of which the cluster has said more than its leader has heard.
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and how many partitions it has."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicPartitionState:
    """What a partition holds: offsets from `first` up to, not including, `end`."""

    partition: int
    first: int
    end: int

    @property
    def records(self) -> int:
        """An upper bound: compaction and transaction markers leave holes."""
        return self.end - self.first


def ping(settings: KafkaSettings, timeout_seconds: float | None = None) -> int:
    """Ask for the cluster's metadata; returns the number of brokers.

    Raises:
        BrokerUnavailableError: no answer within the bound.
    """
    with kafka_errors(settings, "asking for the cluster's metadata"):
        metadata = _admin(settings).list_topics(timeout=timeout_seconds or _bound(settings))
    return len(metadata.brokers)


def list_topics(settings: KafkaSettings, *, internal: bool = False) -> list[Topic]:
    """All topics by name; Kafka's own (`__consumer_offsets`, …) only when asked."""
    with kafka_errors(settings, "listing topics"):
        metadata = _admin(settings).list_topics(timeout=_bound(settings))
    topics = (Topic(name, len(topic.partitions)) for name, topic in metadata.topics.items())
    return sorted((t for t in topics if internal or not t.name.startswith("__")), key=_by_name)


def describe_topic(name: str, settings: KafkaSettings) -> Topic:
    """One topic.

    Raises:
        TopicNotFoundError: the broker does not know it.
    """
    with kafka_errors(settings, f"describing topic {name!r}"):
        metadata = _admin(settings).list_topics(name, timeout=_bound(settings))
    found = metadata.topics[name]
    if found.error is not None:
        raise from_kafka_error(found.error, settings, f"topic {name!r}")
    return Topic(name, len(found.partitions))


def topic_id(name: str, settings: KafkaSettings) -> str:
    """Kafka's id of a topic, by which one that was deleted and made anew is another.

    Raises:
        TopicNotFoundError: the broker does not know it.
    """
    asked = _admin(settings).describe_topics(
        TopicCollection([name]), request_timeout=_bound(settings)
    )
    with kafka_errors(settings, f"describing topic {name!r}"):
        return str(asked[name].result(_bound(settings)).topic_id)


def create_topic(
    name: str,
    partitions: int,
    settings: KafkaSettings,
    *,
    replication_factor: int = 1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Make a topic.

    Raises:
        InputError: the name is not allowed, or the topic is there already.
    """
    if not is_topic_name(name):
        raise InputError(
            f"not a topic name: {name!r}",
            hint="letters, digits, `.`, `_` and `-`, at most 249 of them",
        )
    if partitions < 1:
        raise InputError(f"a topic needs at least one partition, not {partitions}")
    topic = NewTopic(name, partitions, replication_factor, config=dict(config or {}))
    future = _admin(settings).create_topics([topic], operation_timeout=_bound(settings))[name]
    with kafka_errors(settings, f"creating topic {name!r}"):
        future.result(_bound(settings))
    _wait_until_known(name, settings)


def ensure_topic(name: str, partitions: int, settings: KafkaSettings) -> Topic:
    """The topic of that name, made with `partitions` if it is not there; else left as it is."""
    try:
        return describe_topic(name, settings)
    except TopicNotFoundError:
        pass
    try:
        create_topic(name, partitions, settings)
    except InputError as error:
        # Somebody else may have made it in between.
        if error.facts.get("code") != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return describe_topic(name, settings)
    return Topic(name, partitions)


def delete_topics(names: Iterable[str], settings: KafkaSettings) -> None:
    """Remove topics with all their records."""
    futures = _admin(settings).delete_topics(list(names), operation_timeout=_bound(settings))
    for name, future in futures.items():
        with kafka_errors(settings, f"deleting topic {name!r}"):
            future.result(_bound(settings))


def end_offsets(
    topic: str, settings: KafkaSettings, *, read_committed: bool = False
) -> dict[int, int]:
    """The offset that the next record of each partition gets.

    With `read_committed` the end is where an open transaction begins.
    """
    return _offsets(topic, settings, OffsetSpec.latest(), read_committed)


def partition_states(topic: str, settings: KafkaSettings) -> list[TopicPartitionState]:
    """First and end offset of every partition."""
    first = _offsets(topic, settings, OffsetSpec.earliest(), False)
    end = _offsets(topic, settings, OffsetSpec.latest(), False)
    return [TopicPartitionState(part, first[part], end[part]) for part in sorted(end)]


def is_compacted(topic: str, settings: KafkaSettings) -> bool:
    """Whether the broker removes records of the topic that have a newer one of their key."""
    return "compact" in _setting("cleanup.policy", topic, settings)


def max_record_bytes(topic: str, settings: KafkaSettings) -> int:
    """The largest batch of records that the topic takes; each record travels in one."""
    return int(_setting("max.message.bytes", topic, settings))


def _setting(name: str, topic: str, settings: KafkaSettings) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    future = _admin(settings).describe_configs([resource], request_timeout=_bound(settings))
    with kafka_errors(settings, f"asking for the settings of topic {topic!r}"):
        return str(future[resource].result(_bound(settings))[name].value)


def _wait_until_known(name: str, settings: KafkaSettings) -> None:
    """The controller answers before all brokers have heard; whoever asks next should find it."""
    deadline = time.monotonic() + _bound(settings)
    while True:
        try:
            describe_topic(name, settings)
        except TopicNotFoundError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _offsets(
    topic: str, settings: KafkaSettings, spec: OffsetSpec, read_committed: bool
) -> dict[int, int]:
    partitions = range(describe_topic(topic, settings).partitions)
    deadline = time.monotonic() + _bound(settings)
    while True:
        try:
            return _ask_for_offsets(topic, partitions, settings, spec, read_committed)
        except InputError as error:
            # A partition that was just made, or whose broker just left, has its leader soon.
            if error.facts.get("code") not in _NO_LEADER_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _ask_for_offsets(
    topic: str,
    partitions: Iterable[int],
    settings: KafkaSettings,
    spec: OffsetSpec,
    committed: bool,
) -> dict[int, int]:
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    futures = _admin(settings).list_offsets(
        {TopicPartition(topic, part): spec for part in partitions},
        isolation_level=level,
        request_timeout=_bound(settings),
    )
    offsets: dict[int, int] = {}
    for partition, future in futures.items():
        with kafka_errors(settings, f"asking for offsets of {topic}/{partition.partition}"):
            offsets[partition.partition] = future.result(_bound(settings)).offset
    return offsets


# A client opens connections and starts threads: one for each cluster is enough, and has to live
# until its answers are there.
_admins: dict[tuple[object, ...], AdminClient] = {}


def _admin(settings: KafkaSettings) -> AdminClient:
    cluster = (settings.servers, *sorted(settings.client.items()))
    if cluster not in _admins:
        try:
            _admins[cluster] = AdminClient(client_config(settings))
        except KafkaException as error:
            raise from_kafka_error(error.args[0], settings, "setting up a client") from error
    return _admins[cluster]


def _bound(settings: KafkaSettings) -> float:
    return settings.timeout_seconds


def _by_name(topic: Topic) -> str:
    return topic.name
