"""A Kafka record as it lies in a topic: bytes, headers in order, and its address."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.model.address import Address

# Kafka allows a header to repeat and its value to be null; null is not the empty value.
Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `key` and `value` are None where Kafka holds null."""

    address: Address
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None

    def header(self, name: str) -> bytes | None:
        """The value of the last header of that name, as Kafka's own `lastHeader` does."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None
