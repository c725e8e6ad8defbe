"""A report as facets of a dataset: OpenLineage's two, and one of our own for what they lack.

All three stand in `facets` of the dataset, which the catalog keeps with the version that a run has
written. Counts are those of the run so far.
"""

from __future__ import annotations

from headwater.openlineage.facets import Facet, official, own
from headwater.spark.measures.expectation import Expectation
from headwater.spark.measures.quality_report import (
    ColumnFigures,
    Measured,
    Outcome,
    Report,
    number_or_text,
)

METRICS = "dataQualityMetrics"
ASSERTIONS = "dataQualityAssertions"
OWN = "headwater_quality"

# Of the sketches: one standard error, relative, with 2^10 registers.
DISTINCT_ERROR = 0.033
# OpenLineage's word for a test that blocks.
_SEVERITY = {"warn": "warn", "fail": "error"}


def facets_of(report: Report) -> dict[str, Facet]:
    """By name; without metrics as long as nothing was measured."""
    found = {}
    if report.measured:
        found[METRICS] = _metrics(report)
        found[OWN] = _own(report)
    assertions = _assertions(report)
    if assertions:
        found[ASSERTIONS] = official(
            "DataQualityAssertionsDatasetFacet", "1-1-0", assertions=assertions
        )
    return found


def _metrics(report: Report) -> Facet:
    columns = {
        column.name: _column(figures, report.rows)
        for column, figures in zip(report.columns, report.figures, strict=True)
    }
    # A reader of this facet alone must not take an estimate for a count.
    return official(
        "DataQualityMetricsDatasetFacet",
        "1-0-0",
        rowCount=report.rows,
        columnMetrics=columns,
        distinctCountIsApproximate=True if _has_estimates(report) else None,
    )


def _column(figures: ColumnFigures, rows: int) -> Facet:
    low, _ = number_or_text(figures.low)
    high, _ = number_or_text(figures.high)
    known = {
        "nullCount": figures.nulls(rows),
        "count": figures.values,
        "distinctCount": figures.distinct,
        "min": low,
        "max": high,
    }
    return {name: value for name, value in known.items() if value is not None}


def _assertions(report: Report) -> list[Facet]:
    if report.stopped_by is not None:
        # Rows were counted up to some point in each task: what else held is not known.
        return [_assertion(report.expectations[report.stopped_by], None)]
    if not report.measured:
        return []
    pairs = zip(report.expectations, report.outcomes, strict=True)
    return [_assertion(expectation, outcome) for expectation, outcome in pairs]


def _assertion(expectation: Expectation, outcome: Outcome | None) -> Facet:
    properties = dict(expectation.properties)
    if outcome is not None and outcome.undecided:
        properties["undecided"] = outcome.undecided
    if outcome is None:
        properties["endedTheWrite"] = True
    return {
        "assertion": expectation.kind,
        "success": outcome is not None and not outcome.broken,
        **({"column": expectation.column} if expectation.column is not None else {}),
        "severity": _SEVERITY[expectation.severity],
        **({"failures": outcome.broken} if outcome is not None else {}),
        **({"properties": properties} if properties else {}),
    }


def _own(report: Report) -> Facet:
    columns = {
        column.name: _own_column(column, figures)
        for column, figures in zip(report.columns, report.figures, strict=True)
    }
    estimates = {"approximate": True, "relativeError": DISTINCT_ERROR}
    return own(
        "QualityDatasetFacet",
        "1-0-0",
        measuredAs=report.name,
        batches=report.batches,
        columns=columns,
        distinctCounts=estimates if _has_estimates(report) else None,
        notMeasured=list(report.not_measured) or None,
    )


def _own_column(column: Measured, figures: ColumnFigures) -> Facet:
    _, low = number_or_text(figures.low)
    _, high = number_or_text(figures.high)
    known = {
        "type": column.type,
        "nanCount": figures.nan if column.not_a_number else None,
        "min": low,
        "max": high,
    }
    return {name: value for name, value in known.items() if value is not None}


def _has_estimates(report: Report) -> bool:
    return any(figures.distinct is not None for figures in report.figures)
