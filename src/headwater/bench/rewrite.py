"""How long the start of a plain query takes longer, because row lineage is added to its plan."""

from __future__ import annotations

import re
import statistics
import tempfile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.bench.result import Measurement
from headwater.spark.configuration import configured

NODES = 30
_WARM_UP = 5
_LIMIT_MS = 300
_RULE = "dev.headwater.rowlineage.WriteRule"


def measure_rewrite(
    spark: SparkSession, rows: DataFrame, brokers: dict[str, str], target: str, repeats: int
) -> list[Measurement]:
    """The median time of the rule, as Spark measures it for each of its rules.

    Args:
        rows: of a Kafka source.
    """
    planned = _large_plan(rows)
    nodes = _nodes(planned)
    times = [_rule_ms(spark, planned, brokers, target) for _ in range(_WARM_UP + repeats)]
    name = f"rewrite at start, plan of {nodes} nodes"
    warm = round(statistics.median(times[_WARM_UP:]), 1)
    return [
        Measurement(f"{name}, warm", warm, "ms", at_most=_LIMIT_MS),
        Measurement(f"{name}, first start", round(times[0], 1), "ms"),
    ]


def _large_plan(rows: DataFrame) -> DataFrame:
    """Steps of each kind: filters, projections, a union, a generator, and an aggregate at last."""
    text = F.col("value").cast("string")
    parsed = rows.select(F.from_json(text, "n bigint, k int, t bigint").alias("r")).select("r.*")
    steps = parsed.withColumn("time", F.timestamp_seconds("t")).withWatermark("time", "1 hour")
    both = steps.where("k < 25").unionByName(steps.where("k >= 25"))
    each = both.withColumn("part", F.explode(F.array("k", "n")))
    number = 0
    # Four follow: the window is a filter and a projection.
    while _nodes(each) < NODES - 4:
        each = (
            each.where(f"n <> {-number - 1}")
            if number % 2
            else each.withColumn("k", F.expr("k + 1"))
        )
        number += 1
    groups = each.groupBy("k", F.window("time", "10 minutes")).count()
    return groups.select(F.to_json(F.struct("k", "count")).alias("value"))


def _nodes(rows: DataFrame) -> int:
    plan: Any = rows._jdf  # noqa: SLF001
    return len(plan.queryExecution().analyzed().treeString().strip().splitlines())


def _rule_ms(spark: SparkSession, rows: DataFrame, brokers: dict[str, str], target: str) -> float:
    """Start the query with row lineage, and stop it."""
    jvm: Any = spark._jvm  # noqa: SLF001
    rules = jvm.org.apache.spark.sql.catalyst.rules.RuleExecutor
    with tempfile.TemporaryDirectory() as folder:
        rules.resetMetrics()
        with configured(spark, {"spark.headwater.lineage.enabled": "true"}):
            query = (
                rows.writeStream.format("kafka")
                .options(**brokers, topic=target, checkpointLocation=f"{folder}/checkpoint")
                .outputMode("update")
                .queryName("bench_rewrite")
                .trigger(availableNow=True)
                .start()
            )
        nanoseconds = _spent(rules.dumpTimeSpent())
        query.awaitTermination()
    return nanoseconds / 1e6


def _spent(report: str) -> int:
    """Nanoseconds of the rule where it changed a plan: `NAME EFFECTIVE / TOTAL …` in the report."""
    found = re.search(rf"^{re.escape(_RULE)}\s+(\d+) / \d+", report, re.MULTILINE)
    if found is None or found[1] == "0":
        raise RuntimeError("the plan of the query was not rewritten")
    return int(found[1])
