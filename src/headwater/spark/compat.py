"""What differs between the versions of pyspark, from 3.5 on; no other module asks for the version.

Each function calls pyspark where it has one of the same name, and otherwise does the same in
another way.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from inspect import signature
from typing import Any, cast

import pyarrow as pa
import pyspark
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import Serializer
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headwater.errors import InputError

# All that 3.5 lacks came with 4.0. The class is asked: an instance of 3.5 has every attribute.
_SINCE_4_0 = hasattr(Column, "try_cast")
# Before a name: configuration by which an Iceberg snapshot gets a property.
ICEBERG_PROPERTIES = "spark.sql.iceberg.snapshot-property."
_ARROW_TAKES_ZONE = "timezone" in signature(to_arrow_schema).parameters


def try_cast(column: Column, kind: str) -> Column:
    """The column as another type; null where that is impossible, with Spark's ANSI mode, too."""
    if _SINCE_4_0:
        return column.try_cast(kind)
    # Spark 3.5 has it in SQL only, which takes names and no columns: this is what SQL makes of it.
    jvm, of_3_5 = _jvm(), cast(Any, column)
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    expression = catalyst.Cast(
        of_3_5._jc.expr(),  # noqa: SLF001
        jvm.org.apache.spark.sql.types.DataType.fromDDL(kind),
        jvm.scala.Option.empty(),
        catalyst.EvalMode.TRY(),
    )
    wrapped: Any = Column
    return cast(Column, wrapped(jvm.org.apache.spark.sql.Column(expression)))


def is_valid_utf8(text: Column) -> Column:
    """Whether the bytes of a text are UTF-8: Spark casts any bytes to text unchanged."""
    if _SINCE_4_0:
        return F.is_valid_utf8(text)
    # Java replaces other bytes when it makes its string.
    return F.encode(text, "UTF-8") == text.cast("binary")


def make_valid_utf8(text: Column) -> Column:
    """The text with U+FFFD in place of bytes that are not UTF-8.

    A surrogate, which has three bytes, becomes one of them in Spark 3.5 and three in later ones.
    """
    if _SINCE_4_0:
        return F.make_valid_utf8(text)
    return F.decode(text.cast("binary"), "UTF-8")


def json_column(text: Column) -> Mapping[str, Column]:
    """The column `json`, whose paths are fields of any JSON text; none if Spark has no paths."""
    return {"json": F.try_parse_json(text)} if _reads_json_paths() else {}


def _reads_json_paths() -> bool:
    parsers = _jvm().org.apache.spark.sql.catalyst.parser
    parser = getattr(getattr(parsers, "CatalystSqlParser$"), "MODULE$")
    try:
        parser.parseExpression("json:a")
    except PySparkException:
        return False
    return True


def check_json_path(predicate: str) -> None:
    """Refuse a path such as `json:user.id` that this Spark can't read.

    Raises:
        InputError: the predicate has one, and this Spark would report a syntax error at its colon.
    """
    if "json:" in predicate.replace(" ", "").lower() and not _reads_json_paths():
        raise InputError(
            f"--where: a path `json:…` needs Spark 4.1 or later, this is {pyspark.__version__}",
            hint="get_json_object(value, '$.user.id') reads a field with every Spark",
        )


def struct_of(ddl: str) -> StructType:
    """The schema in a text such as `id bigint, name string`."""
    if _SINCE_4_0:
        return cast(StructType, StructType.fromDDL(ddl))
    parsed = _jvm().org.apache.spark.sql.types.StructType.fromDDL(ddl)
    return StructType.fromJson(json.loads(parsed.json()))


def ddl_of(schema: StructType) -> str:
    """The schema as a text, such as for `CREATE TABLE`."""
    if _SINCE_4_0:
        return schema.toDDL()
    return str(_jvm().org.apache.spark.sql.types.DataType.fromJson(schema.json()).toDDL())


