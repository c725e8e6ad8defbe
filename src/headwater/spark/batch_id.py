"""Spark's micro-batch id as a column of a streaming query.

Spark sets it as a local property of each task, and offers no function for it. The alternative,
foreachBatch, costs about a tenth of a copying job's rate. The expression is built from Spark's
internal classes, so it holds for the pinned versions only; a test watches it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, SparkSession

_PROPERTY = "streaming.sql.batchId"


def batch_id_column(spark: SparkSession) -> Column:
    """The id of the running micro-batch as text; null outside a streaming query."""
    jvm: Any = spark._jvm  # noqa: SLF001
    find_class = jvm.java.lang.Class.forName
    types = jvm.org.apache.spark.sql.types
    objects = jvm.org.apache.spark.sql.catalyst.expressions.objects
    nothing = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toSeq()
    text = types.ObjectType(find_class("java.lang.String"))
    context = types.ObjectType(find_class("org.apache.spark.TaskContext"))

    def call_static(owner: str, returns: Any, method: str, arguments: Any) -> Any:
        # Flags: propagate null, the result may be null, deterministic within a batch.
        return objects.StaticInvoke(
            find_class(owner),
            returns,
            method,
            arguments,
            nothing,
            True,
            True,
            True,
            jvm.scala.Option.empty(),
        )

    task = call_static("org.apache.spark.TaskContext", context, "get", nothing)
    name = jvm.org.apache.spark.sql.catalyst.expressions.Literal(_PROPERTY, text)
    value = objects.Invoke(
        task, "getLocalProperty", text, _sequence(jvm, name), nothing, True, True, True
    )
    string = call_static(
        "org.apache.spark.unsafe.types.UTF8String",
        types.DataTypes.StringType,
        "fromString",
        _sequence(jvm, value),
    )
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(string))


def _sequence(jvm: Any, item: Any) -> Any:
    items = jvm.java.util.ArrayList()
    items.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq()
