"""Times in UTC, whatever the time zone of the session is, which belongs to the user.

Spark's casts between texts and timestamps, and functions such as `hour` and `date_format`, use the
time zone of the session.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

# An option of `from_json` and `to_json`.
IN_UTC = {"timeZone": "UTC"}

_SECOND, _DAY = 1_000_000, 86_400_000_000
# A date, or a date and a time, without a time zone after it.
_WITHOUT_ZONE = r"^\s*[+-]?\d+(-\d{1,2}){0,2}([T ][\d:.]*)?\s*$"


def utc_timestamp(text: Column) -> Column:
    """The timestamp in a text, in UTC if the text has no time zone; null if it is not readable."""
    # The type without a time zone is read without that of the session. Not with `when`, which
    # would add a condition to the column lineage.
    local = F.regexp_extract(text, _WITHOUT_ZONE, 0).try_cast("timestamp_ntz")
    minutes = F.hour(local) * 60 + F.minute(local)
    seconds = minutes * 60 + F.extract(F.lit("SECOND"), local)
    # Null instead of an error near the end of the range, about 290,000 years from now.
    days = F.try_multiply(F.unix_date(local.cast("date")).cast("bigint"), F.lit(_DAY))
    micros = F.try_add(days, (seconds * _SECOND).cast("bigint"))
    return F.coalesce(F.timestamp_micros(micros), text.try_cast("timestamp"))


def utc_clock(time: Column) -> Column:
    """Date and time of day of a timestamp in UTC, of a type without time zone."""
    micros = F.unix_micros(time)
    of_day = F.pmod(micros, F.lit(_DAY))
    days = F.call_function("div", F.try_subtract(micros, of_day), F.lit(_DAY)).cast("int")
    seconds = (of_day.cast("decimal(12,0)") / _SECOND).cast("decimal(18,6)")
    # Not one number of seconds: those of distant years exceed the range of the function.
    since_1970 = F.make_dt_interval(days, secs=seconds)
    return F.lit("1970-01-01").cast("timestamp_ntz") + since_1970


def utc_text(time: Column) -> Column:
    """`2026-01-31T23:59:59.999Z`."""
    clock = utc_clock(time)
    millis = F.pmod(F.unix_millis(time), F.lit(1000))
    return F.concat(
        clock.cast("date").cast("string"),
        F.format_string(
            "T%02d:%02d:%02d.%03dZ", F.hour(clock), F.minute(clock), F.second(clock), millis
        ),
    )
