"""State for checking order: outputs seen so far, and the newest parent of each key.

A key is in one partition of the source. Its outputs are in order if, within a partition of
the topic, the offsets of their parents never decrease.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from headwater.model import Address, Lineage, Record
from headwater.tracing.offsets import HashTable, OffsetSet

# Job names come from headers: a bitmap for each of a million names would fill the memory.
_JOBS_WITH_BITMAPS = 16


class NewestParents:
    """The newest parent of each key; some dozens of bytes per key."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, int], HashTable] = defaultdict(HashTable)

    def add(self, record: Record, parent: Address) -> Address | None:
        """Add an output with a key; returns the later parent that it comes after, if any."""
        newest = self._newest[record.address.partition, parent.partition]
        before = newest.raise_to(hash(record.key), parent.offset)
        if before is None or parent.offset >= before:
            return None
        return Address(parent.topic, parent.partition, before)


class SeenRecordIds:
    """Record ids that occurred before.

    An output of one source record takes one bit, any other some dozens of bytes. `firsts` are
    the first offsets of the source's partitions; no parent lies beyond their ends.
    """

    def __init__(self, source: str, firsts: Mapping[int, int]) -> None:
        self._source = source
        self._firsts = firsts
        self._bitmaps: dict[str, dict[int, OffsetSet]] = {}
        self._ids = HashTable()

    def add(self, lineage: Lineage, job_name: str) -> bool:
        """Add an id; True if it was added before. Lineage with ranges has none."""
        identity = lineage.identity(job_name)
        if identity is None:
            return False
        seen = self._bitmap(lineage, job_name)
        if seen is not None:
            return not seen.add(lineage.parents[0].offset)
        # Python's keyed hash: forged ids can't be chosen to collide.
        return self._ids.raise_to(hash(identity), 0) is not None

    def _bitmap(self, lineage: Lineage, job_name: str) -> OffsetSet | None:
        if len(lineage.parents) != 1 or lineage.unlisted or lineage.ordinal or lineage.record_id:
            return None
        parent = lineage.parents[0]
        # Expired offsets may lie far apart, and each would need a block of bits.
        if parent.topic != self._source or parent.offset < self._firsts[parent.partition]:
            return None
        bitmaps = self._bitmaps.get(job_name)
        if bitmaps is None:
            if len(self._bitmaps) == _JOBS_WITH_BITMAPS:
                return None
            bitmaps = self._bitmaps[job_name] = defaultdict(OffsetSet)
        return bitmaps[parent.partition]
