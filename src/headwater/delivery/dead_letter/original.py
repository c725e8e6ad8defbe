"""The record that a dead letter names: compared with the letter, and sent in its place.

Any client with write access to a dead letter topic can write a letter that names any record. So
nothing of a letter is sent while the record that it names exists, and a letter that differs from
that record is not sent at all.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from headwater.kafka import RecordReader
from headwater.model import Header, Record
from headwater.model.dead_letter import DeadLetter, foreign_headers, redrives_of
from headwater.model.foreign_headers import REPLAY_COUNT, REPLAY_ID


class RedriveOutcome(Enum):
    """The result of a redrive for one dead letter."""

    REDRIVEN = "redriven"
    BEFORE = "redriven before"
    TOO_OFTEN = "redriven too often"
    NO_ORIGIN = "no origin"
    ORIGINAL_GONE = "original gone"
    NOT_THE_ORIGINAL = "not the original"
    UNPROVEN = "unproven"


# Why a letter is not sent.
Refusal = tuple[RedriveOutcome, str]


@dataclass(frozen=True)
class Restored:
    """The record to send for a dead letter, and why it may differ from the original."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    partition: int
    # How often it was redriven before.
    redrives: int
    doubt: str | None = None


def restore(
    letter: DeadLetter, target: str, reader: RecordReader, *, by_request: bool
) -> Restored | Refusal:
    """The original record, compared with its topic as long as it exists there.

    Headers can be forged: without this check, write access to a dead letter topic would be
    enough to send records, or headers, to any topic that the redrive can write to.
    """
    origin, record = letter.origin, letter.record
    headers = letter.foreign_headers()
    if origin is None:
        return Restored(record.key, record.value, headers, -1, letter.redrives)
    original = reader.fetch(origin)
    # To its own partition, after the original, where the next redrive searches for it.
    own = origin.topic == target and (isinstance(original, Record) or original.may_have_existed)
    partition = origin.partition if own else -1
    if isinstance(original, Record):
        if not _is_value_of(letter, original):
            return RedriveOutcome.NOT_THE_ORIGINAL, f"the value at {origin} differs"
        inherited = foreign_headers(original)
        # A job may have changed the key, and left headers out; only a replay adds some.
        added = Counter(headers) - Counter(inherited)
        names = [name for name, _ in added if name not in (REPLAY_ID, REPLAY_COUNT)]
        if names:
            why = f"the record at {origin} has no such header {names[0]!r}"
            return RedriveOutcome.NOT_THE_ORIGINAL, why
        redrives = redrives_of(original)
        return Restored(original.key, original.value, inherited, partition, redrives)
    if letter.reference is not None:
        return RedriveOutcome.ORIGINAL_GONE, f"its value was only at {origin}: {original.value}"
    if not original.may_have_existed and not by_request:
        return (
            RedriveOutcome.NOT_THE_ORIGINAL,
            f"no record ever existed at {origin}: {original.value}",
        )
    doubt = None if by_request else f"it can't be compared with {origin}: {original.value}"
    return Restored(record.key, record.value, headers, partition, letter.redrives, doubt)


def _is_value_of(letter: DeadLetter, original: Record) -> bool:
    if letter.reference is None:
        return letter.record.value == original.value
    return hashlib.sha256(original.value or b"").hexdigest() == letter.reference.sha256
