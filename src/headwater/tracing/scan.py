"""One pass over a topic: which of its records were made from those that are looked for."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from headwater.errors import TopicNotFoundError
from headwater.kafka import partition_states, read_topic
from headwater.model import Address, Record, is_topic_name
from headwater.model.headers import origin_of
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

# Of each record that is looked for; one that was taken apart may have made millions.
_FOUND_KEPT = 1000
_TOPICS_KEPT = 100


@dataclass
class Scan:
    """What was seen of a topic.

    `found` has the records that name one of the wanted as a parent, without their values;
    `newest` the highest offset that was named, by topic and partition; `unlisted` counts records
    whose headers count parents that they do not list.
    """

    topic: str
    records: int = 0
    unlisted: int = 0
    found: dict[Address, list[Record]] = field(default_factory=dict)
    newest: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def parent_topics(self) -> set[str]:
        return {topic for topic, _ in self.newest}

    def take(self, record: Record, wanted: AbstractSet[Address]) -> None:
        self.records += 1
        lineage = origin_of(record).lineage
        if lineage is None:
            return
        self.unlisted += lineage.unlisted > 0 and not lineage.rest
        for parent in lineage.parents:
            place = (parent.topic, parent.partition)
            # Names come from headers: whoever may write could name any number of them.
            if place in self.newest or len(self.newest) < _TOPICS_KEPT:
                self.newest[place] = max(self.newest.get(place, 0), parent.offset)
            self._keep(parent, record, wanted)
        # Those that list further parents of the record stand for them.
        for listing in lineage.rest:
            self._keep(listing, record, wanted)

    def _keep(self, parent: Address, record: Record, wanted: AbstractSet[Address]) -> None:
        kept = self.found.setdefault(parent, []) if parent in wanted else None
        if kept is not None and len(kept) < _FOUND_KEPT:
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
    """Read a topic as it is when the call begins; one that is not there is empty.

    Args:
        start: the first offset of each partition; those that are left out are not read.
        newest: read only so many of the newest offsets of each partition.
    """
    seen = Scan(topic)
    try:
        states = partition_states(topic, settings.kafka) if is_topic_name(topic) else []
    except TopicNotFoundError:
        return seen
    ends = {state.partition: state.end for state in states}
    begins = {state.partition: state.first for state in states}
    if newest is not None:
        begins = {p: max(first, ends[p] - newest) for p, first in begins.items()}
    if start is not None:
        begins = {p: max(first, start[p]) for p, first in begins.items() if p in start}
    if any(begin < ends[p] for p, begin in begins.items()):
        for record in read_topic(
            topic, settings.kafka, start=begins, until=ends, progress=progress
        ):
            seen.take(record, wanted)
    return seen
