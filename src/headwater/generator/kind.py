"""The definition of a kind of generated records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

# Key and value. Not a named tuple, which would make a visit 50 % slower.
Generated: TypeAlias = tuple[bytes | None, bytes]


@dataclass(frozen=True)
class RecordKind:
    """One kind of record, with its default topic.

    Attributes:
        topic: default topic.
        partitions: the number with which a missing topic is created.
        fields: the fields of the JSON object, in order; all of them are required.
        time_field: the field with the event time.
        time_precision: the precision of the event time.
        records: returns an unbounded stream of clean records for a random source.
    """

    name: str
    topic: str
    partitions: int
    fields: tuple[str, ...]
    time_field: str
    time_precision: Literal["seconds", "milliseconds", "microseconds"]
    records: Callable[[Random], Iterator[Generated]]
