"""Records that can't be processed: set aside with their bytes and the reason, never dropped.

A bad record does not stop a job and does not become an empty one. It goes to the topic
`<output>-dead-letter` with its raw key and value, the headers that Kafka Connect defined for
this (`__connect.errors.*`), and its lineage. A value that is too large for the output is kept
by reference: its address, size and hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.model.dead_letter import (
    BAD_TIMESTAMP,
    MALFORMED,
    MISSING_FIELD,
    REFERENCE_FIELDS,
    TOO_LARGE,
)
from headwater.spark.lineage_columns import LINEAGE_COLUMN, parents_text

ERROR_COLUMN = "error"
RAW_VALUE_COLUMN = "raw_value"

_CORRUPT = "_corrupt"


def parse_json(
    records: DataFrame,
    fields: Mapping[str, str],
    *,
    required: Sequence[str] = (),
) -> DataFrame:
    """Add `data`, the value read as JSON, and `error`, set where that is not possible.

    Args:
        fields: name and Spark type of each field. A timestamp may have any zone; one that
            can't be read is an error, not a null.
        required: fields that must be there and not null.

    A null value (a tombstone) has neither data nor error: it stands for a deletion.
    """
    times = [name for name, kind in fields.items() if kind == "timestamp"]
    text = {name: "string" if name in times else kind for name, kind in fields.items()}
    schema = ", ".join(f"`{name}` {kind}" for name, kind in {**text, _CORRUPT: "string"}.items())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(F.col("value").cast("string"), schema, options)
    rows = records.withColumn("_parsed", parsed)
    # Columns of their own: inside the struct Spark would read the text anew at each use.
    at = {name: f"_at_{name}" for name in times}
    rows = rows.withColumns(
        {column: F.col("_parsed")[name].try_cast("timestamp") for name, column in at.items()}
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
    broken = parsed.isNull() | parsed[_CORRUPT].isNotNull() | ~F.is_valid_utf8(value.cast("string"))
    checks = F.when(value.isNull(), no_error()).when(
        broken, _error(MALFORMED, F.lit("the value is not a JSON object"))
    )
    for name in times:
        unreadable = parsed[name].isNotNull() & read[name].isNull()
        message = F.concat(
            F.lit(f"field {name!r} is no timestamp: "), F.substring(parsed[name], 1, 100)
        )
        checks = checks.when(unreadable, _error(BAD_TIMESTAMP, message))
    for name in required:
        missing = F.lit(f"field {name!r} is missing or null")
        checks = checks.when(parsed[name].isNull(), _error(MISSING_FIELD, missing))
    return checks.otherwise(no_error())


def no_error() -> Column:
    """The `error` of a good record."""
    return F.lit(None).cast("struct<kind:string,message:string>")


def _error(kind: str, message: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), message.alias("message"))


def size_error(value: Column, limit: int) -> Column:
    """Set where the value is longer than the output takes."""
    message = F.concat(
        F.lit("the value has "),
        F.length(value).cast("string"),
        F.lit(f" bytes, {limit} are allowed"),
    )
    return F.when(F.length(value) > limit, _error(TOO_LARGE, message)).otherwise(no_error())


def dead_letter_value(raw: Column, error: Column, limit: int) -> Column:
    """The raw bytes; of a value that is too large only what is needed to find it again."""
    parts = (parents_text(F.col(LINEAGE_COLUMN)), F.length(raw), F.sha2(raw, 256))
    named = zip(REFERENCE_FIELDS, parts, strict=True)
    reference = F.to_json(F.struct(*(part.alias(name) for name, part in named)))
    # A value may be malformed and too large at once.
    large = (error["kind"] == TOO_LARGE) | (F.length(raw) > limit)
    return F.when(large, reference.cast("binary")).otherwise(raw)
