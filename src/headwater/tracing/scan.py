"""One pass over a topic: which of its records were made from the wanted ones."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from headwater.errors import TopicNotFoundError
from headwater.kafka import end_offsets, partition_states, read_topic
from headwater.model import Address, Record, TopicPartition, is_topic_name
from headwater.model.header import origin_of
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

# Per wanted record: one that was split may have made millions.
_MAX_OUTPUTS = 1000
_MAX_PARTITIONS = 100


@dataclass
class Scan:
    """The result of a pass over a topic.

    `outputs` are the records that name a wanted record as a parent, by parent, without their
    values; `newest` is the highest parent offset by topic and partition; `unlisted` is the number
    of records whose headers count parents that they do not list.
    """

    topic: str
    records: int = 0
    unlisted: int = 0
    outputs: dict[Address, list[Record]] = field(default_factory=dict)
    newest: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def parent_topics(self) -> set[str]:
        return {topic for topic, _ in self.newest}

    def add(self, record: Record, wanted: AbstractSet[Address]) -> None:
        self.records += 1
        lineage = origin_of(record).lineage
        if lineage is None:
            return
        self.unlisted += lineage.unlisted > 0 and not lineage.rest
        for parent in lineage.parents:
            partition = (parent.topic, parent.partition)
            # Forged headers may name any number of topics.
            if partition in self.newest or len(self.newest) < _MAX_PARTITIONS:
                self.newest[partition] = max(self.newest.get(partition, 0), parent.offset)
            self._keep(parent, record, wanted)
        # Records that list further parents stand for those parents.
        for listing in lineage.rest:
            self._keep(listing, record, wanted)

    def _keep(self, parent: Address, record: Record, wanted: AbstractSet[Address]) -> None:
        kept = self.outputs.setdefault(parent, []) if parent in wanted else None
        if kept is not None and len(kept) < _MAX_OUTPUTS:
            kept.append(replace(record, value=None))


def scan(
    topic: str,
    wanted: AbstractSet[Address],
    settings: Settings,
    progress: Progress = no_progress,
    *,
    start: Mapping[int, int] | None = None,
    newest: int | None = None,
) -> Scan:
    """Read a topic up to its end when the call starts; a missing topic counts as empty.

    Args:
        start: the first offset of each partition; partitions without one are not read.
        newest: read only this many of the newest offsets of each partition.
    """
    result = Scan(topic)
    try:
        states = partition_states(topic, settings.kafka) if is_topic_name(topic) else []
    except TopicNotFoundError:
        return result
    ends = {state.partition: state.end for state in states}
    starts = {state.partition: state.first for state in states}
    if newest is not None:
        starts = {p: max(first, ends[p] - newest) for p, first in starts.items()}
    if start is not None:
        starts = {p: max(first, start[p]) for p, first in starts.items() if p in start}
    if any(begin < ends[p] for p, begin in starts.items()):
        for record in read_topic(
            topic, settings.kafka, start=starts, until=ends, progress=progress
        ):
            result.add(record, wanted)
    return result


def ends_if_exists(topic: str, settings: Settings) -> dict[int, int]:
    """The end of each partition of a topic; empty if there is no such topic."""
    try:
        return end_offsets(topic, settings.kafka) if is_topic_name(topic) else {}
    except TopicNotFoundError:
        return {}
