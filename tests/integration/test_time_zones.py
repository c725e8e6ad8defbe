"""Headwater's own columns are in UTC, whatever the time zone of the session is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.jobs.shared_job_logic import convert_visits
from headwater.jobs.visits_reducer_job import reduce_visits
from headwater.join.plan import _later
from headwater.quality import Quality
from headwater.spark.compat import try_cast
from headwater.spark.configuration import configured
from headwater.spark.measures.quality_report import utc_time
from headwater.spark.source import with_lineage
from headwater.spark.utc import utc_date, utc_hour, utc_text, utc_timestamp
from headwater.spark.writers.archive_rows import archive_rows

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
# With changes to summer time, and with a difference that is not a number of hours.
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu")
TEXTS = (
    "2026-03-29T02:30:00",
    "2026-03-29 02:30:00.123456",
    "2026-10-25T02:30:00.5",
    "2026-10-25T02:30:00+01:00",
    "2026-10-25T02:30:00Z",
    "2026-10-25T02:30:00 Europe/Berlin",
    "2026-10-25",
    "2026-10-25T",
    "2026-10",
    "2026",
    "2026-1-5 3:4:5",
    " 2026-10-25T02:30 ",
    "1969-12-31T23:59:59.9999",
    "1600-01-01T00:00:00.000001",
    "99999-01-01T00:00:00",
    "294247-01-10T04:00:54.775807",
    "2026-02-30",
    "soon",
    "",
)
_RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
)
_HEADERS = "headers array<struct<key: string, value: binary>>"


def in_each_zone(spark: SparkSession, result: Callable[[], Any]) -> dict[str, Any]:
    found = {}
    for zone in ZONES:
        with configured(spark, {ZONE: zone}):
            found[zone] = result()
    return found


def select(spark: SparkSession, rows: Sequence[Any], kind: str, *columns: Column) -> list[Any]:
    frame = spark.createDataFrame(
        [(number, row) for number, row in enumerate(rows)], f"i int, {kind}"
    )
    return [tuple(row) for row in frame.orderBy("i").select(*columns).collect()]


def records(spark: SparkSession, values: Sequence[dict[str, Any]]) -> DataFrame:
    at = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    rows: list[tuple[Any, ...]] = [
        (b"k", json.dumps(value).encode(), "visits", 0, number, at, [])
        for number, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, f"{_RECORD}, {_HEADERS}")


def test_texts_are_read_and_written_as_in_a_session_in_utc(spark: SparkSession) -> None:
    with configured(spark, {ZONE: "UTC"}):
        time = try_cast(F.col("t"), "timestamp")
        form = "yyyy-MM-dd'T'HH:mm:ss.SSSX"
        days = F.unix_date(F.to_date(time))
        columns = F.unix_micros(time), days, F.hour(time), F.date_format(time, form)
        texts = select(spark, TEXTS, "t string", F.unix_micros(time), time.cast("string"))
        expected = select(spark, TEXTS, "t string", *columns)

    def found() -> list[Any]:
        time = utc_timestamp(F.col("t"))
        days = F.unix_date(utc_date(time))
        columns = F.unix_micros(time), days, utc_hour(time), utc_text(time)
        return select(spark, TEXTS, "t string", *columns)

    assert in_each_zone(spark, found) == dict.fromkeys(ZONES, expected)
    # The earliest timestamp has no midnight before it: null, not an error.
    with configured(spark, {ZONE: "Europe/Berlin"}):
        earliest = utc_timestamp(F.lit("-290308-12-21T19:59:05.224192"))
        (row,) = select(spark, [1], "n int", F.unix_micros(earliest), utc_date(earliest))
    assert row == (-(2**63), None)
    # The same in Python, for bounds of measured columns.
    for micros, text in texts:
        assert micros is None or utc_time(micros) == text


def test_records_of_the_jobs_and_of_the_archive_do_not_depend_on_the_session(
    spark: SparkSession,
) -> None:
    visits = [
        {"event_id": "e", "visit_id": 1, "user_id": "u", "page": "home", "event_time": text}
        for text in TEXTS
    ]

    def found() -> list[Any]:
        rows = with_lineage(records(spark, visits))
        outputs = [convert_visits(rows), reduce_visits(rows)]
        sent = [each.select("value", "error").collect() for each in outputs]
        archived = archive_rows(records(spark, visits), "event_time").drop("headers", "timestamp")
        return [*sent, archived.orderBy("offset").collect()]

    by_zone = in_each_zone(spark, found)
    assert b'"event_time":"2026-03-29T02:30:00.000Z"' in bytes(
        by_zone["UTC"][0][0]["value"], "utf8"
    )
    hours = {row["offset"]: row["hour"] for row in by_zone["UTC"][2]}
    # Without a readable time, the hour of Kafka's timestamp.
    assert (hours[0], hours[TEXTS.index("soon")]) == (2, 0)
    for zone in ZONES:
        assert by_zone[zone] == by_zone["UTC"], zone


def test_bounds_of_measured_times_are_in_utc(spark: SparkSession, tmp_path_factory: Any) -> None:
    low, high = (
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2026, 10, 25, 0, 30, 0, 500_000, UTC),
    )

    def found() -> tuple[Any, Any]:
        quality = Quality("times")
        rows = quality.measure(spark.createDataFrame([(low,), (high,)], "at timestamp"))
        rows.write.parquet(str(tmp_path_factory.mktemp("measured") / "rows"))
        (column,) = quality.report().column_metrics
        return column.low, column.high

    expected = ("2026-03-29 01:30:00", "2026-10-25 00:30:00.5")
    assert in_each_zone(spark, found) == dict.fromkeys(ZONES, expected)


def test_bounds_of_a_join_have_days_of_24_hours(spark: SparkSession) -> None:
    at = datetime(2026, 3, 28, 12, tzinfo=UTC)
    millis = 36 * 3600 * 1000 + 7

    def found() -> list[Any]:
        moved = (F.unix_millis(_later(F.col("t"), count)) for count in (millis, -millis, 0, 1))
        return select(spark, [at], "t timestamp", *moved)

    start = int(at.timestamp() * 1000)
    expected = [(start + millis, start - millis, start, start + 1)]
    assert in_each_zone(spark, found) == dict.fromkeys(ZONES, expected)
