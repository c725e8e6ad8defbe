"""What a plan says of the tables and columns of a user's own batch writes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.catalog_support import Catalog, fresh_database
from tests.iceberg_rest import iceberg_rest_service
from tests.lineage_events import telling, told

from headwater.collector.metadata import add_lineage_metadata
from headwater.collector.session import (
    create_spark_session_with_lineage,
    current_application,
    finish_lineage,
)
from headwater.collector.validation import check_listener_loaded
from headwater.settings import Settings
from headwater.spark.connectors import session_configuration

pytestmark = pytest.mark.spark


@pytest.fixture
def settings(headwater_settings: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    return telling(headwater_settings, catalog, spool=tmp_path / "spool")


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    finish_lineage("the test left it open")


@pytest.fixture
def jdbc_lake(postgres: str) -> dict[str, Any]:
    """Settings of a catalog that is kept in PostgreSQL."""
    database = conninfo_to_dict(fresh_database(postgres))
    return {
        "uri": "jdbc:postgresql://{host}:{port}/{dbname}".format(**database),
        "options": {"jdbc.user": database["user"], "jdbc.password": database["password"]},
    }


@pytest.fixture
def rest_lake(headwater_settings: Settings, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Settings of a catalog behind a service."""
    with iceberg_rest_service(headwater_settings, tmp_path / "lake") as uri:
        yield {"uri": uri, "options": {"token": "for-tests"}}


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_a_users_own_job_is_told_of_whatever_the_iceberg_catalog(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    kind: str,
    request: pytest.FixtureRequest,
) -> None:
    # Spark keeps a catalog that it has seen: each kind has a name of its own.
    lake = f"{kind}_lake"
    given = {"catalog": lake, "type": kind, **request.getfixturevalue(lake)}
    iceberg = settings.iceberg.model_copy(update=given)
    made = session_configuration(("iceberg",), settings.model_copy(update={"iceberg": iceberg}))
    for key, value in made.items():
        if key.startswith(f"spark.sql.catalog.{lake}"):
            spark.conf.set(key, value)
    session = create_spark_session_with_lineage("CopyNumbers", settings=settings)
    assert session is spark
    assert check_listener_loaded(session).endswith("listens")
    assert spark.conf.get("spark.openlineage.transport.url") == catalog.url
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake}.numbers")
    spark.range(10).selectExpr("id", "id * 2 AS twice").writeTo(f"{lake}.numbers.source").create()
    finish_lineage()

    create_spark_session_with_lineage("CopyNumbers", settings=settings)
    add_lineage_metadata(spark, team="numbers", facets={"acme_release": {"ticket": "REL-17"}})
    source = spark.table(f"{lake}.numbers.source").where("id > 3")
    source.selectExpr("twice AS n", "upper('x') AS x").writeTo(f"{lake}.numbers.copy").create()
    assert spark.table(f"{lake}.numbers.copy").count() == 6
    spark.table(f"{lake}.numbers.copy").collect()
    spark.sql(f"DELETE FROM {lake}.numbers.copy WHERE n = 8")  # noqa: S608
    finish_lineage()

    job = catalog.get("/namespaces/neuronews/jobs/CopyNumbers")
    assert job["facets"]["acme_release"]["ticket"] == "REL-17"
    assert job["facets"]["ownership"]["owners"][0]["name"] == "team:numbers"
    run = job["latestRun"]
    inputs, outputs = (
        [each["datasetVersionId"]["name"] for each in run[f"{part}DatasetVersions"]]
        for part in ("input", "output")
    )
    assert (inputs, outputs) == ([f"{lake}.numbers.source"], [f"{lake}.numbers.copy"])
    table = catalog.get(f"/namespaces/neuronews/datasets/{lake}.numbers.copy")
    columns = {each["name"]: each["inputFields"] for each in table["columnLineage"]}
    assert [(each["dataset"], each["field"]) for each in columns["n"]] == [
        (f"{lake}.numbers.source", "twice")
    ]


