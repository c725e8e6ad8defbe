"""Each kind of batch write is reported, also those that the listener does not support."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.catalog_support import Catalog
from tests.lineage_events import emitted, reporting_to
from tests.lines.environments import needs_iceberg

from headwater.collector.session import create_spark_session_with_lineage, finish_lineage
from headwater.settings import Settings

pytestmark = [pytest.mark.spark, needs_iceberg]

Job = Callable[[str, Callable[[], object]], dict[str, Any]]


@pytest.fixture
def report(
    spark: SparkSession, headwater_settings: Settings, catalog: Catalog, tmp_path: Path
) -> Iterator[Job]:
    """Runs a job and returns its last event in the catalog."""
    settings = reporting_to(catalog, headwater_settings, spool=tmp_path / "spool")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS demo.writes")
    spark.range(20).selectExpr("id", "id % 3 AS part").write.parquet(str(tmp_path / "in"))

    def run(name: str, write: Callable[[], object]) -> dict[str, Any]:
        create_spark_session_with_lineage(name, settings=settings)
        write()
        finish_lineage()
        return emitted(catalog, name)[-1]

    yield run
    finish_lineage("the test left it open")


def sides(event: dict[str, Any]) -> tuple[list[str], list[str]]:
    inputs, outputs = (sorted(each["name"] for each in event[s]) for s in ("inputs", "outputs"))
    return inputs, outputs


def output(event: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in event["outputs"] if each["name"] == name]
    return dict(found)


def rows_of(dataset: dict[str, Any]) -> int | None:
    statistics = (dataset.get("outputFacets") or {}).get("outputStatistics") or {}
    return statistics.get("rowCount")


def columns_of(dataset: dict[str, Any]) -> dict[str, set[str]]:
    fields = dataset["facets"]["columnLineage"]["fields"]
    return {name: {each["field"] for each in one["inputFields"]} for name, one in fields.items()}


def test_files_written_after_a_shuffle_have_columns_and_rows(
    spark: SparkSession, report: Job, tmp_path: Path
) -> None:
    source, files = str(tmp_path / "in"), str(tmp_path / "files")
    rows = spark.read.parquet(source)
    grouped = rows.groupBy("part").agg(F.sum("id").alias("total"))
    event = report("Grouped", lambda: grouped.write.parquet(files))
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    assert (event["eventType"], *sides(event)) == ("COMPLETE", [source], [files])
    written = output(event, files)
    assert rows_of(written) == 3
    assert columns_of(written) == {"part": {"part"}, "total": {"id"}}
    assert [each["name"] for each in written["facets"]["schema"]["fields"]] == ["part", "total"]

    # Also with a Python UDF.
    twice = F.udf(lambda number: number * 2, "long")
    more = str(tmp_path / "more")
    changed = rows.select("part", twice("id").alias("twice"))
    event = report("Changed", lambda: changed.write.json(more))
    assert columns_of(output(event, more)) == {"part": {"part"}, "twice": {"id"}}


def test_a_table_of_any_catalog_is_an_input(
    spark: SparkSession, report: Job, tmp_path: Path
) -> None:
    # A catalog that the listener does not support.
    kind = "org.apache.iceberg.inmemory.InMemoryCatalog"
    spark.conf.set("spark.sql.catalog.mem", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.mem.catalog-impl", kind)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS mem.n")
    spark.range(5).writeTo("mem.n.t").create()
    files, delta = str(tmp_path / "files"), str(tmp_path / "delta")
    spark.range(3).write.format("delta").save(delta)
    event = report("ToFiles", lambda: spark.table("mem.n.t").write.parquet(files))
    assert sides(event) == (["mem.n.t"], [files])
    assert columns_of(output(event, files)) == {"id": {"id"}}

    spark.sql("CREATE OR REPLACE TEMP VIEW seen AS SELECT id FROM mem.n.t")
    merge = (
        f"MERGE INTO delta.`{delta}` t USING seen s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert sides(report("IntoDelta", lambda: spark.sql(merge))) == (["mem.n.t"], [delta])
    again = "INSERT INTO demo.writes.itself SELECT id + 100 AS id FROM demo.writes.itself"
    spark.range(4).writeTo("demo.writes.itself").create()
    event = report("Itself", lambda: spark.sql(again))
    assert sides(event) == (["demo.writes.itself"], ["demo.writes.itself"])
    assert columns_of(event["outputs"][0]) == {"id": {"id"}}


def test_an_rdd_that_is_saved_without_a_query_is_reported(
    spark: SparkSession, report: Job, tmp_path: Path
) -> None:
    source, files = tmp_path / "lines", tmp_path / "rdd"
    source.mkdir()
    (source / "part-0").write_text("a\nb\n")
    lines = spark.sparkContext.textFile(str(source))
    event = report("Rdd", lambda: lines.saveAsTextFile(str(files)))
    assert (event["eventType"], *sides(event)) == ("COMPLETE", [str(source)], [str(files)])


def test_a_failed_write_that_was_caught_is_not_reported_as_complete(
    spark: SparkSession, report: Job, tmp_path: Path
) -> None:
    rows = spark.read.parquet(str(tmp_path / "in"))
    bad = rows.withColumn("part", F.when(F.col("id") > 17, F.raise_error(F.lit("no"))).otherwise(1))
    good = str(tmp_path / "good")

    def run() -> None:
        for kind in ("parquet", "delta"):
            with pytest.raises(Exception, match="no"):
                bad.write.format(kind).save(str(tmp_path / kind))
        rows.write.parquet(good)

    event = report("Caught", run)
    assert event["eventType"] == "COMPLETE"
    assert rows_of(output(event, good)) == 20
    for each in event["outputs"]:
        if each["name"] != good:
            assert rows_of(each) is None
            assert not each["facets"].get("columnLineage")


def test_changes_and_maintenance_of_tables_are_reported_under_their_names(
    spark: SparkSession, report: Job, tmp_path: Path
) -> None:
    delta = str(tmp_path / "delta")
    spark.range(10).coalesce(1).write.format("delta").save(delta)
    table = f"delta.`{delta}`"
    event = report("Update", lambda: spark.sql(f"UPDATE {table} SET id = 99 WHERE id = 5"))  # noqa: S608
    assert sides(event) == ([], [delta])
    assert rows_of(event["outputs"][0]) == 10
    event = report("Delete", lambda: spark.sql(f"DELETE FROM {table} WHERE id = 6"))  # noqa: S608
    assert sides(event) == ([], [delta])

    spark.range(10).writeTo("demo.writes.compacted").create()

    def compact() -> None:
        spark.sql(
            "CALL demo.system.rewrite_data_files(table => 'writes.compacted', "
            "options => map('rewrite-all', 'true'))"
        )
        spark.range(3).write.format("delta").saveAsTable("kept_by_name")

    event = report("Compact", compact)
    found = [each["name"] for each in event["outputs"]]
    assert not [name for name in found if "rewrite" in name]
    # Once, by its location.
    assert [name.rpartition("/")[2] for name in found if "kept_by_name" in name] == ["kept_by_name"]
    spark.sql("DROP TABLE kept_by_name")
