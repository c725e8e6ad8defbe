"""Rows of Delta and Iceberg tables have their parents, and `impact` finds them."""

# ruff: noqa: S608 - table names are created here

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.edge_tables import edge, made, scan, write_index
from tests.lineage_events import columns, names, spooled
from tests.lines.environments import needs_delta, needs_iceberg
from tests.stamped import write

from headwater import LineageJob, merge_lineage
from headwater.errors import InputError, LineageTableError
from headwater.kafka import RecordProducer
from headwater.model import Address, record_id
from headwater.settings import Settings, fault_points
from headwater.spark.source import with_lineage
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.table import table_of, with_stored_lineage, writer_of
from headwater.storage.index.contract import index_path
from headwater.storage.tables.contract import TableFormat
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import JobOutput, impact
from headwater.tracing.in_tables import Tables

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 100


@pytest.fixture
def settings(broker: Settings, tmp_path: Path) -> Settings:
    """Settings with a separate home, without tables of other tests."""
    index = broker.index.model_copy(update={"table": tmp_path / "index"})
    return broker.model_copy(update={"home": tmp_path / "home", "index": index})


@pytest.fixture
def numbers(settings: Settings, make_topic: TopicMaker) -> str:
    topic = make_topic("numbers", partitions=1)
    with RecordProducer(settings.kafka) as producer:
        for number in range(RECORDS):
            producer.send(topic, json.dumps({"n": number}).encode(), partition=0)
    write_index(index_path(settings), [scan(f"{topic}/0@0", RECORDS)])
    return topic


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    fault_points.arm("")


def number(rows: DataFrame) -> DataFrame:
    n = F.get_json_object(rows.value.cast("string"), "$.n").cast("int").alias("n")
    return rows.select(n, "lineage")


def run(settings: Settings, topic: str, table: str | Path, tmp_path: Path, **more: object) -> None:
    job = LineageJob("to_table", version="v7", settings=settings, checkpoint=tmp_path / "cp")
    transform = more.pop("transform", number)
    job.write_table(transform(job.read(topic)), table, trigger={"availableNow": True}, **more)  # type: ignore[operator, arg-type]


@pytest.fixture(
    params=[
        pytest.param("delta", marks=needs_delta),
        pytest.param("iceberg", marks=needs_iceberg),
    ]
)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[TableFormat, str | Path]:
    if request.param == "delta":
        return "delta", tmp_path / "numbers"
    return "iceberg", f"demo.{tmp_path.name.replace('-', '_')}.numbers"


@pytest.mark.lines
def test_rows_have_their_parents_and_impact_counts_them_in_the_current_table(
    spark: SparkSession,
    settings: Settings,
    numbers: str,
    target: tuple[TableFormat, str | Path],
    tmp_path: Path,
) -> None:
    table_format, name = target
    run(settings, numbers, name, tmp_path, table_format=table_format)
    table = table_of(spark, name, table_format)
    row = spark.sql(f"SELECT lineage FROM {sql_name(target)} WHERE n = 17").head()
    assert row is not None
    lineage = row["lineage"].asDict()
    assert lineage.pop("run_id")
    assert lineage == {
        "topic": numbers,
        "partition": 0,
        "offset": 17,
        "parents": None,
        "record_id": record_id("to_table", f"{numbers}/0@17"),
        "job_name": "to_table",
        "job_version": "v7",
        "batch_version": 0,
    }
    last = spooled(settings, "to_table")[-1]
    assert (last["eventType"], names(last, "inputs")) == ("COMPLETE", [numbers])
    assert names(last, "outputs") == [str(name)]
    assert columns(last)["n"] == {f"{numbers}:value.n": {"TRANSFORMATION"}}
    assert last["run"]["facets"]["headwater_progress"]["rowsOut"] == RECORDS
    assert last["run"]["runId"] == row["lineage"]["run_id"]
    found = impact(Address(numbers, 0, 17), settings)
    assert found.tables == {table.known().name: 1}
    assert found.as_json()["tables"] == {str(name): 1}
    assert impact(JobOutput("to_table", "v7", (0, 0)), settings).tables == {str(name): RECORDS}
    with pytest.raises(InputError, match="job 'to_table' in version 'v8'"):
        impact(JobOutput("to_table", "v8"), settings)
    # A deleted row is not counted.
    spark.sql(f"DELETE FROM {sql_name(target)} WHERE n = 17")
    assert impact(Address(numbers, 0, 17), settings).tables == {}
    assert impact(Address(numbers, 0, 18), settings).tables == {str(name): 1}


