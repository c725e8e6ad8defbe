"""The functions of `headwater.spark.compat` have the same results with every Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError
from headwater.spark import compat
from headwater.spark.configuration import configured
from headwater.spark.local_rows import local_rows

pytestmark = [pytest.mark.spark, pytest.mark.lines]

BYTES = [
    b"",
    b"plain",
    "é€😀".encode(),
    b"\xef\xbf\xbd",
    # A byte that never occurs, a cut character, an overlong form, beyond the last code point.
    b"a\xffb",
    b"\xe2\x82",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
]


def results(spark: SparkSession, values: list[Any], kind: str, column: Column) -> list[Any]:
    rows = local_rows(spark, enumerate(values), f"number int, input {kind}")
    return [row.result for row in rows.select("number", column.alias("result")).collect()]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_cast_that_is_not_possible_is_null_in_both_modes(spark: SparkSession, ansi: str) -> None:
    values = ["12", " -7 ", "12.5", "x", "", "9999999999", None]
    with configured(spark, {"spark.sql.ansi.enabled": ansi}):
        numbers = results(spark, values, "string", compat.try_cast(F.col("input"), "int"))
        assert numbers == [12, -7, None, None, None, None, None]
        # The parameter of a function has no name that SQL could use.
        parts = F.transform(F.split("input", ","), lambda part: compat.try_cast(part, "bigint"))
        assert results(spark, ["1,x,3"], "string", parts) == [[1, None, 3]]


def test_bytes_that_are_not_utf_8_are_found_and_replaced(spark: SparkSession) -> None:
    text = F.col("input").cast("string")
    decoded = [each.decode("utf-8", "replace") for each in BYTES]
    valid = [each.encode() == value for each, value in zip(decoded, BYTES, strict=True)]
    assert results(spark, BYTES, "binary", compat.is_valid_utf8(text)) == valid
    assert valid.count(True) == valid.count(False) == 4
    assert results(spark, BYTES, "binary", compat.make_valid_utf8(text)) == decoded
    surrogate = compat.is_valid_utf8(text)
    assert results(spark, [b"\xed\xa0\x80", None], "binary", surrogate) == [False, None]


def test_a_schema_becomes_a_text_and_the_same_schema_again(spark: SparkSession) -> None:
    ddl = "id bigint, `a b` struct<at: timestamp, list: array<string>>, price decimal(10,2)"
    schema = compat.struct_of(ddl)
    assert schema.fieldNames() == ["id", "a b", "price"]
    assert compat.struct_of(compat.ddl_of(schema)) == schema
    assert local_rows(spark, (), schema).schema == schema


def test_rows_of_the_driver_are_a_local_relation(spark: SparkSession) -> None:
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    rows = local_rows(spark, [(1, at), (2, None)], "number int, at timestamp")
    assert [row.micros for row in rows.select(F.unix_micros("at").alias("micros")).collect()] == [
        int(at.timestamp() * 1_000_000),
        None,
    ]
    plan = rows._jdf.queryExecution().analyzed()
    assert plan.getClass().getSimpleName() == "LocalRelation"


def test_a_path_in_json_is_read_or_refused_with_what_works_everywhere(spark: SparkSession) -> None:
    rows = local_rows(spark, [('{"user": {"id": 7}}',)], "value string")
    columns = compat.json_column(F.col("value"))
    decoded = rows.select("value", *(each.alias(name) for name, each in columns.items()))
    everywhere = "get_json_object(value, '$.user.id') = '7'"
    compat.check_json_path(everywhere)
    assert decoded.where(everywhere).count() == 1
    predicate = "json:user.id::int = 7"
    if "json" in decoded.columns:
        compat.check_json_path(predicate)
        assert decoded.where(predicate).count() == 1
    else:
        with pytest.raises(InputError, match=r"needs Spark 4\.1") as refused:
            compat.check_json_path(predicate)
        assert "get_json_object(value" in (refused.value.hint or "")


def test_an_error_of_spark_has_its_name(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as error:
        spark.read.text("file:///no/such/file")
    assert compat.condition_of(error.value) == "PATH_NOT_FOUND"
