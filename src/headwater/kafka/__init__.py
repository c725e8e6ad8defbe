"""Talking to Kafka. The only package that imports confluent-kafka."""

from headwater.kafka.consumer import Position, read_topic
from headwater.kafka.fetch import Absence, RecordReader
from headwater.kafka.producer import RecordProducer
from headwater.kafka.topics import (
    Topic,
    TopicPartitionState,
    create_topic,
    delete_topics,
    describe_topic,
    end_offsets,
    ensure_topic,
    list_topics,
    partition_states,
    ping,
)

__all__ = [
    "Absence",
    "Position",
    "RecordProducer",
    "RecordReader",
    "Topic",
    "TopicPartitionState",
    "create_topic",
    "delete_topics",
    "describe_topic",
    "end_offsets",
    "ensure_topic",
    "list_topics",
    "partition_states",
    "ping",
    "read_topic",
]
