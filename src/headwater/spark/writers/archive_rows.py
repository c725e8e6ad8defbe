"""Turns Kafka records into rows of the archive with Spark expressions."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError
from headwater.spark.compat import is_valid_utf8
from headwater.spark.utc import utc_date, utc_hour, utc_timestamp

_FIELD = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
# Spark also parses times without a date, as times of today: the row's hour would not be stable.
_DATED = r"^[0-9]{4,6}-.*"
_IS_TEXT, _EVENT_TIME, _TIME, _DATE = "_is_text", "_event_time", "_time", "_date"


def check_field(field: str) -> None:
    """Refuse anything but the name of a JSON field or a path of names separated by dots.

    Raises:
        InputError: it is not a valid name; it becomes part of a Spark expression.
    """
    if not _FIELD.fullmatch(field):
        raise InputError(
            f"not a field name: {field!r}",
            hint="such as `event_time`, or `visit.event_time` for a nested field",
        )


def archive_rows(records: DataFrame, event_time_field: str) -> DataFrame:
    """Rows of the archive from records of Spark's Kafka source.

    Every record is archived: without a readable event time it is stored under Kafka's timestamp
    and marked.
    """
    check_field(event_time_field)
    # Spark casts any bytes to text without changing them.
    text = F.col("value").cast("string")
    # In separate steps, so that costly expressions are not computed once per use.
    rows = records.withColumn(_IS_TEXT, is_valid_utf8(text))
    rows = rows.withColumn(_EVENT_TIME, _event_time(records, text, event_time_field))
    is_text, event_time = F.col(_IS_TEXT), F.col(_EVENT_TIME)
    rows = rows.withColumn(_TIME, F.coalesce(event_time, F.col("timestamp")))
    rows = rows.withColumn(_DATE, utc_date(F.col(_TIME)))
    date = F.col(_DATE)
    return rows.select(
        F.when(is_text, text).alias("value"),
        "partition",
        "offset",
        F.year(date).alias("year"),
        F.month(date).alias("month"),
        F.dayofmonth(date).alias("day"),
        utc_hour(F.col(_TIME)).alias("hour"),
        "topic",
        "key",
        "headers",
        "timestamp",
        event_time.isNull().alias("event_time_unreadable"),
        F.when(~is_text, F.col("value")).alias("value_bytes"),
    )


def _event_time(records: DataFrame, text: Column, field: str) -> Column:
    """The time in a JSON field; null if it is missing or unreadable."""
    parsed = F.get_json_object(text, f"$.{field}")
    time = utc_timestamp(F.regexp_extract(parsed, _DATED, 0))
    if "." in field:
        return time
    # Parsing JSON costs more than everything else, and most values do not need it.
    micros = F.call_function(_registered(records.sparkSession, field), F.col("value"))
    return F.coalesce(F.timestamp_micros(micros), time)


def _registered(spark: SparkSession, field: str) -> str:
    """Register the Java function that finds the field, and return its name."""
    name = f"headwater_event_time_{field.encode().hex()}"
    if spark.catalog.functionExists(name):
        return name
    jvm: Any = spark._jvm  # noqa: SLF001
    function = jvm.dev.headwater.archive.EventTime(field)
    kind = jvm.org.apache.spark.sql.types.DataTypes.LongType
    spark._jsparkSession.udf().register(name, function, kind)  # noqa: SLF001
    return name
