"""One pass over a topic: which of its records were made from the wanted ones."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice

from headwater.errors import TopicNotFoundError
from headwater.kafka import end_offsets, partition_states, read_topic
from headwater.model import Address, AddressRange, Record, TopicPartition, is_topic_name
from headwater.model.header import origin_of
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

# Per wanted record: one that was split may have made millions.
_MAX_OUTPUTS = 1000
_MAX_PARTITIONS = 100


class _Wanted:
    """The wanted records, also sorted: there may be ten thousand of them, and as many ranges."""

    def __init__(self, wanted: AbstractSet[Address]) -> None:
        self.all = wanted
        self._offsets: dict[TopicPartition, list[int]] = {}
        for address in sorted(wanted):
            partition = (address.topic, address.partition)
            self._offsets.setdefault(partition, []).append(address.offset)

    def within(self, range_: AddressRange) -> Iterator[Address]:
        offsets = self._offsets.get((range_.topic, range_.partition), [])
        for offset in islice(offsets, bisect_left(offsets, range_.first), None):
            if offset > range_.last:
                return
            yield Address(range_.topic, range_.partition, offset)


@dataclass
class Scan:
    """The result of a pass over a topic.

    `outputs` are the records that name a wanted record as a parent, by parent, without their
    values; `within` those with a range that contains it, and which range that is. `newest` is the
    highest parent offset by topic and partition; `unlisted` is the number of records whose headers
    count parents that they do not list, or that may have others.
    """

    topic: str
    records: int = 0
    unlisted: int = 0
    outputs: dict[Address, list[Record]] = field(default_factory=dict)
    within: dict[Address, list[tuple[Record, AddressRange]]] = field(default_factory=dict)
    newest: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def parent_topics(self) -> set[str]:
        return {topic for topic, _ in self.newest}

    def add(self, record: Record, wanted: _Wanted) -> None:
        self.records += 1
        lineage = origin_of(record).lineage
        if lineage is None:
            return
        self.unlisted += lineage.more_parents or (lineage.unlisted > 0 and not lineage.rest)
        for parent in lineage.parents:
            self._add_newest((parent.topic, parent.partition), parent.offset)
            self._keep(parent, record, wanted)
        for each in lineage.ranges:
            # The job has read a range up to its end.
            self._add_newest((each.topic, each.partition), each.last)
            self._keep_within(each, record, wanted)
        # Records that list further parents stand for those parents.
        for listing in lineage.rest:
            self._keep(listing, record, wanted)

    def _add_newest(self, partition: TopicPartition, offset: int) -> None:
        # Forged headers may name any number of topics.
        if partition in self.newest or len(self.newest) < _MAX_PARTITIONS:
            self.newest[partition] = max(self.newest.get(partition, 0), offset)

    def _keep_within(self, within: AddressRange, record: Record, wanted: _Wanted) -> None:
        for parent in wanted.within(within):
            kept = self.within.setdefault(parent, [])
            if len(kept) < _MAX_OUTPUTS:
                kept.append((replace(record, value=None), within))

    def _keep(self, parent: Address, record: Record, wanted: _Wanted) -> None:
        kept = self.outputs.setdefault(parent, []) if parent in wanted.all else None
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
    result, known = Scan(topic), _Wanted(wanted)
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
            result.add(record, known)
    return result


def ends_if_exists(topic: str, settings: Settings) -> dict[int, int]:
    """The end of each partition of a topic; empty if there is no such topic."""
    try:
        return end_offsets(topic, settings.kafka) if is_topic_name(topic) else {}
    except TopicNotFoundError:
        return {}
