"""Validates the values of an event. Every check records its error and continues, so that one
response names every invalid field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard
from uuid import UUID

from headwater.errors import InputError

# Longer than the paths and query names of real jobs, short enough to keep responses small.
MAX_NAME_CHARACTERS = 2048
_MAX_ERRORS = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ID = UUID(int=0)
# Digits after microseconds are cut: PostgreSQL stores six.
_FRACTION = re.compile(r"(\.\d{6})\d+")
# The name of the zone that Java appends to the offset: `2026-01-01T00:00:00Z[UTC]`.
_ZONE = re.compile(r"\[[\w/+-]{1,64}\]$", re.ASCII)


class BadEventError(InputError):
    """An invalid event."""

    # One text per invalid field.
    errors: Sequence[str] = ()
    # The HTTP status of the response.
    status: int = 422


class Checks:
    """Validates values and collects the errors."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def fail(self, message: str) -> None:
        if len(self.errors) < _MAX_ERRORS:
            self.errors.append(message)

    def raise_any(self) -> None:
        """Raises:
        BadEventError: there was at least one error.
        """
        if self.errors:
            raise BadEventError("; ".join(self.errors), errors=self.errors)

    def object(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.fail(f"{path} must not be null" if value is None else f"{path} must be an object")
        return {}

    def list(self, value: Any, path: str) -> list[Any]:
        if value is None:
            return []
        if isinstance(value, list):
            return value
        self.fail(f"{path} must be a list")
        return []

    def facets(self, value: Any, path: str) -> dict[str, Any]:
        """Facets by name, without those that are null."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fail(f"{path} must be an object")
            return {}
        for name in value:
            if not self.is_name(name):
                self.fail(f"{path} has a facet with an invalid name")
        return {name: facet for name, facet in value.items() if facet is not None}

    def name(self, value: Any, path: str) -> str:
        if self.is_name(value):
            return value
        if value is None:
            self.fail(f"{path} must not be null")
        elif not isinstance(value, str):
            self.fail(f"{path} must be a string")
        elif not value.strip():
            self.fail(f"{path} must not be empty")
        elif "\0" in value:
            self.fail(f"{path} must not contain a NUL character")
        else:
            self.fail(f"{path} must have at most {MAX_NAME_CHARACTERS} characters")
        return ""

    @staticmethod
    def is_name(value: Any) -> TypeGuard[str]:
        return (
            isinstance(value, str)
            and 0 < len(value) <= MAX_NAME_CHARACTERS
            and "\0" not in value
            and bool(value.strip())
        )

    def uuid(self, value: Any, path: str) -> UUID:
        if value is None:
            self.fail(f"{path} must not be null")
            return _NO_ID
        parsed = self.uuid_or_none(value)
        if parsed is None:
            self.fail(f"{path} must be a UUID")
            return _NO_ID
        return parsed

    @staticmethod
    def uuid_or_none(value: Any) -> UUID | None:
        if not isinstance(value, str) or len(value) != 36:
            return None
        try:
            return UUID(value)
        except ValueError:
            return None

    def time(self, value: Any, path: str) -> datetime:
        if value is None:
            self.fail(f"{path} must not be null")
            return _EPOCH
        try:
            return parse_time(value)
        except ValueError as error:
            self.fail(f"{path} {error}")
            return _EPOCH


def parse_time(value: Any) -> datetime:
    """A time in UTC, from ISO 8601 with a time zone or Unix time in seconds or milliseconds.

    Raises:
        ValueError: the message names the expected format.
    """
    try:
        time = _unix_time(value) if isinstance(value, int | float) else _iso_time(value)
        # The range that the store supports.
        if not 1 < time.year < 9999:
            raise ValueError
        return time
    except (ValueError, TypeError, OverflowError):
        raise ValueError("must be an ISO 8601 time with a time zone") from None


def _unix_time(value: float) -> datetime:
    if isinstance(value, bool):
        raise ValueError
    # Values after the year 5138 in seconds are milliseconds. Not divided: that would round.
    if abs(value) >= 1e11:
        return _EPOCH + timedelta(milliseconds=value)
    return _EPOCH + timedelta(seconds=value)


def _iso_time(value: str) -> datetime:
    # RFC 3339 allows a small `z`.
    text = re.sub("z$", "Z", _ZONE.sub("", value))
    time = datetime.fromisoformat(_FRACTION.sub(r"\1", text))
    if time.tzinfo is None:
        raise ValueError
    return time.astimezone(UTC)
