"""Results of measured rows, added up over micro-batches. Needs no Spark.

Metrics are one flat object of numbers and texts. `rows` is the row count; metrics of the column or
expectation with number N have the prefix `cN_` or `eN_`, so that column names can't clash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headwater.spark.measures.expectation import Expectation

Metrics = Mapping[str, Any]
Bounds = float | int | str

ROWS = "rows"
_DAY, _PERIOD_DAYS = 86_400_000_000, 146_097


def key(kind: str, number: int, what: str) -> str:
    """The name of a metric: `c0_values`, `e2_broken`."""
    return f"{kind}{number}_{what}"


@dataclass(frozen=True)
class Measured:
    """A column, and which metrics its type supports."""

    name: str
    type: str
    distinct: bool = False
    bounds: bool = False
    not_a_number: bool = False


@dataclass
class ColumnMetrics:
    """Metrics of a column. `distinct` is an estimate."""

    values: int = 0
    nan: int = 0
    distinct: int | None = None
    low: Bounds | None = None
    high: Bounds | None = None

    def nulls(self, rows: int) -> int:
        return rows - self.values


@dataclass
class ExpectationResult:
    """Result of an expectation: rows that violate it, and rows that could not be checked."""

    violations: int = 0
    undecided: int = 0


@dataclass
class Report:
    """All results under one name since the start of a run."""

    name: str
    columns: Sequence[Measured]
    expectations: Sequence[Expectation]
    not_measured: Sequence[str] = ()
    rows: int = 0
    batches: int = 0
    column_metrics: list[ColumnMetrics] = field(default_factory=list)
    results: list[ExpectationResult] = field(default_factory=list)
    # The number of the expectation that stopped the write; other results are then unknown.
    stopped_by: int | None = None

    def __post_init__(self) -> None:
        self.column_metrics = self.column_metrics or [ColumnMetrics() for _ in self.columns]
        self.results = self.results or [ExpectationResult() for _ in self.expectations]

    @property
    def measured(self) -> bool:
        return self.batches > 0

    def add(self, metrics: Metrics) -> None:
        """Add the metrics of one batch. Distinct counts can't be added: see `add_distinct`."""
        self.batches += 1
        self.rows += metrics[ROWS]
        for number, (column, measured) in enumerate(
            zip(self.column_metrics, self.columns, strict=True)
        ):
            column.values += metrics[key("c", number, "values")]
            column.nan += metrics.get(key("c", number, "nan")) or 0
            bounds = (metrics.get(key("c", number, end)) for end in ("low", "high"))
            low, high = (_bound(value, measured.type) for value in bounds)
            column.low = _outer(min, column.low, low)
            column.high = _outer(max, column.high, high)
        for number, result in enumerate(self.results):
            result.violations += metrics[key("e", number, "broken")]
            result.undecided += metrics.get(key("e", number, "undecided")) or 0

    def add_distinct(self, estimates: Sequence[float]) -> None:
        """Set the estimates over all batches of the columns that have one, in column order."""
        pairs = zip(self.column_metrics, self.columns, strict=True)
        counted = [metrics for metrics, column in pairs if column.distinct]
        for metrics, estimate in zip(counted, estimates, strict=True):
            # The estimate may exceed the exact number of values.
            metrics.distinct = min(round(estimate), metrics.values)

    def violated(self) -> list[tuple[Expectation, ExpectationResult]]:
        """Expectations that some rows violate."""
        pairs = zip(self.expectations, self.results, strict=True)
        return [(expectation, result) for expectation, result in pairs if result.violations]


def _bound(value: Bounds | None, kind: str) -> Bounds | None:
    if kind == "timestamp" and isinstance(value, int):
        return utc_time(value)
    # JSON has no infinity, so Spark writes text.
    return float(value) if value in ("Infinity", "-Infinity") else value


def utc_time(micros: int) -> str:
    """Microseconds since 1970 as `2026-01-31 23:59:59.5`, in UTC."""
    days, of_day = divmod(micros, _DAY)
    # Spark's years exceed those of Python; the calendar repeats after 400 years.
    periods, days = divmod(days, _PERIOD_DAYS)
    time = datetime(1970, 1, 1) + timedelta(days, microseconds=of_day)  # noqa: DTZ001
    year = time.year + 400 * periods
    fraction = f".{time.microsecond:06}".rstrip("0") if time.microsecond else ""
    return f"{'+' if year > 9999 else ''}{year:04}{time:-%m-%d %H:%M:%S}{fraction}"


def _outer(choose: Any, known: Bounds | None, new: Bounds | None) -> Bounds | None:
    if known is None or new is None:
        return new if known is None else known
    chosen: Bounds = choose(known, new)
    return chosen


def number_or_text(value: Bounds | None) -> tuple[float | int | None, str | None]:
    """A bound as a number if JSON can represent it, else as text."""
    if value is None:
        return None, None
    if isinstance(value, str) or not math.isfinite(value):
        return None, str(value)
    return value, None
