"""Spark expressions of columns and expectations: the aggregates that `observe` computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headwater.errors import InputError
from headwater.spark.measures.expectation import Expectation
from headwater.spark.measures.quality_report import ROWS, Measured, key
from headwater.spark.own_class import own_class

# Sketches of 2^10 registers, a byte each. Spark keeps those of the last hundred batches of a query:
# 6 MB with 40 columns. Half the error would need four times as much.
SKETCH_LOG2 = 10

_TIMES = (T.DateType, T.TimestampType, T.TimestampNTZType)
_COUNTED = (T.NumericType, T.StringType, T.BooleanType, T.BinaryType, *_TIMES)
_FRACTIONS = (T.FloatType, T.DoubleType)


def column(name: str) -> Column:
    """A column by its exact name, which may contain dots, spaces and backticks."""
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def measured_columns(
    rows: DataFrame, chosen: Sequence[str] | None, max_columns: int, *, distinct: bool
) -> tuple[list[Measured], list[str]]:
    """The columns to measure, and the names of those that are left out.

    Raises:
        InputError: a chosen column does not exist, or is ambiguous.
    """
    for name in chosen or ():
        check_column(name, rows)
    # Spark's column names are case-insensitive.
    counts = Counter(name.lower() for name in rows.columns)
    once = [field for field in rows.schema if counts[field.name.lower()] == 1]
    if chosen is not None:
        measured = [field for field in once if field.name in set(chosen)]
    else:
        measured = once[:max_columns]
    names = {field.name for field in measured}
    left_out = [] if chosen is not None else [each for each in rows.columns if each not in names]
    columns = [_measured(field, distinct=distinct) for field in measured]
    return columns, list(dict.fromkeys(left_out))


def check_column(name: str, rows: DataFrame) -> None:
    """Raises:
    InputError: the rows have no column of this name, or several.
    """
    matching = [each for each in rows.columns if each.lower() == name.lower()]
    if matching != [name]:
        known = ", ".join(rows.columns[:20])
        raise InputError(
            f"{'no' if name not in matching else 'more than one'} column {name!r} to measure: "
            f"{known}",
            hint="use the exact name; for a field of a struct use "
            "`satisfies('address.city IS NOT NULL')`",
            column=name,
        )


def _measured(field: T.StructField, *, distinct: bool) -> Measured:
    kind = field.dataType
    return Measured(
        field.name,
        kind.simpleString(),
        distinct=distinct and isinstance(kind, _COUNTED),
        bounds=isinstance(kind, (T.NumericType, *_TIMES)),
        not_a_number=isinstance(kind, _FRACTIONS),
    )


def aggregates(
    rows: DataFrame, columns: Sequence[Measured], expectations: Sequence[Expectation]
) -> list[Column]:
    """All metrics of the rows, each under its key."""
    metrics = [F.count(F.lit(1)).alias(ROWS)]
    for number, measured in enumerate(columns):
        column_metrics = _of_column(measured)
        metrics += [each.alias(key("c", number, what)) for what, each in column_metrics]
    for number, expectation in enumerate(expectations):
        violations = _of_expectation(expectation, rows)
        metrics += [each.alias(key("e", number, what)) for what, each in violations]
    return metrics


def _of_column(measured: Measured) -> Iterator[tuple[str, Column]]:
    value = column(measured.name)
    yield "values", F.count(value)
    bounded = value
    if measured.not_a_number:
        # In Spark, NaN is greater than all numbers and would hide the maximum.
        yield "nan", _count(F.isnan(value))
        bounded = F.when(~F.isnan(value), value)
    if measured.bounds:
        for what, end in (("low", F.min(bounded)), ("high", F.max(bounded))):
            if measured.type == "timestamp":
                # Not as text, which has the time zone of the session.
                yield what, F.unix_micros(end)
            else:
                text = measured.type in ("date", "timestamp_ntz")
                yield what, end.cast("string") if text else end
    if measured.distinct:
        # Sketches support few types, so they get hashes.
        hashed = F.when(value.isNotNull(), F.xxhash64(value))
        yield "sketch", F.hll_sketch_agg(hashed, SKETCH_LOG2)


def _of_expectation(expectation: Expectation, rows: DataFrame) -> Iterator[tuple[str, Column]]:
    holds = condition(expectation, rows)
    if expectation.kind == "not_null":
        yield "broken", _count(~holds)
        return
    decided = _try(holds)
    yield "broken", _count(~decided)
    undecided = decided.isNull()
    if expectation.column is not None:
        undecided &= column(expectation.column).isNotNull()
    yield "undecided", _count(undecided)


def _count(which: Column) -> Column:
    # Not `count_if`, for which Spark adds a projection of all columns.
    return F.count(F.when(which, F.lit(True)))


def condition(expectation: Expectation, rows: DataFrame) -> Column:
    """The condition as a column; null where it is unknown."""
    if expectation.sql is not None:
        return F.expr(expectation.sql)
    value = column(str(expectation.column))
    match expectation.kind:
        case "not_null":
            return value.isNotNull()
        case "in_range":
            return _in_range(value, expectation, rows)
        case "matches":
            return value.cast("string").rlike(str(expectation.pattern))
        case "in_set":
            return value.isin(*expectation.values)
    raise InputError(f"unknown expectation: {expectation.kind!r}")


def _in_range(value: Column, expectation: Expectation, rows: DataFrame) -> Column:
    low, high = expectation.low, expectation.high
    holds = F.lit(True)
    if low is not None:
        holds &= value >= F.lit(low)
    if high is not None:
        holds &= value <= F.lit(high)
    elif isinstance(rows.schema[str(expectation.column)].dataType, _FRACTIONS):
        # In Spark, NaN is greater than all numbers.
        holds &= ~F.isnan(value)
    return holds


def _try(value: Column) -> Column:
    """Null instead of an error, such as an overflow or a text that is not a number.

    Measuring must not fail a job that would succeed without it.
    """
    java: Any = value._jc  # noqa: SLF001
    return Column(own_class("quality.Attempt").of(java))


def check_expectations(expectations: Sequence[Expectation], rows: DataFrame) -> None:
    """Raises:
    InputError: an expectation can't be evaluated on rows with these columns.
    """
    for expectation in expectations:
        if expectation.column is not None:
            check_column(expectation.column, rows)
        if expectation.pattern is not None:
            _check_pattern(expectation, rows)
        try:
            (field,) = rows.select(condition(expectation, rows)).schema
        except (AnalysisException, ParseException) as error:
            raise InputError(
                f"{expectation.text} can't be evaluated: {_first_line(error)}",
                hint="use a Spark SQL expression over the columns of the rows",
            ) from error
        if not isinstance(field.dataType, T.BooleanType):
            raise InputError(
                f"{expectation.text} must be boolean, got {field.dataType.simpleString()}",
                hint="use a condition such as `ends_at > starts_at`",
            )


def _check_pattern(expectation: Expectation, rows: DataFrame) -> None:
    # Spark would report it only when there are rows.
    try:
        _jvm(rows).java.util.regex.Pattern.compile(expectation.pattern)
    except Exception as error:
        raise InputError(
            f"{expectation.text} has an invalid regular expression: {_first_line(error)}",
            hint="see `java.util.regex.Pattern`",
        ) from None


def _jvm(rows: DataFrame) -> Any:
    return rows.sparkSession._jvm  # noqa: SLF001


def _first_line(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = java.getMessage() if java is not None else str(error)
    return str(text).strip().partition("\n")[0]
