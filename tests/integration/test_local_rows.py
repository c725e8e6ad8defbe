"""Rows of the driver as a DataFrame."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from headwater.spark.local_rows import local_rows

pytestmark = pytest.mark.spark


def test_rows_of_the_driver_are_a_local_relation_that_needs_no_python_worker(
    spark: SparkSession,
) -> None:
    rows = local_rows(spark, [("a", 1), (None, 2)], "name string, n bigint")
    assert [tuple(row) for row in rows.collect()] == [("a", 1), (None, 2)]
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert plan.startswith("LocalTableScan")


def test_no_rows_have_the_schema(spark: SparkSession) -> None:
    schema = StructType([StructField("n", IntegerType(), nullable=False)])
    rows = local_rows(spark, (), schema)
    assert rows.schema == schema
    assert rows.count() == 0
