"""Expectations of rows. Plain values: `quality_columns` turns them into Spark columns.

A null violates only `not_null`, as in a CHECK constraint of SQL.
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
# For longer lists, join with a table.
MAX_VALUES = 1000


@dataclass(frozen=True)
class Expectation:
    """A condition for each row; created by the functions below.

    With severity `warn`, rows that violate it are counted. With `fail`, the first one stops the
    write.
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
        """For messages, such as `in_range(price, 0, None)`."""
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
        """The parameters, for a facet."""
        parameters = {
            "low": _plain(self.low),
            "high": _plain(self.high),
            "pattern": self.pattern,
            "values": [_plain(value) for value in self.values] or None,
            "sql": self.sql,
            "name": self.label,
        }
        return {name: value for name, value in parameters.items() if value is not None}


def not_null(column: str, *, severity: Severity = "warn", name: str | None = None) -> Expectation:
    """The column is not null."""
    return Expectation("not_null", column, severity, label=name)


def in_range(
    column: str,
    low: Bound | None,
    high: Bound | None,
    *,
    severity: Severity = "warn",
    name: str | None = None,
) -> Expectation:
    """The value is between the bounds, both included; None means unbounded. NaN is outside."""
    if low is None and high is None:
        raise InputError(f"in_range({column}) has no bound", hint="set `low`, `high` or both")
    for bound in (low, high):
        if isinstance(bound, float) and math.isnan(bound):
            raise InputError(f"in_range({column}): NaN can't be a bound")
    return Expectation("in_range", column, severity, low=low, high=high, label=name)


def matches(
    column: str, pattern: str, *, severity: Severity = "warn", name: str | None = None
) -> Expectation:
    """The value, as text, contains a match of the Java regular expression, or is one with `^…$`."""
    return Expectation("matches", column, severity, pattern=pattern, label=name)


def in_set(
    column: str,
    values: Iterable[Value],
    *,
    severity: Severity = "warn",
    name: str | None = None,
) -> Expectation:
    """The value is one of these."""
    allowed = tuple(values)
    if not allowed or len(allowed) > MAX_VALUES:
        raise InputError(
            f"in_set({column}) has {len(allowed)} values",
            hint=f"use 1 to {MAX_VALUES}; for more, join with a table and use `not_null`",
        )
    if any(value is None for value in allowed):
        raise InputError(
            f"in_set({column}) lists None", hint="a null never violates it; leave None out"
        )
    return Expectation("in_set", column, severity, values=allowed, label=name)


def satisfies(sql: str, *, severity: Severity = "warn", name: str | None = None) -> Expectation:
    """A boolean Spark SQL expression over the row is true, such as `ends_at > starts_at`."""
    if not sql.strip():
        raise InputError("satisfies needs an expression", hint="such as `ends_at > starts_at`")
    return Expectation("satisfies", None, severity, sql=sql, label=name)


def _plain(value: Bound | Value | None) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.isoformat() if isinstance(value, date) else str(value)
