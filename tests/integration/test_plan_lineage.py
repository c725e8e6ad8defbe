"""Tables and columns of users' batch writes, read from their plans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.catalog_support import Catalog, fresh_database
from tests.iceberg_rest import iceberg_rest_service
from tests.lineage_events import emitted, reporting_to
from tests.lines.environments import needs_iceberg

from headwater.collector.metadata import add_lineage_metadata
from headwater.collector.session import (
    create_spark_session_with_lineage,
    current_application,
    finish_lineage,
)
from headwater.collector.validation import check_listener_loaded
from headwater.settings import Settings
from headwater.spark.configuration import session_configuration

pytestmark = [pytest.mark.spark, needs_iceberg]


@pytest.fixture
def settings(headwater_settings: Settings, catalog: Catalog, tmp_path: Path) -> Settings:
    return reporting_to(catalog, headwater_settings, spool=tmp_path / "spool")


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    finish_lineage("the test left it open")


@pytest.fixture
def jdbc_lake(postgres: str) -> dict[str, Any]:
    """Settings of an Iceberg catalog in PostgreSQL."""
    database = conninfo_to_dict(fresh_database(postgres))
    return {
        "uri": "jdbc:postgresql://{host}:{port}/{dbname}".format(**database),
        "options": {"jdbc.user": database["user"], "jdbc.password": database["password"]},
    }


@pytest.fixture
def rest_lake(headwater_settings: Settings, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Settings of an Iceberg REST catalog."""
    with iceberg_rest_service(headwater_settings, tmp_path / "lake") as uri:
        yield {"uri": uri, "options": {"token": "for-tests"}}


@pytest.mark.parametrize("kind", ["jdbc", "rest"])
def test_a_job_is_reported_with_every_kind_of_iceberg_catalog(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    kind: str,
    request: pytest.FixtureRequest,
) -> None:
    # Spark caches catalogs by name: each kind needs another name.
    lake = f"{kind}_lake"
    options = {"catalog": lake, "type": kind, **request.getfixturevalue(lake)}
    changed = {"iceberg": settings.iceberg.model_copy(update=options)}
    configuration = session_configuration(("iceberg",), settings.model_copy(update=changed))
    for key, value in configuration.items():
        if key.startswith(f"spark.sql.catalog.{lake}"):
            spark.conf.set(key, value)
    session = create_spark_session_with_lineage("CopyNumbers", settings=settings)
    assert session is spark
    assert check_listener_loaded(session).endswith("is registered")
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

    job = catalog.get("/namespaces/default/jobs/CopyNumbers")
    assert job["facets"]["acme_release"]["ticket"] == "REL-17"
    assert job["facets"]["ownership"]["owners"][0]["name"] == "team:numbers"
    run = job["latestRun"]
    inputs, outputs = (
        [each["datasetVersionId"]["name"] for each in run[f"{part}DatasetVersions"]]
        for part in ("input", "output")
    )
    assert (inputs, outputs) == ([f"{lake}.numbers.source"], [f"{lake}.numbers.copy"])
    table = catalog.get(f"/namespaces/default/datasets/{lake}.numbers.copy")
    columns = {each["name"]: each["inputFields"] for each in table["columnLineage"]}
    assert [(each["dataset"], each["field"]) for each in columns["n"]] == [
        (f"{lake}.numbers.source", "twice")
    ]


