"""Expectations and reports, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from decimal import Decimal
from importlib import resources
from typing import Any

import pytest

from headwater.errors import InputError
from headwater.quality import in_range, in_set, matches, not_null, satisfies
from headwater.spark.measures.quality_facets import facets_of
from headwater.spark.measures.quality_report import Measured, Report

PRICE = Measured("price", "double", distinct=True, bounds=True, not_a_number=True)
AT = Measured("at", "date", bounds=True)

WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import headwater.quality
from headwater.quality import Expectation
print(Expectation.__name__)
try:
    headwater.quality.Quality
except ImportError as error:
    print(error.name.partition(".")[0])
"""


def batch(rows: int, **metrics: Any) -> dict[str, Any]:
    return {"rows": rows, "c0_values": rows, "c1_values": rows, "e0_broken": 0, **metrics}


def own_schema(name: str) -> dict[str, Any]:
    text = resources.files("headwater").joinpath(f"catalog/facets/{name}.json").read_text()
    definitions: dict[str, Any] = json.loads(text)["$defs"]
    return definitions


def new_report() -> Report:
    return Report("articles", [PRICE, AT], [in_range("price", 0, None)], ["c200"])


def test_expectations_can_be_imported_without_pyspark() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Expectation", "pyspark"]


def test_batches_add_up_and_bounds_grow() -> None:
    report = new_report()
    report.add(batch(3, c0_values=2, c0_low=1.5, c0_high=9.0, c1_low="2024-02-01", e0_broken=1))
    report.add(batch(2, c0_nan=1, c0_low=-4.0, c0_high=2.0, c1_low="2024-01-01", e0_undecided=1))
    report.add(batch(0))
    report.add_distinct([3.2])
    assert (report.rows, report.batches) == (5, 3)
    price, at = report.column_metrics
    assert (price.nulls(report.rows), price.nan, price.low, price.high) == (1, 1, -4.0, 9.0)
    assert (price.distinct, at.low, at.high) == (3, "2024-01-01", None)
    assert [(each.text, result.violations) for each, result in report.violated()] == [
        ("in_range(price, 0, None)", 1)
    ]


def test_an_estimate_is_never_above_the_count_of_values() -> None:
    report = new_report()
    report.add(batch(100))
    report.add_distinct([101.7])
    assert report.column_metrics[0].distinct == 100


def test_facets_have_the_official_fields_and_mark_estimates() -> None:
    report = new_report()
    report.add(batch(4, c0_values=3, c0_low=0.5, c0_high="Infinity", c1_low="2024-01-01"))
    report.add(batch(0, c0_low=0.5, c0_high=2.0))
    report.add_distinct([2.0])
    facets = facets_of(report)
    metrics = facets["dataQualityMetrics"]
    assert metrics["rowCount"] == 4
    assert metrics["columnMetrics"] == {
        "price": {"nullCount": 1, "count": 3, "distinctCount": 2, "min": 0.5},
        "at": {"nullCount": 0, "count": 4},
    }
    assert metrics["distinctCountIsApproximate"] is True
    own = facets["headwater_quality"]
    assert own["columns"]["price"] == {"type": "double", "nanCount": 0, "max": "inf"}
    assert own["columns"]["at"] == {"type": "date", "min": "2024-01-01"}
    assert own["distinctCounts"] == {"approximate": True, "relativeError": 0.033}
    assert own["notMeasured"] == ["c200"]
    # An event is JSON, which has neither NaN nor infinity.
    json.dumps(facets, allow_nan=False)


def test_the_own_facet_has_the_properties_of_its_schema() -> None:
    report = new_report()
    report.add(batch(4, c0_low=0.5, c0_high="Infinity", c1_low="2024-01-01"))
    report.add_distinct([2.0])
    facet = facets_of(report)["headwater_quality"]
    defined = own_schema("QualityDatasetFacet")
    (content,) = defined["QualityDatasetFacet"]["allOf"][1:]
    assert facet.keys() - {"_producer", "_schemaURL"} == content["properties"].keys()
    columns = [set(each) for each in facet["columns"].values()]
    assert set.union(*columns) == defined["ColumnQuality"]["properties"].keys()


def test_an_assertion_has_the_number_of_violations_and_its_parameters() -> None:
    report = Report(
        "a", [], [in_range("price", Decimal("0.5"), None), satisfies("a < b", name="ab")]
    )
    report.add({"rows": 9, "e0_broken": 2, "e1_broken": 0, "e1_undecided": 4})
    assert facets_of(report)["dataQualityAssertions"]["assertions"] == [
        {
            "assertion": "in_range",
            "success": False,
            "column": "price",
            "severity": "warn",
            "failures": 2,
            "properties": {"low": "0.5"},
        },
        {
            "assertion": "satisfies",
            "success": True,
            "severity": "warn",
            "failures": 0,
            "properties": {"sql": "a < b", "name": "ab", "undecided": 4},
        },
    ]


def test_a_stopped_write_reports_only_the_reason() -> None:
    report = Report("a", [PRICE], [not_null("id"), not_null("price", severity="fail")])
    assert facets_of(report) == {}
    report.stopped_by = 1
    (name,) = facets_of(report)
    assert name == "dataQualityAssertions"
    assert facets_of(report)[name]["assertions"] == [
        {
            "assertion": "not_null",
            "success": False,
            "column": "price",
            "severity": "error",
            "properties": {"endedTheWrite": True},
        }
    ]


@pytest.mark.parametrize(
    ("expectation", "text"),
    [
        (not_null("id"), "not_null(id)"),
        (in_range("at", date(2024, 1, 1), None), "in_range(at, 2024-01-01, None)"),
        (matches("id", "^a"), "matches(id, ^a)"),
        (in_set("kind", ["a", "b"]), "in_set(kind, 2 values)"),
        (satisfies("a < b"), "satisfies(a < b)"),
        (satisfies("a < b", name="in order"), "in order"),
    ],
)
def test_an_expectation_has_a_short_text(expectation: Any, text: str) -> None:
    assert expectation.text == text
    json.dumps(expectation.properties, allow_nan=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: in_range("a", None, None),
        lambda: in_range("a", float("nan"), None),
        lambda: in_set("a", []),
        lambda: in_set("a", range(1001)),
        lambda: in_set("a", [1, None]),  # type: ignore[list-item]
        lambda: satisfies("  "),
        lambda: not_null("a", severity="stop"),  # type: ignore[arg-type]
    ],
)
def test_an_invalid_expectation_is_refused(make: Any) -> None:
    with pytest.raises(InputError):
        make()
