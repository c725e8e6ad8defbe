"""Kafka clients: configuration, errors, requests of an admin client, and the topics of jobs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from headwater.errors import HeadwaterError, InputError, SettingError, TopicNotFoundError
from headwater.kafka import connection
from headwater.kafka.error_kinds import UNKNOWN_TOPIC, UNREACHABLE
from headwater.kafka.errors import Access, error_of, is_refused
from headwater.settings import broker_addresses, is_secured
from headwater.settings.kafka import KafkaSettings
from headwater.settings.kafka_security import client_properties

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


# What a client sets for its guarantees, and the setting `kafka.client` must not change.
_GUARDED = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.idempotence",
        "enable.partition.eof",
        "isolation.level",
    }
)
_SYNONYMS = {"all": "-1"}


def client_config(settings: KafkaSettings, **properties: Any) -> dict[str, Any]:
    """The properties of a client; the setting `kafka.client` takes precedence over defaults.

    Raises:
        SettingError: it has a value with which records could be lost or duplicated, or the
            security of Java's clients can't be used by this one.
    """
    for name in _GUARDED & settings.client.keys() & properties.keys():
        given, expected = settings.client[name], str(properties[name]).lower()
        if given.strip().lower() not in {expected, _SYNONYMS.get(expected)}:
            raise SettingError(
                f"kafka.client: {name}={given} can't be used, this client needs {name}={expected}",
                hint=f"remove {name} from HEADWATER_KAFKA__CLIENT",
                setting="kafka.client",
            )
    cluster = cluster_of(settings)
    return {
        "bootstrap.servers": broker_addresses(settings),
        # Without a logger, librdkafka writes to stderr.
        "logger": _ClientLog(cluster),
        "error_cb": partial(connection.record_error, cluster),
        **properties,
        **(connection.security_of(cluster, settings) if is_secured(settings) else {}),
    }


class _ClientLog:
    """Takes librdkafka's log lines. It logs every reconnect as an error; callers get exceptions
    instead, so the lines are only of use for debugging, and for closed connections: of those,
    `error_cb` is not called."""

    def __init__(self, cluster: connection.Cluster) -> None:
        self._cluster = cluster

    def log(self, level: int, message: str, *values: str) -> None:
        _LOG.debug(message, *values)
        if any("isconnected" in value for value in values):
            connection.record_closed(self._cluster)
        if "FATAL" in values:
            connection.record_fatal(self._cluster, values[-1])


def cluster_of(settings: KafkaSettings) -> connection.Cluster:
    """Identifies a cluster with the properties of its clients."""
    properties = client_properties(settings) if is_secured(settings) else {}
    return (broker_addresses(settings), settings.token_provider, *sorted(properties.items()))


def login_refused(settings: KafkaSettings) -> KafkaError | None:
    """The error by which the cluster does not accept the client; None if there is none, or it is
    not known yet."""
    return connection.login_refused(cluster_of(settings), settings)


# A client opens connections and starts threads, so one is shared per cluster. It must exist until
# its futures are complete.
_admins: dict[connection.Cluster, AdminClient] = {}


def admin_client(settings: KafkaSettings) -> AdminClient:
    """The admin client of a cluster."""
    cluster = cluster_of(settings)
    if cluster not in _admins:
        with kafka_errors(settings, "creating an admin client"):
            _admins[cluster] = AdminClient(client_config(settings))
    if settings.token_provider is not None:
        # Renews the token.
        _admins[cluster].poll(0)
    return _admins[cluster]


# A refused login is known after a fraction of a second, but a request would wait for its timeout.
LOGIN_SECONDS = 1.0


def result_of(future: Future[T], settings: KafkaSettings) -> T:
    """The result of a request.

    Raises:
        KafkaException: the request failed, or there was no response within the timeout.
    """
    deadline = time.monotonic() + settings.timeout_seconds
    while True:
        try:
            with polled_after(admin_client(settings)):
                return future.result(min(LOGIN_SECONDS, max(deadline - time.monotonic(), 0)))
        except TimeoutError:
            if time.monotonic() > deadline or login_refused(settings):
                # The client's own timeout may be longer.
                timed_out = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
                raise KafkaException(timed_out) from None


@contextmanager
def polled_after(admin: AdminClient) -> Iterator[None]:
    """Let the client call `error_cb` after a request that failed."""
    try:
        yield
    except (KafkaException, TimeoutError):
        admin.poll(0)
        raise


@contextmanager
def kafka_errors(
    settings: KafkaSettings, what: str, access: Access | None = None
) -> Iterator[None]:
    """Convert client errors to Headwater errors.

    Args:
        what: describes the operation.
        access: the permission that it needs.
    """
    try:
        yield
    except KafkaException as error:
        raise from_kafka_error(error.args[0], settings, what, access) from error


def from_kafka_error(
    error: KafkaError, settings: KafkaSettings, what: str, access: Access | None = None
) -> HeadwaterError:
    """The Headwater error for a client error; see `kafka_errors`."""
    last = connection.last_error(cluster_of(settings), settings)
    if error.code() in UNREACHABLE:
        last = login_refused(settings) or last
    elif last is not None and is_refused(error) and is_refused(last):
        # Of a client that could not be created, the callback has the reason.
        error = last
    return error_of(error, settings, what, access, last)


_LIST_TOPICS = "`headwater topics list` lists all topics"


_NO_LEADER_YET = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # The client has a newer leader epoch than the leader itself.
    KafkaError.UNKNOWN_LEADER_EPOCH,
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its number of partitions.

    Attributes:
        id: Kafka's id, which differs after the topic was deleted and recreated; empty if it was
            not requested.
    """

    name: str
    partitions: int
    id: str = field(default="", compare=False)


