"""Kafka clients: their configuration, how their errors become Headwater's, and topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from headwater.errors import (
    BrokerUnavailableError,
    HeadwaterError,
    InputError,
    TopicNotFoundError,
)
from headwater.model.topic_names import is_topic_name
from headwater.settings import broker_addresses
from headwater.settings.sections import KafkaSettings

_LOG = logging.getLogger(__name__)

UNREACHABLE = {
    KafkaError._TRANSPORT,  # noqa: SLF001 - librdkafka's local codes start with an underscore
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
}
_UNKNOWN_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}
_LIST_TOPICS = "`headwater topics list` lists all topics"


class _DebugLogger:
    """Takes librdkafka's log lines. It logs every reconnect as an error; callers get exceptions
    instead, so the lines are only of use for debugging."""

    def log(self, level: int, message: str, *values: str) -> None:
        _LOG.debug(message, *values)


def client_config(settings: KafkaSettings, **properties: Any) -> dict[str, Any]:
    """The properties of a client; the setting `kafka.client` takes precedence over defaults."""
    return {
        "bootstrap.servers": broker_addresses(settings),
        # Without a logger, librdkafka writes to stderr.
        "logger": _DebugLogger(),
        **properties,
        **settings.client,
    }


@contextmanager
def kafka_errors(settings: KafkaSettings, what: str) -> Iterator[None]:
    """Convert client errors to Headwater errors; `what` describes the operation."""
    try:
        yield
    except KafkaException as error:
        raise from_kafka_error(error.args[0], settings, what) from error


def from_kafka_error(error: KafkaError, settings: KafkaSettings, what: str) -> HeadwaterError:
    """The Headwater error for a client error."""
    text = f"{what}: {error.str()}"
    if error.code() in UNREACHABLE:
        return BrokerUnavailableError(
            f"Kafka at {broker_addresses(settings)} did not respond: {text}",
            hint="start the local broker with `headwater up kafka`, or set "
            "KAFKA_BOOTSTRAP_SERVERS; the timeout is HEADWATER_KAFKA__TIMEOUT_SECONDS",
            bootstrap_servers=broker_addresses(settings),
        )
    if error.code() in _UNKNOWN_TOPIC:
        return TopicNotFoundError(text, hint=_LIST_TOPICS)
    return InputError(text, code=error.code(), name=error.name())


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
        metadata = _admin(settings).list_topics(timeout=timeout_seconds or _timeout(settings))
    return len(metadata.brokers)


def list_topics(settings: KafkaSettings, *, internal: bool = False) -> list[Topic]:
    """All topics by name; with `internal` also Kafka's internal ones (`__consumer_offsets`, …)."""
    with kafka_errors(settings, "listing topics"):
        metadata = _admin(settings).list_topics(timeout=_timeout(settings))
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
        metadata = _admin(settings).list_topics(name, timeout=_timeout(settings))
    topic = metadata.topics[name]
    if topic.error is None:
        return Topic(name, len(topic.partitions))
    if topic.error.code() in _UNKNOWN_TOPIC:
        return None
    raise from_kafka_error(topic.error, settings, f"topic {name!r}")


def topic_id(name: str, settings: KafkaSettings) -> str:
    """Kafka's id of a topic, which differs after the topic was deleted and recreated.

    Raises:
        TopicNotFoundError: the topic does not exist.
    """
    futures = _admin(settings).describe_topics(
        TopicCollection([name]), request_timeout=_timeout(settings)
    )
    with kafka_errors(settings, f"describing topic {name!r}"):
        return str(futures[name].result(_timeout(settings)).topic_id)


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
    future = _admin(settings).create_topics([topic], operation_timeout=_timeout(settings))[name]
    with kafka_errors(settings, f"creating topic {name!r}"):
        future.result(_timeout(settings))
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
    futures = _admin(settings).delete_topics(list(names), operation_timeout=_timeout(settings))
    for name, future in futures.items():
        with kafka_errors(settings, f"deleting topic {name!r}"):
            future.result(_timeout(settings))


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
    future = _admin(settings).describe_configs([resource], request_timeout=_timeout(settings))
    with kafka_errors(settings, f"requesting the configuration of topic {topic!r}"):
        return str(future[resource].result(_timeout(settings))[name].value)


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
        except InputError as error:
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
    futures = _admin(settings).list_offsets(
        {TopicPartition(topic, part): spec for part in partitions},
        isolation_level=level,
        request_timeout=_timeout(settings),
    )
    offsets: dict[int, int] = {}
    for partition, future in futures.items():
        with kafka_errors(settings, f"requesting offsets of {topic}/{partition.partition}"):
            offsets[partition.partition] = future.result(_timeout(settings)).offset
    return offsets


# A client opens connections and starts threads, so one is shared per cluster. It must exist until
# its futures are complete.
_admins: dict[tuple[object, ...], AdminClient] = {}


def _admin(settings: KafkaSettings) -> AdminClient:
    cluster = (broker_addresses(settings), *sorted(settings.client.items()))
    if cluster not in _admins:
        try:
            _admins[cluster] = AdminClient(client_config(settings))
        except KafkaException as error:
            raise from_kafka_error(error.args[0], settings, "creating an admin client") from error
    return _admins[cluster]


def _timeout(settings: KafkaSettings) -> float:
    return settings.timeout_seconds


def _by_name(topic: Topic) -> str:
    return topic.name
