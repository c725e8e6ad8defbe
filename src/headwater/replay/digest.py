"""A checksum of many records, whatever order they come in: what was read, what was written.

Each record has a SHA-256 of what identifies it, its key and its value; the checksum is the
exclusive or of their first 64 bits. Together with the number of records it finds those that
were lost, doubled or changed. `digest_columns` has the same in Spark.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_BYTES = 8


@dataclass
class Checksum:
    """How many records, and the exclusive or of their hashes."""

    records: int = 0
    value: int = 0

    def add(self, identity: str, key: bytes | None, value: bytes | None) -> None:
        """Take a record in."""
        digest = hashlib.sha256(record_bytes(identity, key, value)).digest()
        self.merge(Checksum(1, int.from_bytes(digest[:_BYTES], "big")))

    def merge(self, other: Checksum) -> None:
        """Take in the records of another one."""
        self.records += other.records
        self.value ^= other.value

    def __str__(self) -> str:
        return f"{self.value:0{2 * _BYTES}x}"

    @classmethod
    def parse(cls, records: int, text: str) -> Checksum:
        return cls(records, int(text, 16))


def record_bytes(identity: str, key: bytes | None, value: bytes | None) -> bytes:
    """What is hashed: lengths first, so that no two records are the same bytes."""
    lengths = ("-" if part is None else str(len(part)) for part in (key, value))
    lead = "\0".join((identity, *lengths, ""))
    return lead.encode() + (key or b"") + (value or b"")
