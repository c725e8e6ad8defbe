"""The cost of quality measures: CPU time per row with `observe` compared with the same rows
without, and the time of the driver."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.quality import Quality, in_range, in_set, matches, not_null, satisfies
from headwater.settings import Settings
from headwater.spark.measures.quality_columns import aggregates, measured_columns
from headwater.spark.measures.run_measures import CostMeter
from headwater.spark.session import create_session

_ROWS = 2_000_000
_REPEATS = 5
_TIMES = 200

_PLAIN = "no observe"
_COUNT = "row count only"
_EIGHT = "eight metrics"
_FULL = "all measures of six columns"
_EXPECTED = "eight expectations"

Contender = Callable[[DataFrame], DataFrame]


def measure(settings: Settings) -> BenchResult:
    """Additional CPU microseconds per row from task metrics; medians of alternating rounds."""
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
            used = _cpu_seconds(contender(rows), f"{name} {number}", settings)
            # The first round compiles.
            if number:
                seconds[name].append(used)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    result = BenchResult("quality", _REPEATS)
    for name in (_COUNT, _EIGHT, _FULL, _EXPECTED):
        extra = (medians[name] - medians[_PLAIN]) / _ROWS * 1e6
        result.measurements.append(Measurement(name, round(extra, 3), "µs per row"))
    plain = medians[_PLAIN] / _ROWS * 1e6
    result.measurements += [
        Measurement(f"{_PLAIN}, creating the rows", round(plain, 3), "µs per row"),
        Measurement("adding up a batch, 40 columns", round(_add(spark, settings), 2), "ms"),
        Measurement("reading the cost", round(_read_cost(spark, settings), 2), "ms"),
    ]
    result.machine = machine_now(load)
    return result


def _articles(spark: SparkSession) -> DataFrame:
    """Rows that are cheap to create."""
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


def _cpu_seconds(rows: DataFrame, owner: str, settings: Settings) -> float:
    meter = CostMeter(rows.sparkSession, owner, settings)
    with meter.counting():
        rows.write.format("noop").mode("overwrite").save()
    return meter.usage(settled=True).cpu_nanos / 1e9


def _add(spark: SparkSession, settings: Settings) -> float:
    """Driver time per micro-batch: parsing observed metrics with full sketches."""
    columns = [f"id * {number} AS c{number}" for number in range(1, 41)]
    rows = spark.range(0, 100_000, 1, 1).selectExpr(*columns)
    quality = Quality("bench", columns=rows.columns, settings=settings)
    quality.measure(rows)
    measured, _ = measured_columns(rows, rows.columns, 0, distinct=True)
    (metrics,) = rows.agg(*aggregates(rows, measured, ())).toJSON().collect()
    progress = json.dumps({"observedMetrics": {quality.metric: json.loads(metrics)}})
    return _median_ms(lambda: quality.add_progress(json.loads(progress)))


def _read_cost(spark: SparkSession, settings: Settings) -> float:
    meter = CostMeter(spark, "bench", settings)
    with meter.counting():
        spark.range(10).write.format("noop").mode("overwrite").save()
    return _median_ms(meter.usage)


def _median_ms(step: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds) * 1000
