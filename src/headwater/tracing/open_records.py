"""Records of a source that have no output yet, by key: what an output overtakes is a hole."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from headwater.model import Address, Record

# Some 300 bytes each. Records that never have an output, and none of a later one, stay open.
MAX_OPEN = 1_000_000


@dataclass(frozen=True, slots=True)
class Hole:
    """A record without an output, though a later one of the same key has one."""

    record: Address
    key: bytes
    # The output that shows it, and when that was seen.
    shown_by: Address
    seen: float


class OpenRecords:
    """The source as far as it was read: each record until its output is seen.

    Past `max_open` the oldest are forgotten, and counted: whether they have outputs is not told.
    """

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self.forgotten = 0
        self._max_open = max_open
        self._keys: dict[Address, bytes] = {}
        # By partition and key; in order, as each partition is read in order.
        self._lines: dict[tuple[int, bytes], deque[Address]] = defaultdict(deque)
        self._holes: dict[Address, Hole] = {}

    def add(self, record: Record) -> None:
        """A record of the source, in the order of its partition; without a key it has no order."""
        if record.key is None:
            return
        self._keys[record.address] = record.key
        self._lines[record.address.partition, record.key].append(record.address)
        if len(self._keys) > self._max_open:
            # The oldest of all, and so of its key.
            self.forgotten += 1
            self._leave_line(next(iter(self._keys)))

    def close(self, parent: Address, output: Address, now: float) -> None:
        """An output of `parent` was seen: older open records of its key were overtaken."""
        self._holes.pop(parent, None)
        key = self._keys.get(parent)
        if key is None:
            return
        line = self._lines[parent.partition, key]
        while line[0] != parent:
            overtaken = line[0]
            self._leave_line(overtaken)
            self._holes[overtaken] = Hole(overtaken, key, output, now)
        self._leave_line(parent)

    def set_aside(self, record: Address) -> None:
        """A dead letter was made from it: that it has no output is no hole."""
        self._holes.pop(record, None)
        if record in self._keys:
            self._leave_line(record)

    def has_holes(self, before: float) -> bool:
        """Whether there are some that were seen before that time."""
        # In the order in which they were seen.
        return any(hole.seen <= before for hole in self._holes.values())

    def take_holes(self, before: float) -> list[Hole]:
        """Those that were seen before that time and are still there; each is told once."""
        ripe = [hole for hole in self._holes.values() if hole.seen <= before]
        for hole in ripe:
            del self._holes[hole.record]
        return ripe

    def __len__(self) -> int:
        return len(self._keys)

    def _leave_line(self, record: Address) -> None:
        place = record.partition, self._keys.pop(record)
        line = self._lines[place]
        if line[0] == record:
            line.popleft()
        else:
            line.remove(record)
        if not line:
            del self._lines[place]
