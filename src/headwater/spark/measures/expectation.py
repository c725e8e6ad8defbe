"""What rows are expected to be. Plain values: `measuring` makes Spark columns of them.

A null breaks `not_null` only, as in a CHECK of SQL: to forbid it, say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

from headwater.errors import InputError

Severity = Literal["warn", "fail"]
Bound = int | float | Decimal | date | datetime | str
Value = int | float | Decimal | date | datetime | str | bool

SEVERITIES = ("warn", "fail")
# Longer lists are a table's business: join with it.
MAX_VALUES = 1000


@dataclass(frozen=True)
class Expectation:
    """One thing that is expected of each row; made by the functions below.

    With the severity `warn` the rows that break it are counted. With `fail` the first one ends
    the write.
    """

    kind: str
    column: str | None = None
    severity: Severity = "warn"
    low: Bound | None = None
    high: Bound | None = None
    pattern: str | None = None
    values: tuple[Value, ...] = ()
    sql: str | None = None
    label: str | None = field(default=None)

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise InputError(
                f"{self.text}: unknown severity {self.severity!r}",
                hint=f"known: {', '.join(SEVERITIES)}",
            )

    @property
    def text(self) -> str:
        """How it is told to people, such as `in_range(price, 0, None)`."""
        if self.label is not None:
            return self.label
        if self.sql is not None:
            return f"{self.kind}({self.sql})"
        details = {
            "in_range": f", {self.low}, {self.high}",
            "matches": f", {self.pattern}",
            "in_set": f", {len(self.values)} values",
        }
        return f"{self.kind}({self.column}{details.get(self.kind, '')})"

    @property
    def properties(self) -> dict[str, Any]:
        """What was asked for, for a facet."""
        asked = {
            "low": _plain(self.low),
            "high": _plain(self.high),
            "pattern": self.pattern,
            "values": [_plain(value) for value in self.values] or None,
            "sql": self.sql,
            "name": self.label,
        }
        return {name: value for name, value in asked.items() if value is not None}


def not_null(column: str, *, severity: Severity = "warn", name: str | None = None) -> Expectation:
    """The column has a value."""
    return Expectation("not_null", column, severity, label=name)


def in_range(
    column: str,
    low: Bound | None,
    high: Bound | None,
    *,
    severity: Severity = "warn",
    name: str | None = None,
) -> Expectation:
    """The value lies between the bounds, both included; None is no bound. NaN is in no range."""
    if low is None and high is None:
        raise InputError(f"in_range({column}) has no bound", hint="give `low`, `high` or both")
    for bound in (low, high):
        if isinstance(bound, float) and math.isnan(bound):
            raise InputError(f"in_range({column}): NaN is no bound")
    return Expectation("in_range", column, severity, low=low, high=high, label=name)


def matches(
    column: str, pattern: str, *, severity: Severity = "warn", name: str | None = None
) -> Expectation:
    """The value, as text, holds the regular expression (Java's); `^…$` for the whole of it."""
    return Expectation("matches", column, severity, pattern=pattern, label=name)


def in_set(
    column: str,
    values: Iterable[Value],
    *,
    severity: Severity = "warn",
    name: str | None = None,
) -> Expectation:
    """The value is one of these."""
    given = tuple(values)
    if not given or len(given) > MAX_VALUES:
        raise InputError(
            f"in_set({column}) has {len(given)} values",
            hint=f"give 1 to {MAX_VALUES}; for more, join with a table and use `not_null`",
        )
    if any(value is None for value in given):
        raise InputError(
            f"in_set({column}) lists None", hint="a null never breaks it; leave None out"
        )
    return Expectation("in_set", column, severity, values=given, label=name)


def satisfies(sql: str, *, severity: Severity = "warn", name: str | None = None) -> Expectation:
    """A boolean expression of Spark SQL over the row holds, such as `ends_at > starts_at`."""
    if not sql.strip():
        raise InputError("satisfies needs an expression", hint="such as `ends_at > starts_at`")
    return Expectation("satisfies", None, severity, sql=sql, label=name)


def _plain(value: Bound | Value | None) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.isoformat() if isinstance(value, date) else str(value)