def test_rows_that_are_written_to_delta_are_counted(
    spark: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    numbers, table = str(tmp_path / "numbers"), str(tmp_path / "table")
    spark.range(100).write.parquet(numbers)
    create_spark_session_with_lineage("CountDelta", settings=settings)
    rows = spark.read.parquet(numbers)
    rows.write.format("delta").save(table)
    rows.where("id < 10").write.format("delta").mode("append").save(table)
    rows.createOrReplaceTempView("numbers")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING (SELECT id + 95 AS id FROM numbers) s "  # noqa: S608
        "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    finish_lineage()
    assert spark.read.format("delta").load(table).count() == 205
    last = told(catalog, "CountDelta")[-1]
    (output,) = [each for each in last["outputs"] if each["name"] == table]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 205
    assert output["outputFacets"]["outputStatistics"]["size"] > 0


def test_what_the_plan_says_of_columns_has_the_words_of_a_streaming_query(
    spark: SparkSession, settings: Settings, catalog: Catalog, tmp_path: Path
) -> None:
    folder = str(tmp_path / "numbers")
    spark.range(10).selectExpr("id", "id % 3 AS part").write.parquet(folder)
    rows = spark.read.parquet(folder)
    rows.createOrReplaceTempView("numbers")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.words")
    spark.sql("CREATE TABLE demo.words.a (id LONG, secret STRING, chosen LONG) USING iceberg")
    spark.sql("CREATE TABLE demo.words.m (part LONG, many LONG) USING iceberg")

    def ways(job: str, run: Callable[[], object]) -> tuple[dict[str, Any], list[Any]]:
        create_spark_session_with_lineage(job, settings=settings)
        run()
        finish_lineage()
        (output,) = told(catalog, job)[-1]["outputs"]
        columns = output["facets"]["columnLineage"]

        def listed(fields: list[dict[str, Any]]) -> list[Any]:
            return sorted(
                (
                    one["field"],
                    way["type"],
                    way["subtype"],
                    way["description"].partition(" ")[0] or way["masking"],
                )
                for one in fields
                for way in one["transformations"]
            )

        made = {name: listed(each["inputFields"]) for name, each in columns["fields"].items()}
        return made, listed(columns.get("dataset") or [])

    chosen = "CASE WHEN part = 1 THEN id ELSE -1L END AS chosen"
    appended = rows.selectExpr("coalesce(id, 0L) AS id", "sha2(string(id), 256) AS secret", chosen)
    assert ways("Append", lambda: appended.writeTo("demo.words.a").append()) == (
        {
            "id": [("id", "DIRECT", "IDENTITY", False)],
            "secret": [("id", "DIRECT", "TRANSFORMATION", True)],
            "chosen": [
                ("id", "DIRECT", "IDENTITY", False),
                ("part", "INDIRECT", "CONDITIONAL", False),
            ],
        },
        [],
    )
    # What a step does that Spark can't look into, any of its columns may be in.
    seen = rows.withColumnRenamed("id", "many").mapInPandas(
        lambda parts: parts, "part LONG, many LONG"
    )
    seen.createOrReplaceTempView("seen")
    largest = "(SELECT part, (SELECT max(id) FROM numbers) AS many FROM numbers)"
    anything = [("id", "DIRECT", "TRANSFORMATION", "MapInPandas")]
    delete = "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    for job, source, more, many in (
        # Spark makes an append of it, of which the listener tells.
        ("Opaque append", "seen", "", anything),
        ("Opaque merge", "seen", delete, anything),
        ("Largest", largest, delete, [("id", "DIRECT", "AGGREGATION", False)]),
    ):
        insert = (
            f"MERGE INTO demo.words.m t USING {source} s "
            f"ON t.part = s.part WHEN NOT MATCHED THEN INSERT * {more}"
        )
        fields, decisive = ways(job, functools.partial(spark.sql, insert))
        assert [each for each in fields["many"] if each[0] == "id"] == many
        assert not more or {each[2] for each in decisive} == {"JOIN"}
    merge = (
        "MERGE INTO demo.words.m t "
        "USING (SELECT part, count(id) AS many FROM numbers "
        "WHERE id > (SELECT min(part) FROM numbers) GROUP BY part) s "
        "ON t.part = s.part WHEN MATCHED AND s.many > 1 THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert ways("Merge", lambda: spark.sql(merge)) == (
        {
            "part": [("part", "DIRECT", "IDENTITY", False)],
            "many": [("id", "DIRECT", "AGGREGATION", True)],
        },
        [
            ("id", "INDIRECT", "CONDITIONAL", False),
            ("id", "INDIRECT", "FILTER", False),
            ("part", "INDIRECT", "FILTER", False),
            ("part", "INDIRECT", "GROUP_BY", False),
            ("part", "INDIRECT", "JOIN", False),
        ],
    )


