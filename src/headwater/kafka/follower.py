"""Follows a topic batch by batch; partitions can be paused and resumed."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, TopicPartition

from headwater.kafka.client import client_config, from_kafka_error, kafka_errors
from headwater.kafka.consumer import record_of
from headwater.kafka.error_kinds import UNREACHABLE, UNUSED_GROUP
from headwater.kafka.errors import Access
from headwater.model import Record
from headwater.settings.kafka import KafkaSettings

_BATCH = 1000


class TopicFollower:
    """Returns the records that arrive in a topic, each partition in order.

    `positions` are the offsets up to which partitions were read, including transaction markers at
    their ends. No consumer group is created. An unreachable broker is not an error.
    """

    def __init__(self, topic: str, begins: Mapping[int, int], settings: KafkaSettings) -> None:
        self.positions = dict(begins)
        self._topic = topic
        self._settings = settings
        self._paused: set[int] = set()
        config = client_config(
            settings,
            **{
                # A group id is required, but no offsets are committed.
                "group.id": "headwater-follower",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            },
        )
        with kafka_errors(settings, f"following {topic!r}"):
            self._consumer = Consumer(config)
            self._consumer.assign([self._partition(part, begin) for part, begin in begins.items()])

    def poll(self, seconds: float) -> list[Record]:
        """Return at most a thousand records; waits up to `seconds` for them."""
        records = []
        for message in self._consumer.consume(_BATCH, seconds):
            error, partition = message.error(), message.partition() or 0
            offset = message.offset() or 0
            if error is None:
                records.append(record_of(message))
                self.positions[partition] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self.positions[partition] = max(self.positions[partition], offset)
            elif error.code() not in UNREACHABLE | UNUSED_GROUP:
                access = Access("Read", "topic", self._topic)
                what = f"following {self._topic!r}"
                raise from_kafka_error(error, self._settings, what, access)
        return records

    def add(self, partition: int, begin: int) -> None:
        """Follow a partition that was added to the topic."""
        self.positions[partition] = begin
        self._consumer.incremental_assign([self._partition(partition, begin)])

    def pause(self, partition: int) -> None:
        """Return no more records of a partition until it is resumed."""
        if partition not in self._paused:
            self._paused.add(partition)
            self._consumer.pause([self._partition(partition)])

    def resume(self, partition: int) -> None:
        """Continue with a paused partition."""
        if partition in self._paused:
            self._paused.remove(partition)
            self._consumer.resume([self._partition(partition)])

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _partition(self, partition: int, offset: int | None = None) -> TopicPartition:
        if offset is None:
            return TopicPartition(self._topic, partition)
        return TopicPartition(self._topic, partition, offset)
