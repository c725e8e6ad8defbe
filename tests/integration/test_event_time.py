"""The fast parser of event times agrees with Spark or leaves the value to it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater.spark.compat import try_cast
from headwater.spark.writers.archive_rows import archive_rows

pytestmark = pytest.mark.spark

TIMES = (
    "2025-09-04T07:00:00.000000",
    "2025-09-04 07:00",
    "2025-09-04T07:00:59.1",
    "2025-09-04T07:00:59.123456Z",
    "2025-09-04T07:00:59.1234567Z",
    "2025-09-04T07:00:59+02:00",
    "2025-09-04T07:00:59-11:30",
    "2025-09-04T07:00:59+0200",
    "2025-09-04T07:00:59 Europe/Paris",
    "2024-02-29T23:59:59Z",
    "2023-02-29T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "1969-12-31T23:59:59.5Z",
    "2025-13-01T00:00:00",
    "2025-09-04T24:00:00",
    "2025-09-04T23:60:00",
    "2025-09-04T23:59:60",
    "2025-09-04T07:00:",
    "2025-09-04T07:00:00.",
    "2025-09-04T07:00:00+",
    "2025-09-04T07:00:00+19:00",
    "2025-09-04T",
    "2025-9-4",
    "12025-09-04T00:00:00",
    "07:00:00",
    "",
)
FORMS = (
    '{"event_time": "%s"}',
    ' {"a":1,"b": "x","c":null , "event_time" :"%s", "d": {"event_time": "1999-01-01"}}',
    '{"a": {"event_time": "1999-01-01T00:00:00Z"}, "event_time": "%s"}',
    '{"a": "\\", \\"event_time\\": \\"1999-01-01T00:00:00Z\\"", "event_time": "%s"}',
    '{"a": ["event_time", "1999-01-01T00:00:00Z"], "event_time": "%s"}',
)
OTHERS = (
    '{"event_time": null}',
    '{"event_time": 5}',
    '{"event_time": {"event_time": "1999-01-01T00:00:00Z"}}',
    '["event_time", "1999-01-01T00:00:00Z"]',
    '"event_time"',
    '{"b": "event_time"}',
    "{",
    '{"event_time',
    "",
)


def test_the_fast_parser_agrees_with_spark(spark: SparkSession) -> None:
    values = [*(form % time for form in FORMS for time in TIMES), *OTHERS]
    schema = "value binary, partition int, offset bigint, topic string, key binary, "
    schema += "headers array<struct<key:string,value:binary>>, timestamp timestamp"
    rows: list[tuple[Any, ...]] = [
        (value.encode(), 0, number, "t", None, None, None) for number, value in enumerate(values)
    ]
    records = spark.createDataFrame(rows, schema).coalesce(1)
    text = F.get_json_object(F.col("value").cast("string"), "$.event_time")
    dated = F.when(text.rlike("^[0-9]{4,6}-"), try_cast(text, "timestamp"))
    parts = {"year": F.year, "month": F.month, "day": F.dayofmonth, "hour": F.hour}
    expected = records.select("offset", *(part(dated).alias(n) for n, part in parts.items()))
    found = archive_rows(records, "event_time").select("offset", *parts)
    differing = expected.exceptAll(found).collect() + found.exceptAll(expected).collect()
    assert [(values[row["offset"]], row) for row in differing] == []
    assert found.where("year is null").count() > len(OTHERS)