def test_the_listener_is_asked_only_where_the_plan_does_not_say_all(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = str(tmp_path / "numbers")
    # In one file: a merge writes files anew that it changes.
    spark.range(10).selectExpr("id", "id % 3 AS part").coalesce(1).write.parquet(folder)
    rows = spark.read.parquet(folder)
    rows.createOrReplaceTempView("numbers")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.asked")
    rows.limit(0).writeTo("demo.asked.target").createOrReplace()
    rows.where("part = 2").write.format("delta").save(str(tmp_path / "delta"))
    create_spark_session_with_lineage("WhoTells", settings=settings)
    application = current_application(spark)
    assert application is not None
    heard: list[dict[str, Any]] = []
    take = application.lineage.take

    def listen(told: dict[str, Any]) -> None:
        heard.append(told)
        take(told)

    monkeypatch.setattr(application.lineage, "take", listen)

    rows.select("id", "part").writeTo("demo.asked.target").append()
    spark.sql(
        "MERGE INTO demo.asked.target t USING (SELECT id + 5 AS id, part FROM numbers) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    # Of a filter the listener says which columns it looks at; of a query in it, what it reads.
    rows.where("part = 1").writeTo("demo.asked.target").append()
    spark.sql(
        "INSERT INTO demo.asked.target SELECT * FROM numbers "
        "WHERE id IN (SELECT max(id) FROM demo.asked.target)"
    )
    # A Delta table that is read by its folder is more than files.
    delta = spark.read.format("delta").load(str(tmp_path / "delta"))
    delta.writeTo("demo.asked.target").append()
    spark.table("demo.asked.target").writeTo("demo.asked.copy").createOrReplace()
    finish_lineage()

    ends = [each for each in heard if each.get("state") == "END" and not each["nested"]]
    assert [each["alone"] for each in ends] == [True, True, False, False, False, False]
    by_listener = {
        each["execution"]
        for each in heard
        if "event" in each and each["event"]["eventType"] == "COMPLETE"
    }
    assert [each["execution"] in by_listener for each in ends] == [
        not each["alone"] for each in ends
    ]
    events = told(catalog, "WhoTells")
    decisive = {
        each["field"]
        for event in events
        for output in event["outputs"]
        for each in (output["facets"].get("columnLineage") or {}).get("dataset", ())
    }
    assert {"part", "id"} <= decisive
    outputs = {each["name"]: each for each in events[-1]["outputs"]}
    counts = {
        name: each["outputFacets"]["outputStatistics"]["rowCount"] for name, each in outputs.items()
    }
    # 10 rows, the same with 5 new ones, 3 of each part, none; and what is there then.
    there = spark.table("demo.asked.target").count()
    assert counts == {"demo.asked.target": there + 10, "demo.asked.copy": there}


def test_the_snapshot_is_told_that_was_read_and_the_one_that_was_written(
    spark: SparkSession, settings: Settings, catalog: Catalog
) -> None:
    def newest(table: str) -> str:
        history = spark.sql(f"SELECT snapshot_id FROM {table}.history ORDER BY made_current_at")  # noqa: S608
        return str(history.collect()[-1][0])

    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.past")
    spark.range(3).writeTo("demo.past.source").createOrReplace()
    first = newest("demo.past.source")
    spark.range(3).writeTo("demo.past.source").append()
    spark.range(0).writeTo("demo.past.copy").createOrReplace()
    create_spark_session_with_lineage("ReadThePast", settings=settings)
    # A mistake that the program catches is none of lineage's.
    with pytest.raises(AnalysisException):
        spark.table("demo.past.nowhere")
    before = f"SELECT * FROM demo.past.source VERSION AS OF {first}"  # noqa: S608
    spark.sql(f"INSERT INTO demo.past.copy {before}")
    finish_lineage()
    assert spark.table("demo.past.copy").count() == 3
    last = told(catalog, "ReadThePast")[-1]
    assert last["eventType"] == "COMPLETE"
    versions = {
        each["name"]: each["facets"]["version"]["datasetVersion"]
        for each in (*last["inputs"], *last["outputs"])
    }
    assert versions == {"demo.past.source": first, "demo.past.copy": newest("demo.past.copy")}
