"""How far the index of edges is behind the topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import TopicNotFoundError
from headwater.kafka import end_offsets, list_topics
from headwater.settings import Settings

_NAMED = 10


@dataclass(frozen=True, slots=True)
class IndexLag:
    """Offsets behind the indexed ones, by topic and partition, and topics not indexed at all."""

    behind: Mapping[str, Mapping[int, int]]
    not_indexed: tuple[str, ...]
    indexed: Mapping[str, Mapping[int, int]]

    def as_json(self) -> dict[str, Any]:
        behind = {
            topic: {str(partition): number for partition, number in partitions.items()}
            for topic, partitions in self.behind.items()
        }
        return {"behind": behind, "not_indexed": list(self.not_indexed)}

    def lines(self) -> Iterator[str]:
        """For people."""
        if self.indexed and not self.behind:
            yield f"all {len(self.indexed)} topics are indexed to their ends"
        for topic, partitions in self.behind.items():
            for partition, number in partitions.items():
                end = self.indexed[topic].get(partition, 0)
                yield f"indexed up to {topic}/{partition}@{end}, which is {number} behind its end"
        if self.not_indexed:
            named = ", ".join(self.not_indexed[:_NAMED])
            more = len(self.not_indexed) - _NAMED
            yield f"not indexed at all: {named}" + (f" and {more} more topics" if more > 0 else "")


def index_lag(indexed: Mapping[str, Mapping[int, int]], settings: Settings) -> IndexLag:
    """Hold what is indexed against the ends of the topics.

    Args:
        indexed: the offset behind the last indexed one, by topic and partition.

    Raises:
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
    """
    behind: dict[str, dict[int, int]] = {}
    unknown = []
    for topic in list_topics(settings.kafka):
        if topic.name not in indexed:
            unknown.append(topic.name)
            continue
        try:
            ends = end_offsets(topic.name, settings.kafka)
        except TopicNotFoundError:  # deleted a moment ago
            continue
        late = {p: end - indexed[topic.name].get(p, 0) for p, end in ends.items()}
        late = {partition: number for partition, number in sorted(late.items()) if number > 0}
        if late:
            behind[topic.name] = late
    return IndexLag(behind, tuple(_with_records(unknown, settings)), indexed)


def _with_records(topics: list[str], settings: Settings) -> Iterator[str]:
    for topic in topics:
        try:
            if any(end_offsets(topic, settings.kafka).values()):
                yield topic
        except TopicNotFoundError:
            continue
