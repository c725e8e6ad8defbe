"""A report as facets of a dataset: two of OpenLineage, and one of Headwater for the rest.

All three are in `facets` of the dataset, which the catalog stores with the version that the run
wrote. Counts are totals of the run.
"""

from __future__ import annotations

from headwater.openlineage.facets import Facet, official, own
from headwater.spark.measures.expectation import Expectation
from headwater.spark.measures.quality_report import (
    ColumnMetrics,
    ExpectationResult,
    Measured,
    Report,
    number_or_text,
)

METRICS = "dataQualityMetrics"
ASSERTIONS = "dataQualityAssertions"
OWN = "headwater_quality"

# Relative standard error of sketches with 2^10 registers.
DISTINCT_ERROR = 0.033
# OpenLineage's names; `error` is a blocking test.
_SEVERITY = {"warn": "warn", "fail": "error"}


def facets_of(report: Report) -> dict[str, Facet]:
    """The facets by name; without metrics if nothing was measured."""
    facets = {}
    if report.measured:
        facets[METRICS] = _metrics(report)
        facets[OWN] = _own(report)
    assertions = _assertions(report)
    if assertions:
        facets[ASSERTIONS] = official(
            "DataQualityAssertionsDatasetFacet", "1-1-0", assertions=assertions
        )
    return facets


def _metrics(report: Report) -> Facet:
    columns = {
        column.name: _column(metrics, report.rows)
        for column, metrics in zip(report.columns, report.column_metrics, strict=True)
    }
    # So that consumers of this facet do not take the estimate for an exact count.
    return official(
        "DataQualityMetricsDatasetFacet",
        "1-0-0",
        rowCount=report.rows,
        columnMetrics=columns,
        distinctCountIsApproximate=True if _has_estimates(report) else None,
    )


def _column(metrics: ColumnMetrics, rows: int) -> Facet:
    low, _ = number_or_text(metrics.low)
    high, _ = number_or_text(metrics.high)
    known = {
        "nullCount": metrics.nulls(rows),
        "count": metrics.values,
        "distinctCount": metrics.distinct,
        "min": low,
        "max": high,
    }
    return {name: value for name, value in known.items() if value is not None}


def _assertions(report: Report) -> list[Facet]:
    if report.stopped_by is not None:
        # Each task counted only part of its rows: other results are unknown.
        return [_assertion(report.expectations[report.stopped_by], None)]
    if not report.measured:
        return []
    pairs = zip(report.expectations, report.results, strict=True)
    return [_assertion(expectation, result) for expectation, result in pairs]


def _assertion(expectation: Expectation, result: ExpectationResult | None) -> Facet:
    properties = dict(expectation.properties)
    if result is not None and result.undecided:
        properties["undecided"] = result.undecided
    if result is None:
        properties["endedTheWrite"] = True
    return {
        "assertion": expectation.kind,
        "success": result is not None and not result.violations,
        **({"column": expectation.column} if expectation.column is not None else {}),
        "severity": _SEVERITY[expectation.severity],
        **({"failures": result.violations} if result is not None else {}),
        **({"properties": properties} if properties else {}),
    }


def _own(report: Report) -> Facet:
    columns = {
        column.name: _own_column(column, metrics)
        for column, metrics in zip(report.columns, report.column_metrics, strict=True)
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


def _own_column(column: Measured, metrics: ColumnMetrics) -> Facet:
    _, low = number_or_text(metrics.low)
    _, high = number_or_text(metrics.high)
    known = {
        "type": column.type,
        "nanCount": metrics.nan if column.not_a_number else None,
        "min": low,
        "max": high,
    }
    return {name: value for name, value in known.items() if value is not None}


def _has_estimates(report: Report) -> bool:
    return any(metrics.distinct is not None for metrics in report.column_metrics)
