"""What measuring costs: time for each row with `observe` against the same rows without, and the
time of one look at a run's cost."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from headwater.bench.result import BenchResult, Figure, load_now, machine_now
from headwater.cost import CostMeter
from headwater.quality import Quality, in_range, in_set, matches, not_null, satisfies
from headwater.settings import Settings
from headwater.spark import create_session

_ROWS = 2_000_000
_REPEATS = 5
_LOOKS = 200

_PLAIN = "no observe"
_COUNT = "rows alone"
_EIGHT = "eight metrics"
_FULL = "six columns in full"
_EXPECTED = "eight expectations"

Contender = Callable[[DataFrame], DataFrame]


def measure(settings: Settings) -> BenchResult:
    """Microseconds that a row takes longer, on one core; medians of alternated rounds."""
    load = load_now()
    spark = create_session("bench_quality", settings)
    contenders = {
        _PLAIN: lambda rows: rows,
        _COUNT: _measured([], settings),
        # Rows; values, NaN, both bounds and distinct of one column, values and distinct of another.
        _EIGHT: _measured(["price", "title"], settings),
        _FULL: _measured(None, settings),
        _EXPECTED: _expecting(settings),
    }
    rows = _articles(spark)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(_REPEATS + 1):
        for name, contender in contenders.items():
            took = _time(contender(rows))
            # The first round compiles.
            if number:
                seconds[name].append(took)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    result = BenchResult("quality", _REPEATS)
    for name in (_COUNT, _EIGHT, _FULL, _EXPECTED):
        extra = (medians[name] - medians[_PLAIN]) / _ROWS * 1e6
        bar = 1.0 if name == _EIGHT else None
        result.figures.append(Figure(name, round(extra, 3), "µs per row", at_most=bar))
    plain = medians[_PLAIN] / _ROWS * 1e6
    result.figures += [
        Figure(f"{_PLAIN}, making the rows", round(plain, 3), "µs per row"),
        Figure("one look at the cost", round(_look(spark, settings), 2), "ms"),
    ]
    result.machine = machine_now(load)
    return result


def _articles(spark: SparkSession) -> DataFrame:
    """Rows that cost little to make, in one task: what is measured is one core's time."""
    return spark.range(0, _ROWS, 1, 1).selectExpr(
        "id",
        "id % 1000 / 7.0D AS price",
        "concat('article ', cast(id % 5000 AS string)) AS title",
        "timestamp_seconds(1700000000 + id) AS published",
        "if(id % 10 = 0, null, cast(id % 3 AS string)) AS kind",
        "id % 2 = 0 AS paid",
    )


def _measured(columns: list[str] | None, settings: Settings) -> Contender:
    return lambda rows: Quality("bench", columns=columns, settings=settings).measure(rows)


def _expecting(settings: Settings) -> Contender:
    expectations = [
        not_null("id"),
        not_null("kind"),
        in_range("price", 0, 100),
        in_range("id", 0, None),
        in_set("kind", ["0", "1", "2"]),
        matches("title", "^article [0-9]+$"),
        satisfies("paid OR price < 50"),
        satisfies("length(title) < 100"),
    ]
    return lambda rows: Quality("bench", expectations, columns=[], settings=settings).measure(rows)


def _time(rows: DataFrame) -> float:
    began = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _look(spark: SparkSession, settings: Settings) -> float:
    meter = CostMeter(spark, "bench", settings)
    with meter.counting():
        spark.range(10).write.format("noop").mode("overwrite").save()
    took = []
    for _ in range(_LOOKS):
        began = time.perf_counter()
        meter.usage()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000
