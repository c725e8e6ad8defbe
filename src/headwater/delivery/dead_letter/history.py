"""What a topic tells of earlier redrives into it.

Nothing is noted anywhere else: a redriven record names its dead letter as its parent, so the
topic itself says what was redriven. A record that goes back to the topic it came from goes back
to its partition, behind itself: only what lies behind the first one has to be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import BadAddressError
from headwater.kafka import is_compacted, partition_states, read_topic
from headwater.model import Address, Record
from headwater.model.dead_letter import REDRIVE_OF
from headwater.model.headers import origin_of
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings

REDRIVE_JOB = "headwater_redrive"


@dataclass
class Starts:
    """The lowest offset behind which a copy may lie, by topic and partition."""

    offsets: dict[str, dict[int, int]] = field(default_factory=dict)

    def take(self, origin: Address) -> None:
        partitions = self.offsets.setdefault(origin.topic, {})
        behind = origin.offset + 1
        partitions[origin.partition] = min(partitions.get(origin.partition, behind), behind)


@dataclass
class History:
    """What was redriven from one dead letter topic into a topic.

    `copies` are by the identity of a letter: several may be made from one record.
    """

    topic: str
    firsts: Mapping[int, int]
    compacted: bool
    copies: dict[Address, Address] = field(default_factory=dict)

    def doubt(self, origin: Address | None) -> str | None:
        """Why a record that has no copy here may have had one; None if it surely had not."""
        if self.compacted:
            return f"{self.topic} is compacted, a copy may be gone"
        partitions = self.firsts
        behind = 0
        if origin is not None and origin.topic == self.topic:
            partitions = {p: first for p, first in partitions.items() if p == origin.partition}
            behind = origin.offset + 1
        for partition, first in partitions.items():
            if first > behind:
                return f"{self.topic}/{partition} begins at {first} now, a copy may be gone"
        return None


def read_history(
    topic: str,
    dead_letters: str,
    starts: Mapping[int, int] | None,
    settings: Settings,
    progress: Progress = no_progress,
) -> History:
    """Read the part of a topic in which redriven records may lie.

    Args:
        starts: the first offset to read of each partition; None reads all of the topic.

    Raises:
        TopicNotFoundError: there is no such topic.
        BrokerUnavailableError: Kafka did not answer within `kafka.timeout_seconds`.
    """
    states = partition_states(topic, settings.kafka)
    firsts = {state.partition: state.first for state in states}
    ends = {state.partition: state.end for state in states}
    history = History(topic, firsts, is_compacted(topic, settings.kafka))
    if starts is not None:
        starts = {p: start for p, start in starts.items() if start < ends.get(p, 0)}
    begins = firsts if starts is None else {p: max(s, firsts[p]) for p, s in starts.items()}
    # Also behind the beginning of somebody's open transaction: redriven records are in none.
    for record in read_topic(
        topic, settings.kafka, start=begins, until=ends, read_uncommitted=True, progress=progress
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
