"""Which input fields an output column is made from, step by step of Spark's plans."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headwater.collector.columns import PlanColumns, plan_columns
from headwater.collector.plan import parse_plan
from headwater.collector.values import Value

pytestmark = pytest.mark.spark

# Output -> input -> kinds of dependency; an input is `leaf:path`.
Found = dict[str, dict[str, set[str]]]


def look(rows: DataFrame) -> PlanColumns:
    plan: Any = rows._jdf.queryExecution().analyzed()
    return plan_columns(parse_plan(plan.toJSON()))


def told(plan: PlanColumns) -> Found:
    found: Found = {}

    def add(name: str, value: Value) -> None:
        for part, each in (value.parts or {}).items():
            add(f"{name}.{part}", each)
        if value.parts and not value.inputs:
            return
        found[name] = {
            f"{at.leaf}:{'.'.join(at.path)}": {
                way.subtype + ("+masked" if way.masking else "") for way in ways
            }
            for at, ways in value.inputs.items()
        }

    for column in plan.columns:
        add(column.name, column.value)
    return found


def decisive(plan: PlanColumns) -> dict[str, set[str]]:
    return {
        f"{at.leaf}:{'.'.join(at.path)}": {way.subtype for way in ways}
        for at, ways in plan.decisive.items()
    }


def test_columns_are_followed_through_every_step(spark: SparkSession) -> None:
    fields = "id string, page string, n int, at timestamp, who struct<name:string, zip:int>"
    visits = spark.createDataFrame([], f"{fields}, value string")
    ads = spark.createDataFrame([], "page string, ad string")
    same = {"IDENTITY"}

    plain = visits.select("id", F.col("who.name").alias("name"), (F.col("n") + 1).alias("m"))
    assert told(look(plain)) == {
        "id": {"0:id": same},
        "name": {"0:who.name": same},
        "m": {"0:n": {"TRANSFORMATION"}},
    }

    parsed = F.from_json("value", "page string, user struct<id:bigint>")
    through = visits.select(parsed.alias("p")).select(
        F.to_json(F.struct("p.page", F.col("p.user.id").alias("user"))).alias("value")
    )
    assert told(look(through)) == {
        "value.page": {"0:value.page": same},
        "value.user": {"0:value.user.id": same},
    }
    # A struct that is written as it was read has all of its fields.
    whole = visits.select(F.to_json(parsed).alias("value"))
    assert told(look(whole)) == {
        "value.page": {"0:value.page": same},
        "value.user.id": {"0:value.user.id": same},
    }

    path = visits.select(
        F.get_json_object("value", "$.a.b").alias("one"),
        F.get_json_object("value", "$.a[*]").alias("many"),
        F.get_json_object(F.lower("value"), "$.a").alias("lowered"),
    )
    assert told(look(path)) == {
        "one": {"0:value.a.b": same},
        "many": {"0:value": {"TRANSFORMATION"}},
        "lowered": {"0:value": {"TRANSFORMATION"}},
    }

    chosen = visits.select(
        F.when(F.col("n") > 1, F.col("page")).otherwise(F.lit("?")).alias("chosen"),
        F.coalesce("page", "id").alias("first"),
        F.sha2("id", 256).alias("hashed"),
        F.lit(1).alias("one"),
    )
    assert told(look(chosen)) == {
        "chosen": {"0:page": same, "0:n": {"CONDITIONAL"}},
        "first": {"0:page": same, "0:id": same},
        "hashed": {"0:id": {"TRANSFORMATION+masked"}},
        "one": {},
    }

    # JSON in one branch and other text in the other: both are told.
    mixed = F.when(F.col("n") > 1, F.to_json(F.struct("page"))).otherwise(F.col("value"))
    assert told(look(visits.select(mixed.alias("value")))) == {
        "value.page": {"0:page": same, "0:n": {"CONDITIONAL"}},
        "value": {"0:value": same, "0:n": {"CONDITIONAL"}},
    }

    joined = visits.join(ads, "page", "left").where("n > 3").select("id", "ad")
    plan = look(joined)
    assert told(plan) == {"id": {"0:id": same}, "ad": {"1:ad": same}}
    assert decisive(plan) == {"0:page": {"JOIN"}, "1:page": {"JOIN"}, "0:n": {"FILTER"}}
    only = visits.join(ads, "page", "left_semi").select("id")
    assert told(look(only)) == {"id": {"0:id": same}}

    grouped = visits.groupBy("page").agg(
        F.sum(F.col("n") * 2).alias("total"), F.count("id").alias("ids")
    )
    plan = look(grouped)
    assert told(plan) == {
        "page": {"0:page": same},
        "total": {"0:n": {"AGGREGATION"}},
        "ids": {"0:id": {"AGGREGATION+masked"}},
    }
    assert decisive(plan) == {"0:page": {"GROUP_BY"}}

    united = visits.select("page").union(ads.select("ad"))
    assert told(look(united)) == {"page": {"0:page": same, "1:ad": same}}

    order = Window.partitionBy("page").orderBy("at")
    windowed = visits.select("id", F.lag("n").over(order).alias("before"))
    plan = look(windowed)
    assert told(plan)["before"] == {"0:n": {"TRANSFORMATION"}}
    assert decisive(plan) == {"0:page": {"WINDOW"}, "0:at": {"WINDOW"}}

    exploded = visits.select("id", F.explode(F.split("value", ",")).alias("word"))
    assert told(look(exploded))["word"] == {"0:value": {"TRANSFORMATION"}}
    assert told(look(visits.dropDuplicates(["id"]).select("page"))) == {"page": {"0:page": same}}
    assert decisive(look(visits.dropDuplicates(["id"]))) == {"0:id": {"GROUP_BY"}}


def test_what_spark_can_not_look_into_is_said_to_be_opaque(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "a string, b string, c string")
    plan = look(rows.select("a", "b").mapInPandas(lambda frames: frames, "a string"))
    assert plan.opaque == ["MapInPandas"]
    assert told(plan) == {"a": {"0:a": {"TRANSFORMATION"}, "0:b": {"TRANSFORMATION"}}}
    (column,) = plan.columns
    assert all("opaque" in way.description for ways in column.value.inputs.values() for way in ways)
    upper = F.udf(lambda text: text.upper(), "string")
    (column,) = look(rows.select(upper("c").alias("c"))).columns
    ((at, ways),) = column.value.inputs.items()
    assert at.path == ("c",)
    assert {way.description for way in ways} == {"<lambda> is opaque"}
