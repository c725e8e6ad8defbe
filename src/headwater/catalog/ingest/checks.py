"""Checks of single values. Each notes what is wrong with its path and goes on, so that one answer
names every mistake of an event."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard
from uuid import UUID

from headwater.catalog.ingest.bad_event import BadEventError

# Long enough for any path or query name that is met; short enough for an answer to stay small.
MAX_NAME_CHARACTERS = 2048
_MAX_ERRORS = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ID = UUID(int=0)
# Beyond microseconds a clock's digits are cut: PostgreSQL keeps six.
_FRACTION = re.compile(r"(\.\d{6})\d+")


class Checks:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def fail(self, message: str) -> None:
        if len(self.errors) < _MAX_ERRORS:
            self.errors.append(message)

    def raise_any(self) -> None:
        """Raises:
        BadEventError: something was wrong.
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
        """Facets by name; a facet that is null counts as not sent."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fail(f"{path} must be an object")
            return {}
        for name in value:
            if not self.is_name(name):
                self.fail(f"{path} has a facet with an unusable name")
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
            self.fail(f"{path} must not hold a NUL character")
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
        found = self.uuid_or_none(value)
        if found is None:
            self.fail(f"{path} must be a UUID")
            return _NO_ID
        return found

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
    """An instant, in UTC: ISO 8601 with a zone, or the time since 1970 in s or ms.

    Raises:
        ValueError: says what a time has to look like.
    """
    try:
        found = _since_1970(value) if isinstance(value, int | float) else _iso(value)
        # The store keeps instants between these; further ones are mistakes.
        if not 1 < found.year < 9999:
            raise ValueError
        return found
    except (ValueError, TypeError, OverflowError):
        raise ValueError("must be an ISO 8601 time with a zone") from None


def _since_1970(value: float) -> datetime:
    if isinstance(value, bool):
        raise ValueError
    # Beyond the year 5138 in seconds: those are milliseconds. No division: it would round.
    if abs(value) >= 1e11:
        return _EPOCH + timedelta(milliseconds=value)
    return _EPOCH + timedelta(seconds=value)


def _iso(value: str) -> datetime:
    found = datetime.fromisoformat(_FRACTION.sub(r"\1", value))
    if found.tzinfo is None:
        raise ValueError
    return found.astimezone(UTC)
