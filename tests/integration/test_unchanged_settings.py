"""Row lineage of plain jobs: settings, checkpoints that exist, and what never breaks a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.unchanged import ENABLED, Ledger, Parents, numbers, true_parents, values

from headwater import LineageJob, with_row_lineage
from headwater.errors import InputError
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.kafka.runs import KafkaRuns
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.spark.row_lineage import RowCoverage, add_row_lineage
from headwater.spark.session import own_class
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "unchanged-settings"


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 40)
    return ledger


def status(ledger: Ledger) -> dict[str, Any]:
    """What was reported for the last query."""
    return ledger.status()


def warnings(ledger: Ledger) -> list[str]:
    name = f"unchanged_{ledger._queries}"
    found: list[str] = json.loads(own_class("rowlineage.RowLineageStatus").json(name))["warnings"]
    return found


def copied(ledger: Ledger) -> DataFrame:
    return ledger.read(TOPIC).select("key", numbers("n"))


def counted(ledger: Ledger, topic: str) -> DataFrame:
    groups = ledger.read(topic).groupBy("k").agg(F.sort_array(F.collect_set("n")).alias("ns"))
    return groups.select(F.concat_ws(",", F.col("ns").cast("array<string>")).alias("value"))


def exact(ledger: Ledger, records: list[Any]) -> bool:
    found = [(ledger.parents(each), true_parents(each)) for each in records]
    return all(parents and parents.numbers == true for parents, true in found)


def test_state_without_lineage_goes_on_without_it(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    ledger.fill(source, 20)
    rows, checkpoint = counted(ledger, source), tmp_path / "checkpoint"
    ledger.run(rows, output, mode="update", checkpoint=checkpoint, lineage=False)
    more = {str(20 + place): place for place in range(10)}
    with RecordProducer(ledger.settings.kafka) as producer:
        for number in more:
            value = {"n": int(number), "k": int(number) % 10, "t": 0}
            producer.send(source, json.dumps(value).encode())
    records = ledger.run(rows, output, mode="update", checkpoint=checkpoint)
    assert len(records) == 20
    assert all(each.header("lineage") is None for each in records)
    assert status(ledger)["kind"] == "off"
    assert "state without lineage" in status(ledger)["reason"]


def test_state_with_lineage_goes_on_with_it_although_it_is_switched_off(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    ledger.fill(source, 20)
    rows, checkpoint = counted(ledger, source), tmp_path / "checkpoint"
    ledger.run(rows, output, mode="update", checkpoint=checkpoint)
    # The same records again: the groups are those of before.
    ledger.fill(source, 20)
    records = ledger.run(rows, output, mode="update", checkpoint=checkpoint, enabled="false")
    assert len(records) == 20
    assert all(each.header("lineage") for each in records)


def test_a_query_without_state_gets_lineage_from_its_next_start(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    ledger.fill(source, 10)
    rows = ledger.read(source).select(numbers("n"))
    ledger.run(rows, output, checkpoint=tmp_path / "checkpoint", lineage=False)
    with RecordProducer(ledger.settings.kafka) as producer:
        producer.send(source, json.dumps({"n": 10, "k": 0, "t": 0}).encode(), partition=0)
    ledger.numbers[f"{source}/0@5"] = 10
    records = ledger.run(rows, output, checkpoint=tmp_path / "checkpoint")
    with_lineage = [each for each in records if each.header("lineage")]
    assert [each.value for each in with_lineage] == [b"10"]
    assert exact(ledger, with_lineage)
    assert status(ledger) == {"kind": "exact", "steps": [], "reason": None}


def test_stateful_queries_can_be_left_out(ledger: Ledger, make_topic: TopicMaker) -> None:
    records = ledger.run(counted(ledger, TOPIC), make_topic("out"), mode="update", stateful="never")
    assert all(each.header("lineage") is None for each in records)
    assert "stateful is never" in status(ledger)["reason"]


def test_a_query_can_be_disabled_by_its_name(ledger: Ledger, make_topic: TopicMaker) -> None:
    name = f"unchanged_{ledger._queries + 1}"
    records = ledger.run(copied(ledger), make_topic("out"), disabledQueries=f"other, {name}")
    assert len(records) == 40
    assert all(each.header("lineage") is None for each in records)


def test_a_wrong_setting_is_reported_and_the_job_runs(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    records = ledger.run(copied(ledger), make_topic("out"), sink="elsewhere")
    assert len(records) == 40
    assert "sink is 'elsewhere', expected one of headwater, headers" in status(ledger)["reason"]


def test_state_with_lineage_goes_on_with_it_although_a_setting_is_wrong(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    ledger.fill(source, 20)
    ledger.run(counted(ledger, source), output, mode="update", checkpoint=tmp_path)
    ledger.fill(source, 20)
    rows = counted(ledger, source)
    records = ledger.run(rows, output, mode="update", checkpoint=tmp_path, sink="elsewhere")
    assert len(records) == 20
    assert all(each.header("lineage") for each in records)
    (warning,) = warnings(ledger)
    assert warning.startswith("spark.headwater.lineage.sink is 'elsewhere', expected one of")


def test_transactions_with_the_sink_of_spark_are_reported_as_without_effect(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    ledger.run(copied(ledger), make_topic("out"), sink="headers", delivery="transactional")
    (warning,) = warnings(ledger)
    assert "delivery=transactional has no effect" in warning


def test_functions_of_the_job_with_names_of_spark_do_not_change_the_lineage(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    # Temporary functions belong to a session.
    other = replace(ledger, spark=ledger.spark.newSession(), _queries=ledger._queries + 1000)
    rows = other.read(TOPIC).select("key", F.col("n").cast("string").alias("value"))
    for name in ("concat", "concat_ws", "struct", "named_struct", "coalesce", "array"):
        other.spark.udf.register(name, lambda *_: "mine")
    (row,) = other.spark.sql("SELECT concat('a', 'b') AS text").collect()
    assert row.text == "mine"
    assert exact(ledger, other.run(rows, make_topic("out")))


@pytest.mark.parametrize("sink", ["headwater", "headers"])
def test_headers_and_partitions_of_the_job_are_kept(
    ledger: Ledger, make_topic: TopicMaker, sink: str
) -> None:
    own = F.expr("array(struct('type' AS key, CAST('x' AS BINARY) AS value))")
    rows = copied(ledger).select("key", "value", own.alias("headers"), F.lit(1).alias("partition"))
    records = ledger.run(rows, make_topic("out"), sink=sink)
    assert len(records) == 40
    assert exact(ledger, records)
    assert {each.header("type") for each in records} == {b"x"}
    assert {each.address.partition for each in records} == {1}


@pytest.mark.parametrize("stamp", ["compact", "full"])
@pytest.mark.parametrize("sink", ["headwater", "headers", "foreachBatch"])
def test_the_lineage_of_the_parent_is_not_copied_with_its_headers(
    ledger: Ledger, make_topic: TopicMaker, sink: str, stamp: str
) -> None:
    first, second = make_topic("first"), make_topic("second")
    ledger.run(copied(ledger), first, stamp="full")
    rows = ledger.read(first, includeHeaders="true").select("value", "headers")
    if sink == "foreachBatch":
        servers = ledger.settings.bootstrap_servers
        options = {"kafka.bootstrap.servers": servers, "topic": second}
        ledger.each_batch(rows, lambda batch: batch.write.format("kafka").save(**options))
        records = list(read_topic(second, ledger.settings.kafka))
    else:
        records = ledger.run(rows, second, sink=sink, stamp=stamp)
    assert len(records) == 40
    runs = KafkaRuns(ledger.settings.kafka)
    for record in records:
        (header,) = [value for name, value in record.headers if name == "lineage"]
        assert header is not None
        assert f" {first}/".encode() in header
        assert origin_of(record, runs).job_name == f"unchanged_{ledger._queries}"


def test_rows_choose_their_topic(ledger: Ledger, make_topic: TopicMaker) -> None:
    topics = [make_topic("even"), make_topic("odd")]
    name = F.when(F.col("n") % 2 == 0, topics[0]).otherwise(topics[1]).alias("topic")
    ledger._queries += 1
    rows = ledger.read(TOPIC).select(numbers("n"), name)
    with configured(ledger.spark, ENABLED):
        query = (
            rows.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", ledger.settings.bootstrap_servers)
            .option("checkpointLocation", str(ledger.checkpoint()))
            .queryName(f"unchanged_{ledger._queries}")
            .trigger(availableNow=True)
            .start()
        )
    query.awaitTermination(60)
    for topic in topics:
        records = list(read_topic(topic, ledger.settings.kafka))
        assert len(records) == 20
        assert exact(ledger, records)


def test_a_record_that_is_too_large_with_its_lineage_is_written_without_it(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    source = make_topic("in")
    # The producer takes 1,048,576 bytes with its own overhead.
    value = b"x" * (1024 * 1024 - 90)
    limit = {"message.max.bytes": 2_000_000}
    with RecordProducer(ledger.settings.kafka, **limit) as producer:
        producer.send(source, value)
        producer.send(source, b"small")
    rows = ledger.read(source).select("value")
    plain = ledger.run(rows, make_topic("plain"), lineage=False)
    records = ledger.run(rows, make_topic("out"))
    assert values(records) == values(plain)
    with_lineage = {len(each.value or b""): bool(each.header("lineage")) for each in records}
    assert with_lineage == {5: True, len(value): False}


def test_a_sink_without_a_place_for_lineage_is_left_as_it_is(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger._queries += 1
    with configured(ledger.spark, ENABLED):
        query = (
            copied(ledger)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .queryName(f"unchanged_{ledger._queries}")
            .trigger(availableNow=True)
            .start(str(tmp_path / "files"))
        )
    query.awaitTermination(60)
    rows = ledger.spark.read.parquet(str(tmp_path / "files"))
    assert (rows.columns, rows.count()) == (["key", "value"], 40)
    assert status(ledger)["reason"] == "FileStreamSink has no column for it"


def test_transactional_delivery(ledger: Ledger, make_topic: TopicMaker) -> None:
    records = ledger.run(copied(ledger), make_topic("out"), delivery="transactional")
    assert len(records) == 40
    assert exact(ledger, records)


def test_the_error_of_spark_for_wrong_columns_remains(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    rows = ledger.read(TOPIC).select(F.col("n").alias("value"))
    found = []
    for lineage in (False, True):
        with pytest.raises(Exception, match="value") as error:
            ledger.run(rows, make_topic(f"out-{lineage}"), lineage=lineage)
        found.append(type(error.value))
    assert found[0] == found[1]


def job_rows(ledger: Ledger, job: LineageJob) -> DataFrame:
    fields = F.from_json(F.col("value").cast("string"), "n int, k int")
    return job.read(TOPIC).select(fields.alias("r")).select("r.*")


def test_a_lineage_job_need_not_keep_the_column(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    job = LineageJob("kept", settings=ledger.settings, checkpoint=tmp_path / "checkpoint")
    rows = job_rows(ledger, job)
    groups = rows.groupBy("k").agg(F.sort_array(F.collect_set("n")).alias("ns"))
    text = F.concat_ws(",", F.col("ns").cast("array<string>")).alias("value")
    output = make_topic("out")
    job.write(groups.select(text), output, trigger={"availableNow": True}, output_mode="update")
    records = list(read_topic(output, ledger.settings.kafka))
    assert len(records) == 10
    assert exact(ledger, records)
    assert {each.header("job_name") for each in records} == {b"kept"}
    table = tmp_path / "table"
    job.write_table(
        rows.select("n", F.explode(F.array("n", "k")).alias("m")),
        table,
        name="table",
        checkpoint=tmp_path / "second",
        trigger={"availableNow": True},
    )
    stored = ledger.spark.read.format("delta").load(str(table))
    assert stored.columns == ["n", "m", "lineage"]
    # Each of the two rows of a record has its own id.
    assert stored.select("lineage.record_id").distinct().count() == stored.count() == 80


def test_a_lineage_job_refuses_exactly_once_where_parents_are_not_exact(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    def same(frames: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        yield from frames

    job = LineageJob(
        "opaque",
        settings=ledger.settings,
        checkpoint=tmp_path / "checkpoint",
        delivery="exactly-once",
    )
    rows = job_rows(ledger, job).selectExpr("CAST(n AS string) AS value")
    with pytest.raises(InputError, match="not known after MapInPandas"):
        job.write(rows.mapInPandas(same, "value string"), make_topic("out"))
    opaque = with_row_lineage(rows.mapInPandas(same, "value string"))
    kept = opaque.select("value", "lineage").where("value <> ''")
    assert add_row_lineage(kept).coverage == RowCoverage("ranges", ("MapInPandas",))
    with pytest.raises(InputError, match="not known after MapInPandas"):
        job.write(kept, make_topic("kept"))
    assert add_row_lineage(with_row_lineage(rows)).coverage == RowCoverage()
    with pytest.raises(InputError, match="no row comes from Kafka"):
        with_row_lineage(ledger.spark.range(1))


def test_a_write_in_foreach_batch_that_fails_is_reported_for_its_query(
    ledger: Ledger, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    ledger.spark.sql(f"CREATE TABLE delta.`{folder}` (n int, k int, lineage string) USING delta")

    def write(batch: DataFrame) -> None:
        with configured(batch.sparkSession, {"spark.headwater.lineage.stamp": "none"}):
            batch.write.format("delta").mode("append").save(str(folder))

    ledger.in_batches(TOPIC, write)
    assert ledger.spark.read.format("delta").load(str(folder)).count() == 40
    assert status(ledger)["kind"] == "off"
    assert "stamp is 'none', expected one of compact, full" in status(ledger)["reason"]


def test_rows_that_lost_their_plan_in_foreach_batch_are_unknown(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    value = F.col("n").cast("string").alias("value")
    ways: dict[str, Callable[[DataFrame], DataFrame]] = {
        "exact": lambda rows: rows,
        "checkpoint": lambda rows: rows.localCheckpoint(),
        "RDD": lambda rows: rows.sparkSession.createDataFrame(rows.rdd, rows.schema),
    }
    static = ledger.spark.createDataFrame([(n,) for n in range(40)], "n int").localCheckpoint()
    for step, change in ways.items():
        output = make_topic(step)

        def write(
            batch: DataFrame,
            change: Callable[[DataFrame], DataFrame] = change,
            output: str = output,
        ) -> None:
            rows = change(batch.where("n >= 0")).join(static, "n")
            servers = ledger.settings.bootstrap_servers
            options = {"kafka.bootstrap.servers": servers, "topic": output}
            rows.select(value).write.format("kafka").options(**options).save()

        ledger.in_batches(TOPIC, write)
        records = list(read_topic(output, ledger.settings.kafka))
        assert len(records) == 40
        if step == "exact":
            assert exact(ledger, records)
            assert status(ledger) == {"kind": "exact", "steps": [], "reason": None}
        else:
            assert {ledger.parents(each) for each in records} == {Parents(frozenset(), (), True)}
            assert status(ledger) == {"kind": "unknown", "steps": [step], "reason": None}
