"""Offsets of consumer groups."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions

from headwater.kafka.client import admin_client, kafka_errors, result_of
from headwater.kafka.errors import Access
from headwater.settings.kafka import KafkaSettings


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
