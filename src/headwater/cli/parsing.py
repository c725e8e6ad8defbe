"""Parses option values: times and ranges."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from headwater.errors import InputError

_BATCHES = re.compile(r"(?P<first>[0-9]{1,18})(\.\.(?P<last>[0-9]{1,18}))?")


def parse_time(text: str | None, option: str) -> datetime | None:
    """A time in ISO 8601; without a zone it is UTC, as everywhere in Headwater.

    Raises:
        InputError: not a time; the message names the option.
    """
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{option}: not a time: {text!r}", hint="such as 2024-01-01T08:18:00Z"
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_batches(text: str) -> tuple[int, int]:
    """Micro-batches `3` or `3..7`, both ends included.

    Raises:
        InputError: not a range.
    """
    match = _BATCHES.fullmatch(text)
    first = int(match["first"]) if match else 0
    last = int(match["last"] or first) if match else -1
    if last < first:
        raise InputError(f"--batches: not a range: {text!r}", hint="such as `3` or `3..7`")
    return first, last
