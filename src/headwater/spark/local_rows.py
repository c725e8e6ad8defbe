"""Rows of the driver as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def local_rows(
    spark: SparkSession, rows: Iterable[Sequence[Any]], schema: StructType | str
) -> DataFrame:
    """A DataFrame of a few rows, given by position.

    `createDataFrame` with a list starts a Python worker for each core when the rows are read,
    which takes about a second each. An Arrow table becomes a local relation of the JVM, whose size
    Spark also knows.
    """
    columns: Any = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    arrow = to_arrow_schema(columns)
    values = [dict(zip(arrow.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(values, arrow), columns)
