"""Quality is measured in the pass that writes, for all kinds of columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import ExpectationFailedError, InputError
from headwater.openlineage.events import DatasetName, Event
from headwater.openlineage.run import LineageRun
from headwater.quality import (
    Quality,
    Report,
    enforced,
    in_range,
    in_set,
    matches,
    not_null,
    read_once,
    satisfies,
)
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.spark.query_runner import QueryRun, StopSignal, run_until_stopped

pytestmark = pytest.mark.spark

SCHEMA = (
    "id bigint, price double, `odd.name` int, `with space` string, `back``tick` string, "
    "amount decimal(38,18), nothing string, tags array<string>, place struct<city:string>, "
    "at timestamp, day date, flag boolean"
)
LARGE = Decimal("9" * 20 + ".5")
AT = datetime(2024, 1, 1, 8, 18, 0, 250_000, tzinfo=UTC)
ROWS: list[tuple[Any, ...]] = [
    (1, 1.5, 1, "a", "x1", LARGE, None, ["t"], ("Bern",), AT, date(2024, 1, 1), True),
    (2, float("nan"), 2, "b", "x2", Decimal(1), None, [], (None,), AT, date(2024, 1, 3), False),
    (2, None, 7, "7", "no", None, None, None, None, None, None, None),
    (None, -4.0, None, None, "x3", Decimal(2), None, ["t"], ("Bern",), AT, date(2023, 1, 1), True),
    (4, float("inf"), 2, "zz", None, Decimal(3), None, ["u"], ("Biel",), AT, None, True),
]
EXPECTATIONS = [
    not_null("id"),
    not_null("nothing"),
    in_range("price", 0, None),
    in_range("odd.name", 1, 2),
    # `with space` is text: 'a' is not a number, which is counted and fails nothing.
    in_range("with space", 0, 10),
    matches("back`tick", r"^x\d$"),
    in_set("with space", ["a", "b", "7"]),
    # 10^40 overflows: without `Attempt`, Spark would fail the write.
    satisfies("amount * amount > 2", name="large enough"),
    satisfies("cast(`with space` as int) > 6"),
    satisfies("place.city = 'Bern' AND size(tags) > 0"),
    in_range("at", "2024-01-01", datetime(2024, 12, 31, tzinfo=UTC)),
    in_range("day", date(2024, 1, 1), None),
]
VIOLATIONS = [1, 5, 2, 1, 0, 1, 1, 1, 0, 2, 0, 1]
UNDECIDED = [0, 0, 0, 0, 3, 0, 0, 2, 4, 1, 0, 0]

Save = Callable[[DataFrame], None]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA)


def noop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def results(report: Report) -> tuple[list[int], list[int]]:
    violations = [each.violations for each in report.results]
    return violations, [each.undecided for each in report.results]


@pytest.mark.lines
def test_all_kinds_of_columns_are_measured_and_all_expectations_counted(
    rows: DataFrame, headwater_settings: Settings, tmp_path: Path
) -> None:
    quality = Quality("all kinds", EXPECTATIONS, settings=headwater_settings)
    # Spark 3.5 has another default: there, the size of null is -1.
    with configured(rows.sparkSession, {"spark.sql.ansi.enabled": "true"}):
        measured = quality.measure(rows)
        assert (measured.columns, measured.schema) == (rows.columns, rows.schema)
        measured.write.parquet(str(tmp_path / "files"))
    report = quality.report()
    assert (report.rows, report.batches, report.not_measured) == (5, 1, [])
    assert results(report) == (VIOLATIONS, UNDECIDED)
    pairs = zip(report.columns, report.column_metrics, strict=True)
    metrics = {column.name: each for column, each in pairs}
    assert {name: each.nulls(report.rows) for name, each in metrics.items()} == {
        "id": 1,
        "price": 1,
        "odd.name": 1,
        "with space": 1,
        "back`tick": 1,
        "amount": 1,
        "nothing": 5,
        "tags": 1,
        "place": 1,
        "at": 1,
        "day": 2,
        "flag": 1,
    }
    assert {name: each.distinct for name, each in metrics.items()} == {
        "id": 3,
        "price": 4,
        "odd.name": 3,
        "with space": 4,
        "back`tick": 4,
        "amount": 4,
        "nothing": 0,
        "tags": None,
        "place": None,
        "at": 1,
        "day": 3,
        "flag": 2,
    }
    price, amount = metrics["price"], metrics["amount"]
    assert (price.nan, price.low, price.high) == (1, -4.0, float("inf"))
    assert amount.low == 1
    assert amount.high == pytest.approx(1e20)
    assert (metrics["day"].low, metrics["day"].high) == ("2023-01-01", "2024-01-03")
    assert metrics["at"].low == "2024-01-01 08:18:00.25"
    assert (metrics["nothing"].low, metrics["with space"].high) == (None, None)


def test_a_report_becomes_facets_of_the_dataset_in_the_events_of_a_run(
    rows: DataFrame, headwater_settings: Settings
) -> None:
    events: list[Event] = []
    table = DatasetName("file", "/tables/articles")
    run = LineageRun(events.append, "tests", "batch", "6b1f0c1e-0000-4000-8000-000000000000")
    run.start(outputs=[table.dataset()])
    quality = Quality("a batch", EXPECTATIONS[:3], columns=["id"], settings=headwater_settings)
    noop(quality.measure(rows))
    quality.add_facets(run, table)
    run.complete()
    (output,) = events[-1]["outputs"]
    facets = output["facets"]
    assert facets["dataQualityMetrics"]["columnMetrics"] == {
        "id": {"nullCount": 1, "count": 4, "distinctCount": 3, "min": 1, "max": 4}
    }
    assertions = facets["dataQualityAssertions"]["assertions"]
    assert [each["failures"] for each in assertions] == VIOLATIONS[:3]
    assert facets["headwater_quality"]["measuredAs"] == "a batch"
    json.dumps(events, allow_nan=False)


def test_a_report_of_no_rows_has_no_bounds(rows: DataFrame, headwater_settings: Settings) -> None:
    quality = Quality("empty", EXPECTATIONS, settings=headwater_settings)
    noop(quality.measure(rows.where("id > 100")))
    report = quality.report()
    assert (report.rows, report.batches) == (0, 1)
    assert results(report) == ([0] * 12, [0] * 12)
    assert {(f.low, f.distinct) for f in report.column_metrics} == {(None, 0), (None, None)}


def test_the_first_columns_are_measured_and_the_others_are_named(
    spark: SparkSession, headwater_settings: Settings
) -> None:
    wide = spark.range(3).select(*(F.col("id").alias(f"c{n}") for n in range(200)))
    quality = Quality("wide", [in_range("c199", 0, 1)], settings=headwater_settings)
    noop(quality.measure(wide))
    report = quality.report()
    assert [column.name for column in report.columns] == [f"c{n}" for n in range(40)]
    assert report.not_measured == [f"c{n}" for n in range(40, 200)]
    assert results(report) == ([1], [0])


def test_ambiguous_columns_are_not_measured(
    spark: SparkSession, headwater_settings: Settings
) -> None:
    twice = spark.range(2).selectExpr("id", "id AS same", "id AS same", "id AS a", "id AS A")
    quality = Quality("twice", settings=headwater_settings)
    noop(quality.measure(twice))
    assert [column.name for column in quality.report().columns] == ["id"]
    assert quality.report().not_measured == ["same", "a", "A"]


@pytest.mark.parametrize(
    ("expectation", "what"),
    [
        (not_null("nowhere"), "no column 'nowhere'"),
        (not_null("place.city"), "no column 'place.city'"),
        (satisfies("nowhere > 1"), "satisfies\\(nowhere > 1\\) can't be evaluated"),
        (satisfies("id >"), "satisfies\\(id >\\) can't be evaluated"),
        (satisfies("id + 1"), "must be boolean, got bigint"),
        (matches("id", "("), "has an invalid regular expression: Unclosed group"),
    ],
)
def test_an_invalid_expectation_is_refused_before_a_query_runs(
    rows: DataFrame, headwater_settings: Settings, expectation: Any, what: str
) -> None:
    with pytest.raises(InputError, match=what):
        Quality("refused", [expectation], settings=headwater_settings).measure(rows)


def test_a_row_that_violates_a_fail_expectation_stops_the_write(
    rows: DataFrame, headwater_settings: Settings, tmp_path: Path
) -> None:
    expectations = [not_null("odd.name"), in_range("price", -10, None, severity="fail")]
    good = Quality("good", expectations, settings=headwater_settings)
    with enforced(good):
        noop(good.measure(rows.where("NOT isnan(price)")))
    assert results(good.report()) == ([1, 0], [0, 0])
    bad = Quality("bad", expectations, settings=headwater_settings)
    with (
        pytest.raises(
            ExpectationFailedError, match=r"bad: a row violates in_range\(price"
        ) as error,
        enforced(bad),
    ):
        bad.measure(rows).write.parquet(str(tmp_path / "files"))
    assert error.value.attributes["expectation"] == "in_range(price, -10, None)"
    assert bad.report().stopped_by == 1
    assert list((tmp_path / "files").glob("*.parquet")) == []


def numbers(folder: Path, name: str, first: int, last: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = (json.dumps({"id": number, "text": str(number % 7)}) for number in range(first, last))
    (folder / name).write_text("\n".join(lines))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema("id bigint, text string").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def test_a_stream_is_measured_over_batches_and_rows_that_are_read_twice_count_once(
    spark: SparkSession, headwater_settings: Settings, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    numbers(source, "1.json", 0, 3000)
    numbers(source, "2.json", 2000, 5000)

    def write(batch: DataFrame, number: int) -> None:
        # Like a MERGE.
        with read_once(batch) as cached:
            noop(cached)
            noop(cached)

    def run(name: str) -> Report:
        quality = Quality(name, [in_range("id", 10, None)], settings=headwater_settings)
        query = (
            quality.measure(stream(spark, source))
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        run = QueryRun("-", StopSignal(), quality.add_progress)
        run_until_stopped(query, run, headwater_settings)
        return quality.report()

    first = run("first start")
    assert (first.rows, first.batches, first.results[0].violations) == (6000, 2, 10)
    ids, texts = first.column_metrics
    assert (ids.low, ids.high, texts.distinct) == (0, 4999, 7)
    # In both batches: 5,000 within three standard errors.
    assert ids.distinct == pytest.approx(5000, rel=0.1)
    numbers(source, "3.json", 5000, 5100)
    again = run("second start")
    assert (again.rows, again.batches, again.results[0].violations) == (100, 1, 0)
