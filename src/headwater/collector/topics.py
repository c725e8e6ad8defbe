"""Topics of a run's events: one name for each, from the start to the end.

A query may have brokers of its own, or write their names otherwise than the settings do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.openlineage.events import Dataset, DatasetName, kafka_topic, name_of
from headwater.openlineage.progress import Ranges


class TopicNames:
    """Topics by the names that they were told under; those that turn up later by the servers."""

    def __init__(self, datasets: Sequence[Dataset], servers: str) -> None:
        names = [name_of(each) for each in datasets]
        self._known = {each.name: each for each in names if each.namespace.startswith("kafka:")}
        self._servers = servers

    def __getitem__(self, topic: str) -> DatasetName:
        return self._known.get(topic) or kafka_topic(self._servers, topic)

    def listed(self, ranges: Ranges) -> list[dict[str, Any]]:
        """As events list offsets."""
        return [
            self.range(topic, partition, first, last)
            for (topic, partition), (first, last) in sorted(ranges.items())
        ]

    def range(self, topic: str, partition: int, first: int, last: int) -> dict[str, Any]:
        place = {"namespace": self[topic].namespace, "topic": topic, "partition": partition}
        return {**place, "first": first, "last": last}
