"""What `headwater doctor --kafka` asks about a topic: replicas, limits and permissions."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicCollection

from headwater.errors import AuthorizationError
from headwater.kafka.client import admin_client, kafka_errors, result_of, topic_setting
from headwater.kafka.error_kinds import UNKNOWN_TOPIC
from headwater.kafka.errors import Access
from headwater.settings.kafka import KafkaSettings


@dataclass(frozen=True, slots=True)
class TopicDetails:
    """A topic as its administrator sees it.

    Attributes:
        replicas: the smallest number of a partition.
        in_sync: the smallest number of replicas in sync of a partition.
        operations: what the client may do, such as `Read`; empty if the cluster does not report it.
        min_in_sync: `min.insync.replicas`; None without the permission DescribeConfigs.
        retention_ms: -1 if it is unlimited; None without the permission DescribeConfigs.
    """

    name: str
    replicas: int
    in_sync: int
    operations: frozenset[str]
    min_in_sync: int | None
    retention_ms: int | None


def inspect_topic(name: str, settings: KafkaSettings) -> TopicDetails | None:
    """The details of a topic; None if it does not exist.

    Raises:
        AuthorizationError: the client may not describe it.
    """
    future = admin_client(settings).describe_topics(
        TopicCollection([name]),
        include_authorized_operations=True,
        request_timeout=settings.timeout_seconds,
    )[name]
    with kafka_errors(settings, f"describing topic {name!r}", Access("Describe", "topic", name)):
        try:
            found = result_of(future, settings)
        except KafkaException as error:
            if error.args[0].code() in UNKNOWN_TOPIC:
                return None
            raise
    # `DESCRIBE_CONFIGS` is DescribeConfigs in the words of `headwater kafka acls`.
    names = (each.name.title().replace("_", "") for each in found.authorized_operations or ())
    return TopicDetails(
        name,
        min(len(each.replicas) for each in found.partitions),
        min(len(each.isr) for each in found.partitions),
        frozenset(names),
        _number("min.insync.replicas", name, settings),
        _number("retention.ms", name, settings),
    )


def _number(property_name: str, topic: str, settings: KafkaSettings) -> int | None:
    try:
        return int(topic_setting(property_name, topic, settings))
    except AuthorizationError:
        return None
