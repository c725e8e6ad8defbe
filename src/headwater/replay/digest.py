"""A checksum of many records, whatever order they come in: what was read, what was written.

Each record has a SHA-256 of what identifies it, its key and its value; the checksum is the
exclusive or of their first 120 bits. Together with the number of records it finds those that
were lost, doubled or changed. `digest_columns` has the same in Spark.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

# A number of so many hexadecimal digits is a bigint that Spark can take the exclusive or of.
LANE_DIGITS = 15
LANES = 2


@dataclass
class Checksum:
    """How many records, and the exclusive or of their digests."""

    records: int = 0
    lanes: tuple[int, int] = (0, 0)

    def add(self, identity: str, key: bytes | None, value: bytes | None) -> None:
        """Take a record in."""
        text = hashlib.sha256(record_bytes(identity, key, value)).hexdigest()
        first, second = text[:LANE_DIGITS], text[LANE_DIGITS : 2 * LANE_DIGITS]
        self.merge(Checksum(1, (int(first, 16), int(second, 16))))

    def merge(self, other: Checksum) -> None:
        """Take in the records of another one."""
        self.records += other.records
        mine, theirs = self.lanes, other.lanes
        self.lanes = (mine[0] ^ theirs[0], mine[1] ^ theirs[1])

    def __str__(self) -> str:
        return "".join(f"{lane:0{LANE_DIGITS}x}" for lane in self.lanes)

    @classmethod
    def parse(cls, records: int, text: str) -> Checksum:
        lanes = (int(text[:LANE_DIGITS], 16), int(text[LANE_DIGITS:], 16))
        return cls(records, lanes)


def record_bytes(identity: str, key: bytes | None, value: bytes | None) -> bytes:
    """What is hashed: lengths first, so that no two records are the same bytes."""
    lengths = ("-" if part is None else str(len(part)) for part in (key, value))
    lead = "\0".join((identity, *lengths, ""))
    return lead.encode() + (key or b"") + (value or b"")
