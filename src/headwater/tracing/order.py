"""State for checking order: outputs seen so far, and the newest parent of each key.

A key is in one partition of the source. Its outputs are in order if, within a partition of
the topic, the offsets of their parents never decrease.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from headwater.model import Address, Lineage, Record
from headwater.tracing.offsets import HashTable, OffsetDigests

# Job names come from headers: blocks for each of a million names would fill the memory.
_JOBS_BY_OFFSET = 16
_DIGEST = 2**32 - 1


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


class SeenRecords:
    """Outputs that occurred before: with the same record id, key and value.

    The id alone is not enough. Rows that share their parents have the same, such as groups of
    exploded rows.

    The first output of a source record takes four bytes, any other some dozens of bytes. `firsts`
    are the first offsets of the source's partitions; no parent lies beyond their ends.
    """

    def __init__(self, source: str, firsts: Mapping[int, int]) -> None:
        self._source = source
        self._firsts = firsts
        self._first_outputs: dict[str, dict[int, OffsetDigests]] = {}
        self._others = HashTable()

    def add(self, record: Record, lineage: Lineage, job_name: str) -> bool:
        """Add an output; True if it was added before. Lineage with ranges has no id."""
        if not lineage.exact:
            return False
        # Python's keyed hash: forged ids can't be chosen to collide.
        content = hash((record.key, record.value))
        first_outputs = self._first_outputs_of(lineage, job_name)
        if first_outputs is not None:
            digest = content & _DIGEST or 1
            first = first_outputs.add(lineage.parents[0].offset, digest)
            if first is None or first == digest:
                return first is not None
        identity = hash((lineage.identity(job_name), content))
        return self._others.raise_to(identity, 0) is not None

    def _first_outputs_of(self, lineage: Lineage, job_name: str) -> OffsetDigests | None:
        if len(lineage.parents) != 1 or lineage.unlisted or lineage.ordinal or lineage.record_id:
            return None
        parent = lineage.parents[0]
        # Expired offsets may lie far apart, and each would need a block.
        if parent.topic != self._source or parent.offset < self._firsts[parent.partition]:
            return None
        partitions = self._first_outputs.get(job_name)
        if partitions is None:
            if len(self._first_outputs) == _JOBS_BY_OFFSET:
                return None
            partitions = self._first_outputs[job_name] = defaultdict(OffsetDigests)
        return partitions[parent.partition]
