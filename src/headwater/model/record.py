"""A Kafka record, its lineage, and the output of a job."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from headwater.model.address import Address, AddressRange

# Kafka allows a header to repeat and its value to be null; null is not the empty value.
Header = tuple[str, bytes | None]

_LATEST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class Record:
    """One record: raw bytes, headers in order, and its address. A Kafka null is None."""

    address: Address
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name, as Kafka's `lastHeader`."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None


@dataclass(frozen=True, slots=True)
class Lineage:
    """The parents of a record, and the run that produced it.

    The list of parents is bounded: `unlisted` counts the parents that are not listed, and `rest`
    names the records that list them. `ordinal` distinguishes records with the same parents.
    `record_id` is set only if it can't be derived, which is when parents are unlisted.

    After a step that can't be followed row by row, a superset of the parents is known: they are
    within `ranges`. `more_parents` is set if there may be parents that nothing names. Such a record
    has no identity: others may have the same ranges.

    `batch` is the micro-batch, if the record has no header for it.
    """

    run_id: str | None
    parents: tuple[Address, ...]
    unlisted: int = 0
    ordinal: int = 0
    record_id: str | None = None
    rest: tuple[Address, ...] = ()
    ranges: tuple[AddressRange, ...] = ()
    more_parents: bool = False
    batch: int | None = None

    @property
    def exact(self) -> bool:
        """Whether the parents are known: neither ranges nor unknown ones."""
        return not self.ranges and not self.more_parents

    @property
    def parent_count(self) -> int:
        """The number of parents; without those within ranges."""
        return len(self.parents) + self.unlisted

    def identity(self, job_name: str) -> str | None:
        """The record id: the same for every copy that a retry or a replay writes.

        None unless the lineage is exact.
        """
        if not self.exact:
            return None
        if self.record_id is not None:
            return self.record_id
        return record_id(job_name, ",".join(map(str, self.parents)), self.ordinal)


@dataclass(frozen=True, slots=True)
class JobOutput:
    """The output of a job; optionally of one version, or of a range of batches (inclusive)."""

    job_name: str
    job_version: str | None = None
    batches: tuple[int, int] | None = None

    def __str__(self) -> str:
        text = f"job {self.job_name!r}"
        if self.job_version is not None:
            text += f" in version {self.job_version!r}"
        if self.batches is not None:
            text += " in batches {}..{}".format(*self.batches)
        return text


def record_id(job_name: str, parents: str, ordinal: int = 0) -> str:
    """Derive an id from the job, its input and the ordinal among the outputs of that input.

    Neither time nor randomness is used: the same input always has the same id.
    """
    text = "\0".join((job_name, parents, str(ordinal)))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def from_epoch_ms(millis: int) -> datetime:
    """Convert milliseconds since 1970. Spark allows later times than Python, which are capped."""
    return datetime.fromtimestamp(min(millis, _LATEST_MS) / 1000, UTC)
