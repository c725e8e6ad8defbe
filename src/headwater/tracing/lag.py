"""Lag of the lineage index: offsets of the topics that are not indexed yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import TopicNotFoundError
from headwater.kafka import end_offsets, list_topics
from headwater.settings import Settings

_MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class IndexLag:
    """Offsets not indexed yet, by topic and partition, and topics not indexed at all."""

    lag: Mapping[str, Mapping[int, int]]
    not_indexed: tuple[str, ...]
    indexed: Mapping[str, Mapping[int, int]]

    def as_json(self) -> dict[str, Any]:
        lag = {
            topic: {str(partition): number for partition, number in partitions.items()}
            for topic, partitions in self.lag.items()
        }
        return {"behind": lag, "not_indexed": list(self.not_indexed)}

    def lines(self) -> Iterator[str]:
        """As text for the terminal."""
        if self.indexed and not self.lag:
            yield f"all {len(self.indexed)} topics are fully indexed"
        for topic, partitions in self.lag.items():
            for partition, number in partitions.items():
                end = self.indexed[topic].get(partition, 0)
                yield f"indexed up to {topic}/{partition}@{end}, lag {number}"
        if self.not_indexed:
            named = ", ".join(self.not_indexed[:_MAX_LISTED])
            more = len(self.not_indexed) - _MAX_LISTED
            yield f"not indexed at all: {named}" + (f" and {more} more topics" if more > 0 else "")


def index_lag(indexed: Mapping[str, Mapping[int, int]], settings: Settings) -> IndexLag:
    """Compare the indexed offsets with the ends of the topics.

    Args:
        indexed: the first offset not indexed, by topic and partition.

    Raises:
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    lag: dict[str, dict[int, int]] = {}
    unknown = []
    for topic in list_topics(settings.kafka):
        if topic.name not in indexed:
            unknown.append(topic.name)
            continue
        try:
            ends = end_offsets(topic.name, settings.kafka)
        except TopicNotFoundError:  # deleted a moment ago
            continue
        by_partition = {p: end - indexed[topic.name].get(p, 0) for p, end in ends.items()}
        by_partition = {p: number for p, number in sorted(by_partition.items()) if number > 0}
        if by_partition:
            lag[topic.name] = by_partition
    return IndexLag(lag, tuple(_with_records(unknown, settings)), indexed)


def _with_records(topics: list[str], settings: Settings) -> Iterator[str]:
    for topic in topics:
        try:
            if any(end_offsets(topic, settings.kafka).values()):
                yield topic
        except TopicNotFoundError:
            continue
