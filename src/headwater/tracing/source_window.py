"""The source of a topic, read in step with its outputs: as far as the outputs have come.

So memory depends on how much the order of the outputs differs from that of the source, not on
the size of the source or the lag of the job.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.kafka import TopicFollower, end_offsets, partition_states
from headwater.model import Address, Record
from headwater.settings import Settings

# A partition is paused when it is this many records ahead of its outputs, and resumed when they
# come near: each change costs a fetch.
_PAUSE_AHEAD = 50_000
_RESUME_AHEAD = 10_000
# About 300 bytes each. Records without an output stay open until a later one of their key has one.
MAX_OPEN = 1_000_000


class SourceWindow:
    """A source that is read on demand. `firsts` are the offsets at which reading started."""

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

    def refresh_ends(self) -> None:
        """Look up the ends of the source; partitions may have been added.

        Raises:
            BrokerUnavailableError: no answer within `kafka.timeout_seconds`.
        """
        self._ends = end_offsets(self._topic, self._settings.kafka)
        for partition in self._ends.keys() - self.firsts.keys():
            self.firsts[partition] = 0
            self._wanted[partition] = -1
            self._follower.add(partition, 0)

    def want(self, parents: Iterable[Address]) -> None:
        """Read up to these records, which must be known."""
        for parent in parents:
            wanted = self._wanted[parent.partition]
            self._wanted[parent.partition] = max(wanted, parent.offset)

    def has_read(self, parents: Iterable[Address]) -> bool:
        """Whether all were read, or no longer exist."""
        positions = self._follower.positions
        return all(parent.offset < positions[parent.partition] for parent in parents)

    def read(self, seconds: float) -> list[Record]:
        """The next records; waits up to `seconds` if a wanted record was not read yet."""
        positions = self._follower.positions
        incomplete = any(positions[part] <= wanted for part, wanted in self._wanted.items())
        records = self._follower.poll(seconds if incomplete else 0)
        for part, wanted in self._wanted.items():
            if positions[part] > wanted + _PAUSE_AHEAD:
                self._follower.pause(part)
            elif positions[part] < wanted + _RESUME_AHEAD:
                self._follower.resume(part)
        return records

    def close(self) -> None:
        self._follower.close()


@dataclass(frozen=True, slots=True)
class OvertakenRecord:
    """A record without an output, although a later one of the same key has one."""

    record: Address
    key: bytes
    # The output of the later record, and when that output was seen.
    overtaken_by: Address
    seen: float


class OpenRecords:
    """The source as far as it was read: each record until its output is seen.

    Beyond `max_open` the oldest are forgotten, and counted: their gaps are not reported.
    """

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self.forgotten = 0
        self._max_open = max_open
        self._keys: dict[Address, bytes] = {}
        # By partition and key; in order, because each partition is read in order.
        self._queues: dict[tuple[int, bytes], deque[Address]] = defaultdict(deque)
        # In the order in which they were seen.
        self._overtaken: dict[Address, OvertakenRecord] = {}

    def add(self, record: Record) -> None:
        """Add a record of the source, in offset order; records without a key have no order."""
        if record.key is None:
            return
        self._keys[record.address] = record.key
        self._queues[record.address.partition, record.key].append(record.address)
        if len(self._keys) > self._max_open:
            # The oldest of all, so also the oldest of its key.
            self.forgotten += 1
            self._remove(next(iter(self._keys)))

    def close(self, parent: Address, output: Address, now: float) -> None:
        """An output of `parent` was seen: older open records of its key were overtaken."""
        self._overtaken.pop(parent, None)
        key = self._keys.get(parent)
        if key is None:
            return
        queue = self._queues[parent.partition, key]
        while queue[0] != parent:
            record = queue[0]
            self._remove(record)
            self._overtaken[record] = OvertakenRecord(record, key, output, now)
        self._remove(parent)

    def dead_letter(self, record: Address) -> None:
        """A dead letter was made from the record: its missing output is not a gap."""
        self._overtaken.pop(record, None)
        if record in self._keys:
            self._remove(record)

    def has_overtaken(self, before: float) -> bool:
        """Whether a record was overtaken before that time."""
        return any(each.seen <= before for each in self._overtaken.values())

    def take_overtaken(self, before: float) -> list[OvertakenRecord]:
        """Remove and return the records that were overtaken before that time."""
        due = [each for each in self._overtaken.values() if each.seen <= before]
        for each in due:
            del self._overtaken[each.record]
        return due

    def __len__(self) -> int:
        return len(self._keys)

    def _remove(self, record: Address) -> None:
        queue_key = record.partition, self._keys.pop(record)
        queue = self._queues[queue_key]
        if queue[0] == record:
            queue.popleft()
        else:
            queue.remove(record)
        if not queue:
            del self._queues[queue_key]