def describe_topic(name: str, settings: KafkaSettings) -> Topic:
    """One topic.

    Raises:
        TopicNotFoundError: the topic does not exist.
    """
    topic = find_topic(name, settings)
    if topic is None:
        raise TopicNotFoundError(f"topic {name!r} does not exist", hint=_LIST_TOPICS)
    return topic


def input_topic(name: str, settings: KafkaSettings) -> Topic:
    """A topic that is read.

    Raises:
        TopicNotFoundError: the topic does not exist.
    """
    topic = find_topic(name, settings)
    if topic is None:
        raise TopicNotFoundError(
            f"input topic {name!r} does not exist at {broker_addresses(settings)}",
            hint="inputs are never created: check the name (`--input-topic`, or the argument of "
            f"`read`) and KAFKA_BOOTSTRAP_SERVERS, or `headwater topics create {name}`",
            topic=name,
        )
    return topic


def find_topic(name: str, settings: KafkaSettings) -> Topic | None:
    """One topic, or None if it does not exist."""
    return find_topics([name], settings).get(name)


def find_topics(names: Iterable[str], settings: KafkaSettings) -> dict[str, Topic]:
    """Those of the topics that exist, by name. None is created, also not by a broker that creates
    unknown topics."""
    chosen = sorted(set(names))
    if not chosen:
        return {}
    futures = admin_client(settings).describe_topics(
        TopicCollection(chosen), request_timeout=settings.timeout_seconds
    )
    topics: dict[str, Topic] = {}
    for name, future in futures.items():
        access = Access("Describe", "topic", name)
        with kafka_errors(settings, f"describing topic {name!r}", access):
            try:
                found = result_of(future, settings)
            except KafkaException as error:
                if error.args[0].code() not in UNKNOWN_TOPIC:
                    raise
                continue
        topics[name] = Topic(name, len(found.partitions), str(found.topic_id))
    return topics


def create_topic(
    name: str,
    partitions: int,
    settings: KafkaSettings,
    *,
    replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a topic.

    Args:
        replication_factor: default: the setting `kafka.replication_factor`.

    Raises:
        InputError: the name is invalid, or the topic exists already.
    """
    if partitions < 1:
        raise InputError(f"a topic needs at least one partition, got {partitions}")
    replicas = settings.replication_factor if replication_factor is None else replication_factor
    topic = NewTopic(name, partitions, replicas, config=dict(config or {}))
    future = admin_client(settings).create_topics(
        [topic], operation_timeout=settings.timeout_seconds
    )[name]
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


def end_offsets(
    topic: str, settings: KafkaSettings, *, read_committed: bool = False
) -> dict[int, int]:
    """The offset of the next record of each partition.

    With `read_committed`, the end is the start of the first open transaction.
    """
    return offsets_at(topic, settings, OffsetSpec.latest(), read_committed)


def max_record_bytes(topic: str, settings: KafkaSettings) -> int:
    """The largest record batch that the topic accepts, which also limits a single record."""
    return int(topic_setting("max.message.bytes", topic, settings))


def topic_setting(name: str, topic: str, settings: KafkaSettings) -> str:
    """A configuration property of a topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    future = admin_client(settings).describe_configs(
        [resource], request_timeout=settings.timeout_seconds
    )
    what, access = "the configuration of topic", Access("DescribeConfigs", "topic", topic)
    with kafka_errors(settings, f"requesting {what} {topic!r}", access):
        return str(result_of(future[resource], settings)[name].value)


def _wait_until_known(name: str, settings: KafkaSettings) -> None:
    """Wait until brokers know the topic: the controller responds before all of them do."""
    deadline = time.monotonic() + settings.timeout_seconds
    while find_topic(name, settings) is None:
        if time.monotonic() > deadline:
            describe_topic(name, settings)
        time.sleep(0.02)


def offsets_at(
    topic: str, settings: KafkaSettings, spec: OffsetSpec, read_committed: bool = False
) -> dict[int, int]:
    """The offset of each partition that `spec` describes."""
    partitions = range(describe_topic(topic, settings).partitions)
    deadline = time.monotonic() + settings.timeout_seconds
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
        request_timeout=settings.timeout_seconds,
    )
    offsets: dict[int, int] = {}
    access = Access("Describe", "topic", topic)
    for partition, future in futures.items():
        with kafka_errors(settings, f"requesting offsets of {topic}/{partition.partition}", access):
            offsets[partition.partition] = result_of(future, settings).offset
    return offsets
