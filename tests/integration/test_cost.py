"""The cost of a run is separate from that of others in the same session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from tests.waiting import wait_until

from headwater.openlineage.events import Event
from headwater.openlineage.run import LineageRun
from headwater.settings import Settings
from headwater.spark.measures.run_measures import CostMeter

pytestmark = pytest.mark.spark


@pytest.fixture
def settings(headwater_settings: Settings) -> Settings:
    prices = headwater_settings.cost.model_copy(update={"per_core_hour": 1, "currency": "EUR"})
    return headwater_settings.model_copy(update={"cost": prices})


def files(spark: SparkSession, folder: Path, rows: int, count: int = 4) -> str:
    spark.range(rows).repartition(count).write.mode("append").parquet(str(folder))
    return str(folder)


def copy(spark: SparkSession, source: str, target: Path) -> StreamingQuery:
    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(str(target / "files"))

    stream = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(source)
    return (
        stream.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def test_concurrent_queries_and_batches_have_separate_costs(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    small = files(spark, tmp_path / "small", 400)
    large = files(spark, tmp_path / "large", 2800)
    meters = {name: CostMeter(spark, f"run-{name}", settings) for name in ("small", "large")}
    queries = []
    for name, source in (("small", small), ("large", large)):
        with meters[name].counting():
            queries.append(copy(spark, source, tmp_path / f"{name}-copy"))
    batch = CostMeter(spark, "run-batch", settings)
    with batch.counting():
        spark.read.parquet(large).groupBy("id").count().write.parquet(str(tmp_path / "counted"))
    # Belongs to no run.
    spark.read.parquet(small).write.format("noop").mode("overwrite").save()
    for query in queries:
        assert query.awaitTermination(60)
    used = {name: meter.usage(settled=True) for name, meter in meters.items()}
    assert {name: each.records_read for name, each in used.items()} == {"small": 400, "large": 2800}
    assert {name: each.records_written for name, each in used.items()} == {
        "small": 400,
        "large": 2800,
    }
    assert {each.tasks for each in used.values()} == {4}
    assert all(each.core_millis > 0 and each.cpu_nanos > 0 for each in used.values())
    assert used["large"].bytes_read > 0 < used["small"].bytes_read
    assert used["large"].bytes_written > used["small"].bytes_written > 0
    assert used["small"].shuffle_bytes_written == 0
    batch_usage = batch.usage(settled=True)
    assert (batch_usage.records_read, batch_usage.records_written) == (2800, 2800)
    assert batch_usage.shuffle_bytes_written == batch_usage.shuffle_bytes_read > 0
    assert batch_usage.peak_task_memory > 0
    assert spark.sparkContext.getLocalProperty("headwater.cost.run") is None


def test_each_start_of_a_query_has_its_own_cost_and_failed_tasks_count(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    source = files(spark, tmp_path / "source", 40, 1)
    events: list[Event] = []
    facets = []
    for start in ("first", "second"):
        meter = CostMeter(spark, f"restart-{start}", settings)
        run = LineageRun(events.append, "tests", "copy", f"restart-{start}")
        run.start()
        with meter.counting():
            assert copy(spark, source, tmp_path / "copy").awaitTermination(60)
        meter.add_facet(run, settled=True)
        run.complete()
        facets.append(events[-1]["run"]["facets"]["headwater_cost"])
        files(spark, tmp_path / "source", 60, 1)
    assert [(each["recordsRead"], each["tasks"]) for each in facets] == [(40, 1), (60, 1)]
    for each in facets:
        assert each["money"]["currency"] == "EUR"
        assert each["money"]["amount"] == pytest.approx(each["coreSeconds"] / 3600, abs=1e-6)
    failing = CostMeter(spark, "failing", settings)
    with failing.counting(), pytest.raises(Exception, match="on purpose"):
        spark.sql("SELECT raise_error('on purpose') FROM range(0, 1, 1, 1)").collect()
    assert (failing.usage(settled=True).tasks, failing.usage().failed_tasks) == (1, 1)


def test_a_query_is_measured_by_its_run_id(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    batches = CostMeter(spark, "all but queries", settings)
    source = str(tmp_path / "source")
    with batches.counting(queries=False):
        for rows in (40, 70):
            files(spark, tmp_path / "source", rows, 1)
            query = copy(spark, source, tmp_path / "copy")
            assert query.awaitTermination(60)
            meter = CostMeter(spark, str(query.runId), settings)
            assert meter.usage(settled=True).records_read == rows
    # The writes of the input files, without the queries.
    used = batches.usage(settled=True)
    assert (used.records_written, used.records_read) == (110, 110)


def test_a_query_listener_can_wait_for_the_usage(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    usages: list[tuple[bool, int]] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...
        def onQueryProgress(self, event: Any) -> None: ...
        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None:
            meter = CostMeter(spark, str(event.runId), settings)
            usages.append((meter.settle(), meter.usage().records_written))

    source, listener = files(spark, tmp_path / "in", 400), Listener()
    CostMeter(spark, "listens-from-now-on", settings)
    spark.streams.addListener(listener)
    try:
        copy(spark, source, tmp_path / "copy").awaitTermination(60)
        wait_until(lambda: bool(usages))
    finally:
        spark.streams.removeListener(listener)
    # Waiting for the complete listener bus would be a deadlock here.
    assert usages == [(True, 400)]
