"""Rows of the driver as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.spark.compat import arrow_schema, frame_of, struct_of


def local_rows(
    spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType | str
) -> DataFrame:
    """A DataFrame of a few rows, given by position.

    `createDataFrame` with a list starts a Python worker for each core when the rows are read,
    which takes about a second each. An Arrow table becomes a local relation of the JVM, whose size
    Spark also knows.
    """
    columns = schema if isinstance(schema, StructType) else struct_of(schema)
    arrow = arrow_schema(columns)
    values = [dict(zip(arrow.names, row, strict=True)) for row in rows]
    return frame_of(spark, pa.RecordBatch.from_pylist(values, arrow), columns)
