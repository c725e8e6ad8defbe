"""Finds earlier redrives in the topics they were written to.

No other state is kept: a redriven record names its dead letter as its parent, so the topic itself
shows what was redriven. A record is redriven to the partition it came from, so its copy has a
higher offset: only records after the lowest original have to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import BadAddressError
from headwater.kafka import is_compacted, partition_states, read_topic
from headwater.model import Address, Record
from headwater.model.dead_letter import REDRIVE_OF
from headwater.model.header import origin_of
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

REDRIVE_JOB = "headwater_redrive"


@dataclass
class Starts:
    """The lowest offset at which a copy may be, by topic and partition."""

    offsets: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, origin: Address) -> None:
        partitions = self.offsets.setdefault(origin.topic, {})
        after = origin.offset + 1
        partitions[origin.partition] = min(partitions.get(origin.partition, after), after)


@dataclass
class History:
    """What was redriven from one dead letter topic to a topic.

    `copies` has the identity of the letter as key: one record may have several letters.
    """

    topic: str
    firsts: Mapping[int, int]
    compacted: bool
    copies: dict[Address, Address] = field(default_factory=dict)

    def doubt(self, origin: Address | None) -> str | None:
        """Why a copy of a record may have existed and be gone; None if that is impossible."""
        if self.compacted:
            return f"{self.topic} is compacted, a copy may have been removed"
        partitions = self.firsts
        start = 0
        if origin is not None and origin.topic == self.topic:
            partitions = {p: first for p, first in partitions.items() if p == origin.partition}
            start = origin.offset + 1
        for partition, first in partitions.items():
            if first > start:
                return f"{self.topic}/{partition} starts at {first}, a copy may have been deleted"
        return None


def read_history(
    topic: str,
    dead_letters: str,
    starts: Mapping[int, int] | None,
    settings: Settings,
    progress: Progress = no_progress,
) -> History:
    """Read the part of a topic that may contain redriven records.

    Args:
        starts: the first offset to read of each partition; None reads the complete topic.

    Raises:
        TopicNotFoundError: there is no such topic.
        BrokerUnavailableError: Kafka did not respond within `kafka.timeout_seconds`.
    """
    states = partition_states(topic, settings.kafka)
    firsts = {state.partition: state.first for state in states}
    ends = {state.partition: state.end for state in states}
    history = History(topic, firsts, is_compacted(topic, settings.kafka))
    if starts is not None:
        starts = {p: start for p, start in starts.items() if start < ends.get(p, 0)}
    first_offsets = firsts if starts is None else {p: max(s, firsts[p]) for p, s in starts.items()}
    # Read uncommitted: an open transaction must not hide redriven records, which are in none.
    for record in read_topic(
        topic,
        settings.kafka,
        start=first_offsets,
        until=ends,
        read_uncommitted=True,
        progress=progress,
    ):
        letter = _letter_of(record, dead_letters)
        if letter is not None:
            history.copies[_origin_of(record) or letter] = record.address
    return history


def _letter_of(record: Record, dead_letters: str) -> Address | None:
    origin = origin_of(record)
    parents = origin.lineage.parents if origin.lineage else ()
    if origin.job_name != REDRIVE_JOB or len(parents) != 1 or parents[0].topic != dead_letters:
        return None
    return parents[0]


def _origin_of(record: Record) -> Address | None:
    try:
        return Address.parse((record.header(REDRIVE_OF) or b"").decode("ascii", "replace"))
    except BadAddressError:
        return None
