"""Column lineage through the steps of Spark's plans."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headwater.collector.columns import PlanColumns, plan_columns
from headwater.collector.plan import Value, parse_plan

pytestmark = pytest.mark.spark

SAME = {"IDENTITY"}
# Output -> input -> transformations; an input is `leaf:path`.
ColumnLineage = dict[str, dict[str, set[str]]]


def analyze(rows: DataFrame) -> PlanColumns:
    plan: Any = rows._jdf.queryExecution().analyzed()
    return plan_columns(parse_plan(plan.toJSON()))


def lineage_of(plan: PlanColumns) -> ColumnLineage:
    lineage: ColumnLineage = {}

    def add(name: str, value: Value) -> None:
        for part, each in (value.parts or {}).items():
            add(f"{name}.{part}", each)
        if value.parts and not value.inputs:
            return
        lineage[name] = {
            f"{at.leaf}:{'.'.join(at.path)}": {
                each.subtype + ("+masked" if each.masking else "") for each in transformations
            }
            for at, transformations in value.inputs.items()
        }

    for column in plan.columns:
        add(column.name, column.value)
    return lineage


def decisive(plan: PlanColumns) -> dict[str, set[str]]:
    return {
        f"{at.leaf}:{'.'.join(at.path)}": {each.subtype for each in transformations}
        for at, transformations in plan.decisive.items()
    }


@pytest.fixture
def visits(spark: SparkSession) -> DataFrame:
    fields = "id string, page string, n int, at timestamp, who struct<name:string, zip:int>"
    return spark.createDataFrame([], f"{fields}, value string")


@pytest.fixture
def ads(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], "page string, ad string")


def test_plain_columns_and_struct_fields(visits: DataFrame) -> None:
    plain = visits.select("id", F.col("who.name").alias("name"), (F.col("n") + 1).alias("m"))
    assert lineage_of(analyze(plain)) == {
        "id": {"0:id": SAME},
        "name": {"0:who.name": SAME},
        "m": {"0:n": {"TRANSFORMATION"}},
    }


def test_fields_of_json(visits: DataFrame) -> None:
    parsed = F.from_json("value", "page string, user struct<id:bigint>")
    through = visits.select(parsed.alias("p")).select(
        F.to_json(F.struct("p.page", F.col("p.user.id").alias("user"))).alias("value")
    )
    assert lineage_of(analyze(through)) == {
        "value.page": {"0:value.page": SAME},
        "value.user": {"0:value.user.id": SAME},
    }
    # A struct that is written unchanged has all of its fields.
    unchanged = visits.select(F.to_json(parsed).alias("value"))
    assert lineage_of(analyze(unchanged)) == {
        "value.page": {"0:value.page": SAME},
        "value.user.id": {"0:value.user.id": SAME},
    }

    path = visits.select(
        F.get_json_object("value", "$.a.b").alias("one"),
        F.get_json_object("value", "$.a[*]").alias("many"),
        F.get_json_object(F.lower("value"), "$.a").alias("lowered"),
    )
    assert lineage_of(analyze(path)) == {
        "one": {"0:value.a.b": SAME},
        "many": {"0:value": {"TRANSFORMATION"}},
        "lowered": {"0:value": {"TRANSFORMATION"}},
    }


def test_conditions_and_functions(visits: DataFrame) -> None:
    chosen = visits.select(
        F.when(F.col("n") > 1, F.col("page")).otherwise(F.lit("?")).alias("chosen"),
        F.coalesce("page", "id").alias("first"),
        F.sha2("id", 256).alias("hashed"),
        F.lit(1).alias("one"),
    )
    assert lineage_of(analyze(chosen)) == {
        "chosen": {"0:page": SAME, "0:n": {"CONDITIONAL"}},
        "first": {"0:page": SAME, "0:id": SAME},
        "hashed": {"0:id": {"TRANSFORMATION+masked"}},
        "one": {},
    }

    # JSON in one branch and other text in the other: both are reported.
    mixed = F.when(F.col("n") > 1, F.to_json(F.struct("page"))).otherwise(F.col("value"))
    assert lineage_of(analyze(visits.select(mixed.alias("value")))) == {
        "value.page": {"0:page": SAME, "0:n": {"CONDITIONAL"}},
        "value": {"0:value": SAME, "0:n": {"CONDITIONAL"}},
    }


def test_joins_and_unions(visits: DataFrame, ads: DataFrame) -> None:
    joined = visits.join(ads, "page", "left").where("n > 3").select("id", "ad")
    plan = analyze(joined)
    assert lineage_of(plan) == {"id": {"0:id": SAME}, "ad": {"1:ad": SAME}}
    assert decisive(plan) == {"0:page": {"JOIN"}, "1:page": {"JOIN"}, "0:n": {"FILTER"}}
    semi = visits.join(ads, "page", "left_semi").select("id")
    assert lineage_of(analyze(semi)) == {"id": {"0:id": SAME}}
    united = visits.select("page").union(ads.select("ad"))
    assert lineage_of(analyze(united)) == {"page": {"0:page": SAME, "1:ad": SAME}}


def test_aggregates_windows_and_generators(visits: DataFrame) -> None:
    grouped = visits.groupBy("page").agg(
        F.sum(F.col("n") * 2).alias("total"), F.count("id").alias("ids")
    )
    plan = analyze(grouped)
    assert lineage_of(plan) == {
        "page": {"0:page": SAME},
        "total": {"0:n": {"AGGREGATION"}},
        "ids": {"0:id": {"AGGREGATION+masked"}},
    }
    assert decisive(plan) == {"0:page": {"GROUP_BY"}}

    order = Window.partitionBy("page").orderBy("at")
    windowed = visits.select("id", F.lag("n").over(order).alias("before"))
    plan = analyze(windowed)
    assert lineage_of(plan)["before"] == {"0:n": {"TRANSFORMATION"}}
    assert decisive(plan) == {"0:page": {"WINDOW"}, "0:at": {"WINDOW"}}

    exploded = visits.select("id", F.explode(F.split("value", ",")).alias("word"))
    assert lineage_of(analyze(exploded))["word"] == {"0:value": {"TRANSFORMATION"}}
    distinct = visits.dropDuplicates(["id"])
    assert lineage_of(analyze(distinct.select("page"))) == {"page": {"0:page": SAME}}
    assert decisive(analyze(distinct)) == {"0:id": {"GROUP_BY"}}


def test_steps_that_spark_can_not_analyze_are_opaque(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "a string, b string, c string")
    plan = analyze(rows.select("a", "b").mapInPandas(lambda frames: frames, "a string"))
    assert plan.opaque == ["MapInPandas"]
    assert lineage_of(plan) == {"a": {"0:a": {"TRANSFORMATION"}, "0:b": {"TRANSFORMATION"}}}
    (column,) = plan.columns
    inputs = column.value.inputs
    assert all("opaque" in each.description for listed in inputs.values() for each in listed)
    upper = F.udf(lambda text: text.upper(), "string")
    (column,) = analyze(rows.select(upper("c").alias("c"))).columns
    ((at, transformations),) = column.value.inputs.items()
    assert at.path == ("c",)
    assert {each.description for each in transformations} == {"<lambda> is opaque"}
