"""Row lineage of plain Spark jobs that know nothing of Headwater."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.unchanged import Ledger, numbers, true_parents, values

from headwater.kafka import create_topic
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.lines]

LEFT, RIGHT = "unchanged-left", "unchanged-right"
Job = Callable[[DataFrame, DataFrame, SparkSession], DataFrame]


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    for topic, count, first in ((LEFT, 200, 0), (RIGHT, 100, 1000)):
        create_topic(topic, 2, broker.kafka)
        ledger.fill(topic, count, first=first)
    return ledger


def select_and_filter(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    return left.where("n % 3 <> 0").select("key", numbers("n"))


def sql_with_views(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    left.createOrReplaceTempView("unchanged_l")
    right.createOrReplaceTempView("unchanged_r")
    return spark.sql(
        """WITH few AS (SELECT n FROM unchanged_l WHERE k = 3)
           SELECT CAST(n AS STRING) AS value FROM few
           UNION ALL SELECT CAST(n AS STRING) FROM unchanged_r WHERE k < 2"""
    )


def union_with_itself(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    few = left.where("k < 3").select(numbers("n"))
    return few.union(few)


def exploded(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    words = left.select("n", F.explode(F.array_repeat("n", F.expr("k % 3"))).alias("m"))
    twice = words.select("n", F.posexplode(F.array("m", "m")).alias("p", "o"))
    pairs = F.expr("array(struct(o AS x), struct(o AS x))")
    return twice.select("n", F.inline(pairs)).select(numbers("n", "x"))


def inner_join(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    other = right.select(F.col("n").alias("m"), F.col("t").alias("u"))
    joined = left.withWatermark("t", "10 days").join(
        other.withWatermark("u", "10 days"), F.expr("m - 1000 = n AND u = t")
    )
    return joined.select(numbers("n", "m"))


def outer_join(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    other = right.select(F.col("n").alias("m"), F.col("t").alias("u"))
    joined = left.withWatermark("t", "1 second").join(
        other.withWatermark("u", "1 second"),
        F.expr("m - 1000 = n AND u BETWEEN t AND t + INTERVAL 1 SECOND"),
        "leftOuter",
    )
    return joined.select(numbers("n", "m"))


def semi_join(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    other = right.select(F.col("n").alias("m"), F.col("t").alias("u"))
    condition = F.expr("m - 1000 = n AND u BETWEEN t AND t + INTERVAL 1 SECOND")
    joined = left.withWatermark("t", "1 second").join(
        other.withWatermark("u", "1 second"), condition, "leftSemi"
    )
    return joined.select(numbers("n"))


def static_join(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    names = spark.range(5).select(F.col("id").alias("k"), F.lit("x").alias("name"))
    return left.join(names, "k", "left").select(numbers("n"))


def windowed(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    groups = left.withWatermark("t", "1 second").groupBy("k", F.window("t", "20 seconds"))
    return groups.agg(F.sort_array(F.collect_set("n")).alias("ns")).select(collected())


def sliding(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    groups = left.withWatermark("t", "1 second").groupBy(F.window("t", "20 seconds", "10 seconds"))
    return groups.agg(F.sort_array(F.collect_set("n")).alias("ns")).select(collected())


def sessions(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    groups = left.withWatermark("t", "1 second").groupBy("k", F.session_window("t", "5 seconds"))
    return groups.agg(F.sort_array(F.collect_set("n")).alias("ns")).select(collected())


def collected() -> Any:
    return F.concat_ws(",", F.col("ns").cast("array<string>")).alias("value")


def deduplicated(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    return left.withWatermark("t", "1 day").dropDuplicates(["n", "t"]).select(numbers("n"))


def python_function(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    return left.select(F.udf(lambda n: str(n))("n").alias("value"))


def pandas_function(left: DataFrame, right: DataFrame, spark: SparkSession) -> DataFrame:
    @F.pandas_udf("string")  # type: ignore[call-overload, untyped-decorator]
    def text(n: pd.Series) -> pd.Series:
        return n.astype(str)

    return left.select(text("n").alias("value"))


APPEND: list[Job] = [
    select_and_filter,
    sql_with_views,
    union_with_itself,
    exploded,
    inner_join,
    outer_join,
    semi_join,
    static_join,
    windowed,
    sliding,
    sessions,
    deduplicated,
    python_function,
    pandas_function,
]


@pytest.mark.parametrize("job", APPEND)
def test_the_parents_of_a_plain_job_are_exact_and_its_output_is_the_same(
    ledger: Ledger, make_topic: TopicMaker, job: Job
) -> None:
    rows = job(ledger.read(LEFT), ledger.read(RIGHT), ledger.spark)
    plain = ledger.run(rows, make_topic("plain"), lineage=False)
    assert plain
    assert all(ledger.parents(record) is None for record in plain)
    records = ledger.run(rows, make_topic("out"))
    assert values(records) == values(plain)
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert parents.exact, record
        assert parents.numbers == true_parents(record), record
