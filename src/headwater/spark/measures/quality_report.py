"""What was measured on rows while they were written: added up over micro-batches, without Spark.

Metrics come as one flat object of numbers and texts. `rows` counts rows; what belongs to the column
or the expectation with number N starts with `cN_` or `eN_`, so that no name of a column can clash.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.spark.measures.expectation import Expectation

Metrics = Mapping[str, Any]
Bounds = float | int | str

ROWS = "rows"


def key(kind: str, number: int, what: str) -> str:
    """The name of a metric: `c0_values`, `e2_broken`."""
    return f"{kind}{number}_{what}"


@dataclass(frozen=True)
class Measured:
    """A column, and what can be measured of its type."""

    name: str
    type: str
    distinct: bool = False
    bounds: bool = False
    not_a_number: bool = False


@dataclass
class ColumnFigures:
    """What is known of a column. `distinct` is an estimate."""

    values: int = 0
    nan: int = 0
    distinct: int | None = None
    low: Bounds | None = None
    high: Bounds | None = None

    def nulls(self, rows: int) -> int:
        return rows - self.values


@dataclass
class Outcome:
    """Of an expectation: rows that broke it, and rows for which it could not be decided."""

    broken: int = 0
    undecided: int = 0


@dataclass
class Report:
    """All that was measured under one name, since the start of a run."""

    name: str
    columns: Sequence[Measured]
    expectations: Sequence[Expectation]
    not_measured: Sequence[str] = ()
    rows: int = 0
    batches: int = 0
    figures: list[ColumnFigures] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    # The number of the expectation that ended the write, and nothing else is known then.
    stopped_by: int | None = None

    def __post_init__(self) -> None:
        self.figures = self.figures or [ColumnFigures() for _ in self.columns]
        self.outcomes = self.outcomes or [Outcome() for _ in self.expectations]

    @property
    def measured(self) -> bool:
        return self.batches > 0

    def add(self, metrics: Metrics) -> None:
        """Add what one batch has told. Distinct values can't be added: see `add_distinct`."""
        self.batches += 1
        self.rows += metrics[ROWS]
        for number, figures in enumerate(self.figures):
            figures.values += metrics[key("c", number, "values")]
            figures.nan += metrics.get(key("c", number, "nan")) or 0
            low, high = (_bound(metrics.get(key("c", number, end))) for end in ("low", "high"))
            figures.low = _outer(min, figures.low, low)
            figures.high = _outer(max, figures.high, high)
        for number, outcome in enumerate(self.outcomes):
            outcome.broken += metrics[key("e", number, "broken")]
            outcome.undecided += metrics.get(key("e", number, "undecided")) or 0

    def add_distinct(self, estimates: Sequence[float]) -> None:
        """Estimates over all batches so far, for the columns that have one, in their order."""
        counted = [
            f for f, column in zip(self.figures, self.columns, strict=True) if column.distinct
        ]
        for figures, estimate in zip(counted, estimates, strict=True):
            # A sketch knows less than the count beside it: there are no more values than that.
            figures.distinct = min(round(estimate), figures.values)

    def broken(self) -> list[tuple[Expectation, Outcome]]:
        """Expectations that some rows broke."""
        pairs = zip(self.expectations, self.outcomes, strict=True)
        return [(expectation, outcome) for expectation, outcome in pairs if outcome.broken]


def _bound(value: Bounds | None) -> Bounds | None:
    # JSON has no word for these, so Spark writes text.
    return float(value) if value in ("Infinity", "-Infinity") else value


def _outer(choose: Any, known: Bounds | None, new: Bounds | None) -> Bounds | None:
    if known is None or new is None:
        return new if known is None else known
    chosen: Bounds = choose(known, new)
    return chosen


def number_or_text(value: Bounds | None) -> tuple[float | int | None, str | None]:
    """A bound as a number, if JSON has one for it, or else as text."""
    if value is None:
        return None, None
    if isinstance(value, str) or not math.isfinite(value):
        return None, str(value)
    return value, None
