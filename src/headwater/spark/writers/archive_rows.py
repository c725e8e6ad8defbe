"""Records of Kafka as rows of the archive, by Spark expressions: no Python for any row."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError

_FIELD = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
# Spark reads times without a date, too, as of today: a row would lie elsewhere tomorrow.
_DATED = r"^[0-9]{4,6}-.*"
_IS_TEXT, _EVENT_TIME, _TIME = "_is_text", "_event_time", "_time"


def check_field(field: str) -> None:
    """Refuse what is no name of a JSON field, or names with dots between them.

    Raises:
        InputError: it becomes part of an expression, and has another form.
    """
    if not _FIELD.fullmatch(field):
        raise InputError(
            f"not the name of a field: {field!r}",
            hint="such as `event_time`, or `visit.event_time` for a field within another",
        )


def archive_rows(records: DataFrame, event_time_field: str) -> DataFrame:
    """Rows of the archive, of records as Spark's Kafka source gives them.

    A record is archived whatever it holds: without a readable event time it lies under Kafka's
    timestamp, and is marked.
    """
    check_field(event_time_field)
    # Spark takes any bytes for text, and gives them back as they were.
    text = F.col("value").cast("string")
    # Step by step, so that nothing costly is computed for each of its uses.
    rows = records.withColumn(_IS_TEXT, F.is_valid_utf8(text))
    rows = rows.withColumn(_EVENT_TIME, _event_time(records, text, event_time_field))
    is_text, event_time = F.col(_IS_TEXT), F.col(_EVENT_TIME)
    rows = rows.withColumn(_TIME, F.coalesce(event_time, F.col("timestamp")))
    time = F.col(_TIME)
    return rows.select(
        F.when(is_text, text).alias("value"),
        "partition",
        "offset",
        F.year(time).alias("year"),
        F.month(time).alias("month"),
        F.dayofmonth(time).alias("day"),
        F.hour(time).alias("hour"),
        "topic",
        "key",
        "headers",
        "timestamp",
        event_time.isNull().alias("event_time_unreadable"),
        F.when(~is_text, F.col("value")).alias("value_bytes"),
    )


def _event_time(records: DataFrame, text: Column, field: str) -> Column:
    """The time in a JSON field; null where there is none that can be read."""
    parsed = F.get_json_object(text, f"$.{field}")
    found = F.regexp_extract(parsed, _DATED, 0).try_cast("timestamp")
    if "." in field:
        return found
    # Parsing costs more than all the rest together, and most values do not need it.
    micros = F.call_function(_registered(records.sparkSession, field), F.col("value"))
    return F.coalesce(F.timestamp_micros(micros), found)


def _registered(spark: SparkSession, field: str) -> str:
    """The function of `java/` that looks for a field, by the name under which Spark knows it."""
    name = f"headwater_event_time_{field.encode().hex()}"
    if spark.catalog.functionExists(name):
        return name
    jvm: Any = spark._jvm  # noqa: SLF001
    function = jvm.headwater.archive.EventTime(field)
    kind = jvm.org.apache.spark.sql.types.DataTypes.LongType
    spark._jsparkSession.udf().register(name, function, kind)  # noqa: SLF001
    return name
