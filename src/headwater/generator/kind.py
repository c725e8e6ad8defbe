"""What a kind of generated record is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

# Key and value. A plain tuple: a named one would add half to the cost of a visit.
Generated: TypeAlias = tuple[bytes | None, bytes]


@dataclass(frozen=True)
class Kind:
    """One kind of record, and where it goes by default.

    Attributes:
        topic: default topic.
        partitions: how many of them a missing topic gets.
        fields: the fields of the JSON object, in order; all of them are required.
        time_field: the field that holds the event time.
        time_precision: how finely the event time is written.
        records: the endless stream of clean records that a random source gives.
    """

    name: str
    topic: str
    partitions: int
    fields: tuple[str, ...]
    time_field: str
    time_precision: Literal["seconds", "milliseconds", "microseconds"]
    records: Callable[[Random], Iterator[Generated]]