@pytest.mark.lines
def test_a_batch_that_is_rerun_after_its_commit_adds_nothing(
    spark: SparkSession,
    settings: Settings,
    numbers: str,
    target: tuple[TableFormat, str | Path],
    tmp_path: Path,
) -> None:
    table = table_of(spark, target[1], target[0])
    job_run = JobRun("to_table", "v7", None)
    rows = number(LineageJob("to_table", settings=settings).read(numbers))
    table.ensure(with_stored_lineage(rows, job_run, 0).schema)

    def stream() -> None:
        query = (
            rows.writeStream.foreachBatch(writer_of(table, job_run))
            .option("checkpointLocation", str(tmp_path / "cp"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)

    fault_points.arm("after_table_commit=raise@1")
    with pytest.raises(StreamingQueryException, match="after_table_commit"):
        stream()
    assert fault_points.fired() == {"after_table_commit": 1}
    stream()
    assert rows_of(spark, target) == list(range(RECORDS))


@pytest.mark.lines
def test_an_added_column_does_not_stop_the_job(
    spark: SparkSession,
    settings: Settings,
    numbers: str,
    target: tuple[TableFormat, str | Path],
    tmp_path: Path,
) -> None:
    # On a busy machine reading the schema at the end may take longer than the default timeout.
    lineage = settings.lineage.model_copy(update={"emit_seconds": 60.0})
    settings = settings.model_copy(update={"lineage": lineage})
    run(settings, numbers, target[1], tmp_path, table_format=target[0])
    spark.sql(f"ALTER TABLE {sql_name(target)} ADD COLUMNS (note string)")
    with RecordProducer(settings.kafka) as producer:
        producer.send(numbers, json.dumps({"n": RECORDS}).encode(), partition=0)
    run(settings, numbers, target[1], tmp_path, table_format=target[0])
    assert rows_of(spark, target) == list(range(RECORDS + 1))
    # The event has the column, although it is not in the plan.
    schema = spooled(settings, "to_table")[-1]["outputs"][0]["facets"]["schema"]
    assert [field["name"] for field in schema["fields"]] == ["n", "lineage", "note"]


def rows_of(spark: SparkSession, target: tuple[TableFormat, str | Path]) -> list[int]:
    rows = spark.sql(f"SELECT n FROM {sql_name(target)}").collect()
    return sorted(row["n"] for row in rows)


def sql_name(target: tuple[TableFormat, str | Path]) -> str:
    return f"delta.`{target[1]}`" if target[0] == "delta" else str(target[1])


def test_an_aggregated_row_is_found_by_each_of_its_many_parents(
    spark: SparkSession, settings: Settings, numbers: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    before = make_topic("before", partitions=1)
    write(before, [[]] * 3, settings)
    index = [edge(f"{before}/0@1", f"{numbers}/0@50"), made(f"{numbers}/0@50", job="copy")]
    write_index(index_path(settings), index)
    kafka = {"kafka.bootstrap.servers": settings.bootstrap_servers, "subscribe": numbers}
    records = spark.read.format("kafka").options(**kafka, includeHeaders="true").load()
    lineage = merge_lineage(F.col("lineage")).alias("lineage")
    totals = number(with_lineage(records)).groupBy(F.col("n") < 90).agg(F.sum("n"), lineage)
    path = tmp_path / "totals"
    rows = totals.select(F.col("sum(n)").alias("total"), "lineage")
    with_stored_lineage(rows, JobRun("sum", "v1", None), 3).write.format("delta").save(str(path))
    at = settings.index.model_copy(update={"tables": [path]})
    settings = settings.model_copy(update={"index": at})
    tables = Tables(settings)
    for offset in (0, 64, 65, 89, 95):
        found = impact(Address(numbers, 0, offset), settings, tables=tables)
        assert found.tables == {str(path): 1}, offset
    assert impact(Address(before, 0, 1), settings, tables=tables).tables == {str(path): 1}
    assert impact(Address(before, 0, 2), settings, tables=tables).tables == {}
    # The copying job produced the parent of one row; the job of the rows produced both.
    assert impact(JobOutput("copy"), settings, tables=tables).tables == {str(path): 1}
    assert impact(JobOutput("sum"), settings, tables=tables).tables == {str(path): 2}


def test_an_unreadable_table_is_reported_and_the_result_is_a_lower_bound(
    settings: Settings, numbers: str, tmp_path: Path
) -> None:
    gone = settings.index.model_copy(update={"tables": [tmp_path / "gone"]})
    found = impact(Address(numbers, 0, 1), settings.model_copy(update={"index": gone}))
    assert found.tables == {}
    assert "neither a Delta nor an Iceberg table" in found.unread_tables[str(tmp_path / "gone")]
    assert found.lower_bound


def test_a_table_with_other_columns_is_refused_before_the_query_starts(
    spark: SparkSession, settings: Settings, numbers: str, tmp_path: Path
) -> None:
    path = tmp_path / "other"
    spark.range(1).write.format("delta").save(str(path))
    with pytest.raises(LineageTableError, match="column `n` should be int, but is missing"):
        run(settings, numbers, path, tmp_path)
    with pytest.raises(InputError, match="not an Iceberg table name: 'a; drop'"):
        run(settings, numbers, "a; drop", tmp_path, table_format="iceberg")
