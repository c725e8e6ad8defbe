"""Durations as text, such as `2 minutes`."""

from __future__ import annotations

import re
from datetime import timedelta

from headwater.errors import InputError

_UNITS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
_SPAN = re.compile(rf"(?P<count>-?\d{{1,9}}) (?P<unit>{'|'.join(_UNITS)})s?")
_ZERO = timedelta()


def parse_span(
    span: str | timedelta, option: str, *, minimum: timedelta | None = None
) -> timedelta:
    """Parse a duration such as `2 minutes` or `-30 seconds`.

    Args:
        option: the option or argument that has the text.

    Raises:
        InputError: names the option and the text.
    """
    if isinstance(span, timedelta):
        parsed = span
    else:
        match = _SPAN.fullmatch(span.strip())
        if match is None:
            raise InputError(
                f"{option}: not a duration: {span!r}",
                hint=f"use a number and one of {', '.join(_UNITS)}, such as `2 minutes`",
            )
        parsed = timedelta(seconds=int(match["count"]) * _UNITS[match["unit"]])
    if minimum is not None and parsed < minimum:
        raise InputError(
            f"{option} can't be less than {span_text(minimum)}: {span_text(parsed)}",
            hint="use a longer duration, such as `2 minutes`",
        )
    return parsed


def not_negative(span: str | timedelta, option: str) -> timedelta:
    """Parse a duration of zero or more."""
    return parse_span(span, option, minimum=_ZERO)


def span_text(span: timedelta) -> str:
    """A duration in the largest unit without a remainder: `2 minutes`, `90 seconds`."""
    total = millis(span)
    if total == 0:
        return "0 seconds"
    for unit, seconds in reversed(_UNITS.items()):
        count, rest = divmod(total, round(seconds * 1000))
        if rest == 0:
            return f"{count} {unit}" + ("" if abs(count) == 1 else "s")
    return f"{total} milliseconds"


def millis(span: timedelta) -> int:
    """In milliseconds, the resolution of Spark's watermarks."""
    return round(span / timedelta(milliseconds=1))
