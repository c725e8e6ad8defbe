"""Column lineage through the steps of Spark's plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from headwater.collector.columns import PlanColumns, Value, describe, plan_columns

pytestmark = [pytest.mark.spark, pytest.mark.lines]

SAME = {"IDENTITY"}
# Output -> input -> transformations; an input is `leaf:path`.
ColumnLineage = dict[str, dict[str, set[str]]]


def analyze(rows: DataFrame) -> PlanColumns:
    plan: Any = rows._jdf.queryExecution().analyzed()
    return plan_columns(plan)


def lineage_of(plan: PlanColumns) -> ColumnLineage:
    lineage: ColumnLineage = {}

    def add(name: str, value: Value) -> None:
        parts = value.get("parts", {})
        for part, each in parts.items():
            add(f"{name}.{part}", each)
        if not parts or value["inputs"]:
            lineage[name] = transformations(value["inputs"])

    for column in plan["columns"]:
        add(column["name"], column["value"])
    return lineage


def transformations(inputs: list[Any]) -> dict[str, set[str]]:
    return {
        f"{each['leaf']}:{'.'.join(each['path'])}": {
            one["subtype"] + ("+masked" if one["masking"] else "")
            for one in each["transformations"]
        }
        for each in inputs
    }


def decisive(plan: PlanColumns) -> dict[str, set[str]]:
    return transformations(plan["decisive"])


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


def test_json_that_the_plan_makes_and_parses_again_keeps_its_fields(visits: DataFrame) -> None:
    made = visits.select(F.to_json(F.struct("page", F.col("n").alias("m"))).alias("v"))
    parsed = made.select(F.from_json("v", "page string, other string").alias("p"), "v")
    plan = analyze(parsed.select("p.page", "p.other", F.get_json_object("v", "$.m").alias("m")))
    assert lineage_of(plan) == {"page": {"0:page": SAME}, "other": {}, "m": {"0:n": SAME}}
    types = [column["value"]["type"] for column in plan["columns"]]
    assert types == ["string", "string", "string"]

    # A struct that is either made or read: its fields depend on both.
    made_or_read = F.coalesce(F.struct(F.col("id").alias("name"), F.col("n").alias("zip")), "who")
    plan = analyze(visits.select(made_or_read.alias("s")).select("s.name"))
    assert lineage_of(plan) == {"name": {"0:id": SAME, "0:who.name": SAME}}


def test_subqueries_and_common_table_expressions(
    spark: SparkSession, visits: DataFrame, ads: DataFrame
) -> None:
    visits.createOrReplaceTempView("visits")
    ads.createOrReplaceTempView("ads")
    # The references to a common table expression are leaves, too: 2 and 3.
    common = analyze(
        spark.sql(
            "WITH v AS (SELECT page, n + 1 AS m, id FROM visits), "
            "c AS (SELECT page, max(m) AS m FROM v GROUP BY page) "
            "SELECT v.id, c.m FROM v JOIN c ON v.page = c.page"
        )
    )
    assert lineage_of(common) == {"id": {"0:id": SAME}, "m": {"0:n": {"AGGREGATION"}}}
    assert decisive(common) == {"0:page": {"GROUP_BY", "JOIN"}}

    # Leaves of subqueries are numbered after those of the plan.
    scalar = analyze(
        spark.sql(
            "SELECT id, (SELECT max(ad) FROM ads WHERE ads.page = visits.page) AS ad FROM visits"
        )
    )
    assert lineage_of(scalar) == {"id": {"0:id": SAME}, "ad": {"1:ad": {"AGGREGATION"}}}
    assert decisive(scalar) == {"1:page": {"FILTER"}, "0:page": {"FILTER"}}
    contained = analyze(spark.sql("SELECT id FROM visits WHERE page IN (SELECT page FROM ads)"))
    assert lineage_of(contained) == {"id": {"0:id": SAME}}
    assert decisive(contained) == {"1:page": {"FILTER"}, "0:page": {"FILTER"}}
    lateral = analyze(
        spark.sql(
            "SELECT id, x FROM visits JOIN LATERAL "
            "(SELECT ad, upper(visits.page) AS x FROM ads) ON ad = id"
        )
    )
    assert lineage_of(lateral) == {"id": {"0:id": SAME}, "x": {"0:page": {"TRANSFORMATION"}}}
    assert decisive(lateral) == {
        "1:ad": {"FILTER", "JOIN"},
        "0:page": {"FILTER"},
        "0:id": {"JOIN"},
    }


def test_a_streaming_query_has_the_inputs_of_its_subqueries(
    spark: SparkSession, visits: DataFrame, ads: DataFrame, tmp_path: Path
) -> None:
    for name, rows in (("visits", visits), ("ads", ads)):
        rows.write.parquet(str(tmp_path / name))
    spark.readStream.schema(visits.schema).parquet(
        str(tmp_path / "visits")
    ).createOrReplaceTempView("read")
    spark.read.parquet(str(tmp_path / "ads")).createOrReplaceTempView("known_ads")
    rows = spark.sql("SELECT id, (SELECT max(ad) FROM known_ads) AS ad FROM read")
    description = describe(rows)
    assert rows.isStreaming
    assert description.trouble is None
    names = [each["name"].rpartition("/")[2] for each in description.inputs]
    assert names == ["visits", "ads"]
    fields = description.output_facets["columnLineage"]["fields"]
    inputs = {name: each["inputFields"] for name, each in fields.items()}
    assert {name: (each["name"], each["field"]) for name, (each,) in inputs.items()} == {
        "id": (f"{tmp_path}/visits", "id"),
        "ad": (f"{tmp_path}/ads", "ad"),
    }


def test_steps_that_change_the_number_of_rows_or_columns(visits: DataFrame, ads: DataFrame) -> None:
    in_time = visits.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["id"])
    assert decisive(analyze(in_time)) == {"0:id": {"GROUP_BY"}}
    remaining = analyze(visits.select("id").exceptAll(ads.select("ad")))
    assert lineage_of(remaining) == {"id": {"0:id": SAME}}
    assert decisive(remaining) == {"1:ad": {"FILTER"}}
    unpivoted = visits.unpivot("id", ["page", "value"], "name", "text")
    assert lineage_of(analyze(unpivoted)) == {
        "id": {"0:id": SAME},
        "name": {},
        "text": {"0:page": SAME, "0:value": SAME},
    }
    shown = ads.withColumn("shown", F.length("ad"))
    nearest: Any = visits._joinAsOf(shown, "n", "shown")
    assert decisive(analyze(nearest.select("id"))) == {"0:n": {"JOIN"}, "1:ad": {"JOIN"}}
    rolled_up = analyze(visits.rollup("page").agg(F.approx_count_distinct("id").alias("ids")))
    assert lineage_of(rolled_up) == {
        "page": {"0:page": SAME},
        "ids": {"0:id": {"AGGREGATION+masked"}},
    }


def test_an_expression_of_any_depth_is_traced(visits: DataFrame) -> None:
    deep = F.expr("length(page)" + " + n" * 250)
    assert lineage_of(analyze(visits.select(deep.alias("sum")))) == {
        "sum": {"0:n": {"TRANSFORMATION"}, "0:page": {"TRANSFORMATION"}}
    }


def test_steps_that_spark_can_not_analyze_are_opaque(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "a string, b string, c string")
    plan = analyze(rows.select("a", "b").mapInPandas(lambda frames: frames, "a string"))
    assert plan["opaque"] == ["MapInPandas"]
    assert lineage_of(plan) == {"a": {"0:a": {"TRANSFORMATION"}, "0:b": {"TRANSFORMATION"}}}
    assert all("opaque" in each for each in descriptions(plan))
    upper = F.udf(lambda text: text.upper(), "string")
    plan = analyze(rows.select(upper("c").alias("c")))
    assert lineage_of(plan) == {"c": {"0:c": {"TRANSFORMATION"}}}
    assert descriptions(plan) == ["<lambda> is opaque"]


def descriptions(plan: PlanColumns) -> list[str]:
    return [
        one["description"]
        for column in plan["columns"]
        for each in column["value"]["inputs"]
        for one in each["transformations"]
    ]
