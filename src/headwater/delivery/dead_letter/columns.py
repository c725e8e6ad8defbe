"""Records that can't be processed: sent to the dead letter topic, never dropped.

A bad record neither stops a job nor becomes an empty record. It goes to the topic
`<output>-dead-letter` with its raw key and value, the error headers of Kafka Connect
(`__connect.errors.*`) and its lineage. A value that is too large for the output is replaced by
a reference: its address, size and hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.delivery.sink import ERROR_COLUMN, error_of, no_error
from headwater.model.dead_letter import (
    BAD_TIMESTAMP,
    MALFORMED,
    MISSING_FIELD,
)
from headwater.spark.compat import is_valid_utf8
from headwater.spark.utc import IN_UTC, utc_timestamp

_CORRUPT = "_corrupt"


def parse_json(
    records: DataFrame,
    fields: Mapping[str, str],
    *,
    required: Sequence[str] = (),
) -> DataFrame:
    """Add `data`, the value read as JSON, and `error`, set where that is not possible.

    Args:
        fields: name and Spark type of each field. A timestamp may have any time zone, by default
            UTC; an unreadable one is an error, not a null.
        required: fields that must be present and not null.

    A null value (a tombstone) has neither data nor error: it stands for a deletion.
    """
    times = [name for name, kind in fields.items() if kind == "timestamp"]
    text = {name: "string" if name in times else kind for name, kind in fields.items()}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in {**text, _CORRUPT: "string"}.items())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **IN_UTC}
    parsed = F.from_json(F.col("value").cast("string"), schema, options)
    rows = records.withColumn("_parsed", parsed)
    # Separate columns: inside the struct Spark would parse the text again at each use.
    at = {name: f"_at_{name}" for name in times}
    rows = rows.withColumns(
        {column: utc_timestamp(F.col("_parsed")[name]) for name, column in at.items()}
    )
    read = {name: F.col(at[name]) if name in at else F.col("_parsed")[name] for name in fields}
    data = F.struct(*(column.alias(name) for name, column in read.items()))
    error = _first_error(F.col("value"), F.col("_parsed"), read, times, required)
    return rows.select("*", data.alias("data"), error.alias(ERROR_COLUMN)).drop(
        "_parsed", *at.values()
    )


def _first_error(
    value: Column,
    parsed: Column,
    read: Mapping[str, Column],
    times: Sequence[str],
    required: Sequence[str],
) -> Column:
    broken = parsed.isNull() | parsed[_CORRUPT].isNotNull() | ~is_valid_utf8(value.cast("string"))
    checks = F.when(value.isNull(), no_error()).when(
        broken, error_of(MALFORMED, F.lit("the value is not a JSON object"))
    )
    for name in times:
        unreadable = parsed[name].isNotNull() & read[name].isNull()
        message = F.concat(
            F.lit(f"field {name!r} is not a timestamp: "), F.substring(parsed[name], 1, 100)
        )
        checks = checks.when(unreadable, error_of(BAD_TIMESTAMP, message))
    for name in required:
        missing = F.lit(f"field {name!r} is missing or null")
        checks = checks.when(parsed[name].isNull(), error_of(MISSING_FIELD, missing))
    return checks.otherwise(no_error())
