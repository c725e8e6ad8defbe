"""The format of dead letters: header names, and decoding.

A job sends a record that it can't process to `<output>-dead-letter`, with its raw key and value
and the error headers of Kafka Connect. A value that is too large is replaced by a reference: JSON
with the address, the size and the hash of the original.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from headwater.errors import BadAddressError
from headwater.model import Address, Header, Record
from headwater.model.header import OWN_HEADERS, origin_of

MALFORMED = "headwater.MalformedJson"
MISSING_FIELD = "headwater.MissingField"
BAD_TIMESTAMP = "headwater.BadTimestamp"
TOO_LARGE = "headwater.TooLarge"
FUTURE = "headwater.FutureRecord"
UNKNOWN_TOPIC = "headwater.UnknownTopic"
# Not a dead letter: such records go to `<output>-late`.
LATE = "headwater.LateRecord"

PREFIX = "__connect.errors."
TOPIC = f"{PREFIX}topic"
PARTITION = f"{PREFIX}partition"
OFFSET = f"{PREFIX}offset"
CONNECTOR = f"{PREFIX}connector.name"
STAGE = f"{PREFIX}stage"
REASON = f"{PREFIX}exception.class.name"
MESSAGE = f"{PREFIX}exception.message"

REFERENCE_FIELDS = ("address", "size", "sha256")

# Headers of a redriven record. Jobs copy them to dead letters, as all headers of the parent.
REDRIVE_COUNT = "redrive_count"
REDRIVE_OF = "redrive_of"
_NOT_FOREIGN = frozenset({*OWN_HEADERS, REDRIVE_COUNT, REDRIVE_OF})

# A reference has about 100 bytes and a topic name; longer values are not parsed as JSON.
_MAX_REFERENCE_BYTES = 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Reference:
    """Replaces a value that is too large for a dead letter."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of a dead letter topic, as far as its headers could be decoded.

    `origin` is the record that could not be processed; None if the headers do not name one, for
    example on a record of another producer. `redrives` counts how often that record had been sent
    back to its topic before.
    """

    record: Record
    origin: Address | None
    job_name: str | None
    batch: int | None
    reason: str | None
    message: str | None
    reference: Reference | None
    redrives: int

    @property
    def address(self) -> Address:
        return self.record.address

    @property
    def identity(self) -> Address:
        """The key of a redrive: the origin, which may have several dead letters."""
        return self.origin or self.address

    def foreign_headers(self) -> tuple[Header, ...]:
        """The headers that are neither of Headwater nor of the dead letter format."""
        return foreign_headers(self.record)


def foreign_headers(record: Record) -> tuple[Header, ...]:
    """The headers that are neither of Headwater nor of the dead letter format."""
    return tuple(
        (name, value)
        for name, value in record.headers
        if name not in _NOT_FOREIGN and not name.startswith(PREFIX)
    )


def redrives_of(record: Record) -> int:
    """How often a record of an input was redriven, by its headers."""
    return _redrives(_texts(record), record.address)


def read_letter(record: Record) -> DeadLetter:
    """Decode a record's headers; never raises.

    The first occurrence of a repeated header counts: a job's own headers precede inherited ones.
    """
    values = _texts(record)
    origin = _origin(values)
    stamp = origin_of(record)
    return DeadLetter(
        record,
        origin,
        values.get(CONNECTOR, stamp.job_name),
        stamp.batch_version,
        values.get(REASON),
        values.get(MESSAGE),
        _reference(record.value, origin),
        _redrives(values, origin),
    )


def _texts(record: Record) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in record.headers:
        if value is not None:
            values.setdefault(name, value.decode("utf-8", "surrogateescape"))
    return values


def _origin(values: dict[str, str]) -> Address | None:
    return _address(f"{values.get(TOPIC)}/{values.get(PARTITION)}@{values.get(OFFSET)}")


def _address(text: str | None) -> Address | None:
    try:
        return Address.parse(text or "")
    except BadAddressError:
        return None


def _redrives(values: dict[str, str], origin: Address | None) -> int:
    # Records derived from a redriven one inherit its count, which does not apply to them.
    back_to = _address(values.get(REDRIVE_OF))
    count = values.get(REDRIVE_COUNT, "")
    if origin is None or back_to is None or back_to.topic != origin.topic:
        return 0
    return int(count) if re.fullmatch("[0-9]{1,9}", count) else 0


def _reference(value: bytes | None, origin: Address | None) -> Reference | None:
    if value is None or origin is None or len(value) > _MAX_REFERENCE_BYTES or value[:1] != b"{":
        return None
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return None
    # The address distinguishes a reference from a value of the input with the same fields.
    if tuple(content) != REFERENCE_FIELDS or content["address"] != str(origin):
        return None
    size, sha256 = content["size"], content["sha256"]
    if type(size) is not int or not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        return None
    return Reference(size, sha256)