def test_rows_written_to_delta_are_counted(
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
    last = emitted(catalog, "CountDelta")[-1]
    (output,) = [each for each in last["outputs"] if each["name"] == table]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 205
    assert output["outputFacets"]["outputStatistics"]["size"] > 0


# Field, type, subtype, and the first word of the description or else masking.
Transformation = tuple[str, str, str, Any]
ColumnLineage = tuple[dict[str, list[Transformation]], list[Transformation]]
ColumnLineageOf = Callable[[str, Callable[[], object]], ColumnLineage]


def listed(fields: list[dict[str, Any]]) -> list[Transformation]:
    return sorted(
        (
            field["field"],
            each["type"],
            each["subtype"],
            each["description"].partition(" ")[0] or each["masking"],
        )
        for field in fields
        for each in field["transformations"]
    )


@pytest.fixture
def column_lineage(settings: Settings, catalog: Catalog) -> ColumnLineageOf:
    """Runs a job; returns the column lineage of its output, and the inputs of all columns."""

    def run(job: str, write: Callable[[], object]) -> ColumnLineage:
        create_spark_session_with_lineage(job, settings=settings)
        write()
        finish_lineage()
        (output,) = emitted(catalog, job)[-1]["outputs"]
        columns = output["facets"]["columnLineage"]
        fields = {name: listed(each["inputFields"]) for name, each in columns["fields"].items()}
        return fields, listed(columns.get("dataset") or [])

    return run


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A source with a temporary view, and two Iceberg tables."""
    folder = str(tmp_path / "numbers")
    spark.range(10).selectExpr("id", "id % 3 AS part").write.parquet(folder)
    rows = spark.read.parquet(folder)
    rows.createOrReplaceTempView("numbers")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.words")
    for name, columns in (
        ("a", "id LONG, secret STRING, chosen LONG"),
        ("m", "part LONG, many LONG"),
    ):
        spark.sql(f"DROP TABLE IF EXISTS demo.words.{name} PURGE")
        spark.sql(f"CREATE TABLE demo.words.{name} ({columns}) USING iceberg")
    return rows


@pytest.mark.lines
def test_column_lineage_of_an_append(column_lineage: ColumnLineageOf, numbers: DataFrame) -> None:
    chosen = "CASE WHEN part = 1 THEN id ELSE -1L END AS chosen"
    columns = ("coalesce(id, 0L) AS id", "sha2(string(id), 256) AS secret", chosen)
    appended = numbers.selectExpr(*columns)
    assert column_lineage("Append", lambda: appended.writeTo("demo.words.a").append()) == (
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


def test_column_lineage_of_json_structs_and_functions_in_an_append(
    column_lineage: ColumnLineageOf, numbers: DataFrame
) -> None:
    secret = F.udf(lambda number: str(number))
    made = numbers.withColumn("json", F.to_json(F.struct("id", "part")))
    parsed = F.from_json("json", "id long, part long")
    appended = made.select(
        parsed["id"].alias("id"),
        secret("part").alias("secret"),
        F.struct("id", F.struct("part").alias("inner"))["inner"]["part"].alias("chosen"),
    )
    assert column_lineage("Json append", lambda: appended.writeTo("demo.words.a").append()) == (
        {
            "id": [("id", "DIRECT", "IDENTITY", False)],
            "secret": [("part", "DIRECT", "TRANSFORMATION", "<lambda>")],
            "chosen": [("part", "DIRECT", "IDENTITY", False)],
        },
        [],
    )


def test_column_lineage_of_opaque_steps_and_subqueries(
    spark: SparkSession, column_lineage: ColumnLineageOf, numbers: DataFrame
) -> None:
    opaque = numbers.withColumnRenamed("id", "many").mapInPandas(
        lambda parts: parts, "part LONG, many LONG"
    )
    opaque.createOrReplaceTempView("opaque")
    largest = "(SELECT part, (SELECT max(id) FROM numbers) AS many FROM numbers)"
    anything = [("id", "DIRECT", "TRANSFORMATION", "MapInPandas")]
    delete = "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    for job, source, more, many in (
        # Spark plans this merge as an append, which the listener reports.
        ("Opaque append", "opaque", "", anything),
        ("Opaque merge", "opaque", delete, anything),
        ("Largest", largest, delete, [("id", "DIRECT", "AGGREGATION", False)]),
    ):
        insert = (
            f"MERGE INTO demo.words.m t USING {source} s "
            f"ON t.part = s.part WHEN NOT MATCHED THEN INSERT * {more}"
        )
        fields, decisive = column_lineage(job, functools.partial(spark.sql, insert))
        assert [each for each in fields["many"] if each[0] == "id"] == many
        assert not more or {each[2] for each in decisive} == {"JOIN"}


@pytest.mark.lines
def test_column_lineage_of_a_merge(
    spark: SparkSession, column_lineage: ColumnLineageOf, numbers: DataFrame
) -> None:
    merge = (
        "MERGE INTO demo.words.m t "
        "USING (SELECT part, count(id) AS many FROM numbers "
        "WHERE id > (SELECT min(part) FROM numbers) GROUP BY part) s "
        "ON t.part = s.part WHEN MATCHED AND s.many > 1 THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert column_lineage("Merge", lambda: spark.sql(merge)) == (
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


def write_in_several_ways(spark: SparkSession, rows: DataFrame, delta_path: str) -> None:
    """Two writes whose plan has everything, and four that need the listener."""
    rows.select("id", "part").writeTo("demo.analyzed.target").append()
    spark.sql(
        "MERGE INTO demo.analyzed.target t USING (SELECT id + 5 AS id, part FROM numbers) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    # The listener reports the columns of a filter, and the inputs of a subquery.
    rows.where("part = 1").writeTo("demo.analyzed.target").append()
    spark.sql(
        "INSERT INTO demo.analyzed.target SELECT * FROM numbers "
        "WHERE id IN (SELECT max(id) FROM demo.analyzed.target)"
    )
    # A Delta table is more than its files.
    delta = spark.read.format("delta").load(delta_path)
    delta.writeTo("demo.analyzed.target").append()
    spark.table("demo.analyzed.target").writeTo("demo.analyzed.copy").createOrReplace()


def test_the_listener_analyzes_only_writes_whose_plan_is_not_enough(
    spark: SparkSession,
    settings: Settings,
    catalog: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = str(tmp_path / "numbers")
    # In one file: a merge rewrites the files that it changes.
    spark.range(10).selectExpr("id", "id % 3 AS part").coalesce(1).write.parquet(folder)
    rows = spark.read.parquet(folder)
    rows.createOrReplaceTempView("numbers")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.analyzed")
    rows.limit(0).writeTo("demo.analyzed.target").createOrReplace()
    rows.where("part = 2").write.format("delta").save(str(tmp_path / "delta"))
    create_spark_session_with_lineage("ManyWrites", settings=settings)
    application = current_application(spark)
    assert application is not None
    entries: list[dict[str, Any]] = []
    take = application.lineage.take

    def record(entry: dict[str, Any]) -> None:
        entries.append(entry)
        take(entry)

    monkeypatch.setattr(application.lineage, "take", record)
    write_in_several_ways(spark, rows, str(tmp_path / "delta"))
    finish_lineage()

    ends = [each for each in entries if each.get("state") == "END" and not each["nested"]]
    assert [each["alone"] for each in ends] == [True, True, False, False, False, False]
    by_listener = {
        each["execution"]
        for each in entries
        if "event" in each and each["event"]["eventType"] == "COMPLETE"
    }
    assert [each["execution"] in by_listener for each in ends] == [
        not each["alone"] for each in ends
    ]
    check_columns_and_rows(spark, emitted(catalog, "ManyWrites"))


def check_columns_and_rows(spark: SparkSession, events: list[dict[str, Any]]) -> None:
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
    # The merge writes the 10 existing rows again.
    rows = spark.table("demo.analyzed.target").count()
    assert counts == {"demo.analyzed.target": rows + 10, "demo.analyzed.copy": rows}


@pytest.mark.lines
def test_the_snapshots_that_were_read_and_written_are_reported(
    spark: SparkSession, settings: Settings, catalog: Catalog
) -> None:
    def latest(table: str) -> str:
        history = spark.sql(f"SELECT snapshot_id FROM {table}.history ORDER BY made_current_at")  # noqa: S608
        return str(history.collect()[-1][0])

    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.past")
    spark.range(3).writeTo("demo.past.source").createOrReplace()
    first = latest("demo.past.source")
    spark.range(3).writeTo("demo.past.source").append()
    spark.range(0).writeTo("demo.past.copy").createOrReplace()
    create_spark_session_with_lineage("ReadTheSnapshot", settings=settings)
    # An error that the program catches does not affect its lineage.
    with pytest.raises(AnalysisException):
        spark.table("demo.past.nowhere")
    before = f"SELECT * FROM demo.past.source VERSION AS OF {first}"  # noqa: S608
    spark.sql(f"INSERT INTO demo.past.copy {before}")
    finish_lineage()
    assert spark.table("demo.past.copy").count() == 3
    last = emitted(catalog, "ReadTheSnapshot")[-1]
    assert last["eventType"] == "COMPLETE"
    versions = {
        each["name"]: each["facets"]["version"]["datasetVersion"]
        for each in (*last["inputs"], *last["outputs"])
    }
    assert versions == {"demo.past.source": first, "demo.past.copy": latest("demo.past.copy")}
