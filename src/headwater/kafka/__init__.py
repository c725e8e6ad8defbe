"""Kafka clients. The only package that imports confluent-kafka."""

from headwater.kafka.client import (
    Topic,
    create_topic,
    describe_topic,
    end_offsets,
    ensure_topic,
    find_topics,
    input_topic,
    max_record_bytes,
)
from headwater.kafka.consumer import Position, read_topic
from headwater.kafka.fetch import Absence, RecordReader
from headwater.kafka.follower import TopicFollower
from headwater.kafka.groups import greatest_group_offset, group_offset_retention
from headwater.kafka.producer import RecordProducer
from headwater.kafka.runs import KafkaRuns, last_runs, write_run
from headwater.kafka.topics import (
    TopicPartitionState,
    delete_topics,
    is_compacted,
    list_topics,
    partition_states,
    ping,
    topic_id,
)

__all__ = [
    "Absence",
    "KafkaRuns",
    "Position",
    "RecordProducer",
    "RecordReader",
    "Topic",
    "TopicFollower",
    "TopicPartitionState",
    "create_topic",
    "delete_topics",
    "describe_topic",
    "end_offsets",
    "ensure_topic",
    "find_topics",
    "greatest_group_offset",
    "group_offset_retention",
    "input_topic",
    "is_compacted",
    "last_runs",
    "list_topics",
    "max_record_bytes",
    "partition_states",
    "ping",
    "read_topic",
    "topic_id",
    "write_run",
]