def condition_of(error: PySparkException) -> str | None:
    """The name of an error of Spark, such as `PATH_NOT_FOUND`."""
    return error.getCondition() if _SINCE_4_0 else error.getErrorClass()


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns as Arrow types; timestamps are in UTC."""
    # Up to 4.2 this is the default, and the parameter does not exist.
    zone: dict[str, Any] = {"timezone": "UTC"} if _ARROW_TAKES_ZONE else {}
    return to_arrow_schema(schema, **zone)


def frame_of(spark: SparkSession, rows: pa.RecordBatch, schema: StructType) -> DataFrame:
    """Rows of the driver as a local relation of the JVM."""
    if _SINCE_4_0:
        return spark.createDataFrame(pa.Table.from_batches([rows]), schema)
    # Spark 3.5 does this for pandas only, whose types are not those of the schema.
    jvm = _jvm()
    context: Any = spark.sparkContext
    serializer: Serializer = ArrowStreamSerializer()
    batches = context._serialize_to_jvm(  # noqa: SLF001
        [rows], serializer, jvm.PythonSQLUtils.readArrowStreamFromFile, jvm.ArrowIteratorServer
    )
    session = spark._jsparkSession  # noqa: SLF001
    wrapped: Any = DataFrame
    frame = wrapped(jvm.PythonSQLUtils.toDataFrame(batches, schema.json(), session), spark)
    return cast(DataFrame, frame)


def observed_metrics(observation: Observation) -> Mapping[str, Any] | None:
    """The metrics of an action as values of JSON; None as long as it has not ended.

    Patch releases differ in what an observation offers without blocking.
    """
    java: Any = observation._jo  # noqa: SLF001
    methods = {each.getName() for each in java.getClass().getMethods()}
    if "future" in methods:
        if not java.future().isCompleted():
            return None
    else:
        field = java.getClass().getDeclaredField("metrics")
        field.setAccessible(True)
        if field.get(java).isEmpty():
            return None
    if "getRow" in methods:
        return cast(Mapping[str, Any], json.loads(java.getRow().json()))
    return {name: _as_json(value) for name, value in observation.get.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return float(value) if isinstance(value, Decimal) else value


def configuration_of(spark: SparkSession) -> dict[str, str]:
    """All configuration of a session."""
    if _SINCE_4_0:
        return dict(cast(Any, spark.conf).getAll)
    values = spark._jsparkSession.conf().getAll()  # noqa: SLF001
    return dict(_jvm().scala.collection.JavaConverters.mapAsJavaMap(values))


def with_all_columns(rows: DataFrame, columns: Callable[[], StructType]) -> DataFrame:
    """The rows for an append by name: up to 4.0, Spark refuses rows that lack a column of the
    table; later versions write null."""
    missing = [each for each in columns() if each.name not in rows.columns]
    nulls = (F.lit(None).cast(each.dataType).alias(each.name) for each in missing)
    return rows.select("*", *nulls)


def run_with_properties(spark: SparkSession, statement: str, properties: Mapping[str, str]) -> None:
    """Run a statement whose Iceberg snapshot gets these properties; the session has them as
    `ICEBERG_PROPERTIES`, too, which the runtime for Spark 3.5 does not read."""
    if _SINCE_4_0 or not properties:
        spark.sql(statement)
        return
    context: Any = spark.sparkContext
    ensure_callback_server_started(context._gateway)  # noqa: SLF001
    call = _Call(lambda: spark.sql(statement))
    jvm = _jvm()
    # The runtime keeps them for the thread, which is also that of the call back into Python.
    jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(
        dict(properties), call, jvm.java.lang.Class.forName("java.lang.RuntimeException")
    )
    if call.error is not None:
        raise call.error


class _Call:
    """A function as Java's `Callable`. Its error is kept: Java would only have the text."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self.error: Exception | None = None

    def call(self) -> None:
        try:
            self._function()
        except Exception as error:
            self.error = error

    class Java:
        implements = ("java.util.concurrent.Callable",)


def _jvm() -> Any:
    return SparkContext._jvm  # noqa: SLF001
