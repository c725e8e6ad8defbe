"""Records of Kafka as rows of the archive, by Spark expressions: no Python for any row."""

from __future__ import annotations

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.archive.contract import COLUMNS
from headwater.errors import InputError

_FIELD = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
# Spark reads times without a date, too, as of today: a row would lie elsewhere tomorrow.
_DATED = r"^[0-9]{4,6}-"


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
    is_text = F.is_valid_utf8(text)
    event_time = _event_time(text, event_time_field)
    rows = records.select(
        F.when(is_text, text).alias("value"),
        "partition",
        "offset",
        "topic",
        "key",
        "headers",
        "timestamp",
        event_time.isNull().alias("event_time_unreadable"),
        F.when(~is_text, F.col("value")).alias("value_bytes"),
        F.coalesce(event_time, F.col("timestamp")).alias("_time"),
    )
    time = F.col("_time")
    parts = {"year": F.year, "month": F.month, "day": F.dayofmonth, "hour": F.hour}
    rows = rows.withColumns({name: part(time) for name, part in parts.items()})
    return rows.select(*COLUMNS)


def _event_time(text: Column, field: str) -> Column:
    found = F.get_json_object(text, f"$.{field}")
    return F.when(found.rlike(_DATED), found.try_cast("timestamp"))
