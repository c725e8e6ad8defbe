"""Reading a source beside the topic that is made from it: as far as outputs have come, not more.

So what has to be held of the source follows from how far the outputs are from its order, and
not from its size or from how far their job is behind.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.kafka import TopicFollower, end_offsets, partition_states
from headwater.model import Address, Record
from headwater.settings import Settings

# A partition is held when it is so far ahead of its outputs, and let go when they come near:
# each time costs a fetch.
_AHEAD = 50_000
_NEAR = 10_000


class SourceBeside:
    """A source that is read on demand. `firsts` are the offsets at which it began."""

    def __init__(self, topic: str, settings: Settings) -> None:
        self.firsts = {s.partition: s.first for s in partition_states(topic, settings.kafka)}
        self._topic = topic
        self._settings = settings
        self._ends = dict(self.firsts)
        self._wanted = dict.fromkeys(self.firsts, -1)
        self._follower = TopicFollower(topic, self.firsts, settings.kafka)

    def knows(self, parents: Iterable[Address]) -> bool:
        """Whether all lie before the ends that were looked up last."""
        return all(parent.offset < self._ends.get(parent.partition, 0) for parent in parents)

    def look_at_ends(self) -> None:
        """Ask Kafka how far the source goes; partitions may have been added.

        Raises:
            BrokerUnavailableError: no answer within `kafka.timeout_seconds`.
        """
        self._ends = end_offsets(self._topic, self._settings.kafka)
        for partition in self._ends.keys() - self.firsts.keys():
            self.firsts[partition] = 0
            self._wanted[partition] = -1
            self._follower.add(partition, 0)

    def want(self, parents: Iterable[Address]) -> None:
        """Read up to these, which must be known."""
        for parent in parents:
            wanted = self._wanted[parent.partition]
            self._wanted[parent.partition] = max(wanted, parent.offset)

    def has_read(self, parents: Iterable[Address]) -> bool:
        """Whether all were read, or are gone and can't be."""
        positions = self._follower.positions
        return all(parent.offset < positions[parent.partition] for parent in parents)

    def read(self, seconds: float) -> list[Record]:
        """What comes next; waits up to `seconds` if something that is wanted was not read yet."""
        positions = self._follower.positions
        behind = any(positions[part] <= wanted for part, wanted in self._wanted.items())
        records = self._follower.poll(seconds if behind else 0)
        for part, wanted in self._wanted.items():
            if positions[part] > wanted + _AHEAD:
                self._follower.hold(part)
            elif positions[part] < wanted + _NEAR:
                self._follower.let_go(part)
        return records

    def close(self) -> None:
        self._follower.close()
