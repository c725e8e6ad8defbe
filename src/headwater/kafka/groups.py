"""Offsets of consumer groups."""

from __future__ import annotations

import logging
from datetime import timedelta

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import ConfigResource, ResourceType

from headwater.errors import HeadwaterError
from headwater.kafka.client import admin_client, kafka_errors, result_of
from headwater.kafka.errors import Access
from headwater.kafka.topics import request_metadata
from headwater.settings.kafka import KafkaSettings

_LOG = logging.getLogger(__name__)
_RETENTION = "offsets.retention.minutes"


def greatest_group_offset(prefix: str, settings: KafkaSettings) -> int | None:
    """The greatest offset of the groups whose names begin with `prefix`; None if there is none."""
    admin, timeout = admin_client(settings), settings.timeout_seconds
    access = Access("Read", "group", f"{prefix}*")
    with kafka_errors(settings, f"listing the groups {prefix}*", access):
        listed = result_of(admin.list_consumer_groups(request_timeout=timeout), settings)
    # One request for each group: librdkafka takes no more.
    futures = [
        future
        for group in listed.valid
        if group.group_id.startswith(prefix)
        for future in admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group.group_id)], request_timeout=timeout
        ).values()
    ]
    offsets: list[int] = []
    for future in futures:
        with kafka_errors(settings, f"requesting offsets of the groups {prefix}*", access):
            found = result_of(future, settings).topic_partitions
            offsets += [each.offset for each in found if each.offset >= 0]
    return max(offsets, default=None)


def group_offset_retention(settings: KafkaSettings) -> timedelta | None:
    """How long brokers keep the offsets of a group; None if they don't report it to this client."""
    what = f"requesting {_RETENTION} of a broker"
    try:
        with kafka_errors(settings, what, Access("DescribeConfigs", "cluster", "kafka-cluster")):
            broker = min(request_metadata(settings).brokers)
            resource = ConfigResource(ResourceType.BROKER, str(broker))
            future = admin_client(settings).describe_configs(
                [resource], request_timeout=settings.timeout_seconds
            )[resource]
            found = result_of(future, settings).get(_RETENTION)
    except HeadwaterError as error:
        _LOG.debug("%s is not known: %s", _RETENTION, error.message)
        return None
    return None if found is None or found.value is None else timedelta(minutes=int(found.value))
