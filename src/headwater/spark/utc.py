"""Times in UTC, whatever the time zone of the session is, which belongs to the user.

Spark's casts between texts and timestamps, and functions such as `hour` and `date_format`, use the
time zone of the session. None of these expressions is a condition, which the column lineage would
report.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.spark.compat import try_cast

# An option of `from_json` and `to_json`.
IN_UTC = {"timeZone": "UTC"}

_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000
# A date, or a date and a time, without a time zone after it.
_WITHOUT_ZONE = r"^\s*+[+-]?\d++(?:-\d{1,2}+){0,2}+(?:[T ][\d:.]*+)?+\s*+$"


def utc_timestamp(text: Column) -> Column:
    """The timestamp in a text, in UTC if the text has no time zone; null if it is not readable."""
    # Most texts: they are not searched for a time zone, which would take longer than the cast.
    has_zone = F.endswith(text, F.lit("Z")) | (F.substring(text, -6, 1) == "+")
    zoned = text.substr(F.lit(1), F.length(text) * has_zone.cast("int"))
    # The type without a time zone is read without that of the session. Used once, as Spark would
    # evaluate it for each use.
    local = try_cast(F.regexp_extract(text, _WITHOUT_ZONE, 0), "timestamp_ntz")
    since_1970 = local - F.lit("1970-01-01").cast("timestamp_ntz")
    seconds = since_1970.cast("interval second").cast("decimal(20,6)")
    micros = (seconds * _SECOND).cast("bigint")
    return F.coalesce(
        try_cast(zoned, "timestamp"), F.timestamp_micros(micros), try_cast(text, "timestamp")
    )


def utc_date(time: Column) -> Column:
    """The date of a timestamp in UTC."""
    micros = F.unix_micros(time)
    midnight = F.try_subtract(micros, F.pmod(micros, F.lit(_DAY)))
    return F.date_from_unix_date(_quotient(midnight, _DAY))


def utc_hour(time: Column) -> Column:
    """The hour of a timestamp in UTC."""
    return _quotient(F.pmod(F.unix_micros(time), F.lit(_DAY)), _HOUR)


def utc_text(time: Column) -> Column:
    """`2026-01-31T23:59:59.999Z`."""
    seconds = _quotient(F.pmod(F.unix_micros(time), F.lit(_HOUR)), _SECOND)
    parts = (
        utc_hour(time),
        _quotient(seconds, 60),
        F.pmod(seconds, F.lit(60)),
        F.pmod(F.unix_millis(time), F.lit(1000)),
    )
    return F.concat(utc_date(time).cast("string"), F.format_string("T%02d:%02d:%02d.%03dZ", *parts))


def _quotient(dividend: Column, divisor: int) -> Column:
    return F.call_function("div", dividend, F.lit(divisor)).cast("int")
