"""Row lineage of plain jobs with functions that Spark can't analyze, and in foreachBatch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.unchanged import ENABLED, Ledger, numbers, true_parents, values

from headwater.kafka import create_topic, read_topic
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "unchanged-functions"


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 200)
    return ledger


def in_pandas(rows: DataFrame) -> DataFrame:
    def text(frames: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"value": frame["n"].astype(str)})

    return rows.select("n").mapInPandas(text, "value string")


def in_arrow(rows: DataFrame) -> DataFrame:
    def same(batches: Iterable[Any]) -> Iterable[Any]:
        yield from batches

    return rows.select(numbers("n")).mapInArrow(same, "value string")


def of_groups(rows: DataFrame) -> DataFrame:
    def text(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"value": [",".join(map(str, frame["n"]))]})

    return rows.select("n", "k").groupBy("k").applyInPandas(text, "value string")


@pytest.mark.lines
@pytest.mark.parametrize("job", [in_pandas, in_arrow, of_groups])
def test_parents_after_a_function_of_several_rows_are_ranges_that_contain_them(
    ledger: Ledger, make_topic: TopicMaker, job: Callable[[DataFrame], DataFrame]
) -> None:
    rows = job(ledger.read(TOPIC))
    records = ledger.run(rows, make_topic("out"))
    assert {n for record in records for n in true_parents(record)} == set(range(200))
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert parents.ranges
        assert not parents.unknown
        assert all(ledger.is_within(number, parents) for number in true_parents(record))


def test_an_aggregate_in_python_has_unknown_parents(ledger: Ledger, make_topic: TopicMaker) -> None:
    @F.pandas_udf("double")  # type: ignore[call-overload, untyped-decorator]
    def mean(n: pd.Series) -> float:
        return float(n.mean())

    def write(batch: DataFrame, _: int) -> None:
        means = batch.groupBy("k").agg(mean("n").cast("string").alias("value"))
        save(means, output, ledger)

    output = make_topic("out")
    each_batch(ledger, write)
    records = list(read_topic(output, ledger.settings.kafka))
    assert records
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert parents.unknown


@pytest.mark.parametrize("mode", ["update", "complete"])
def test_all_parents_of_large_groups_are_listed(
    ledger: Ledger, make_topic: TopicMaker, mode: str
) -> None:
    groups = ledger.read(TOPIC).groupBy(F.expr("k % 2"))
    rows = groups.agg(F.sort_array(F.collect_set("n")).alias("ns"))
    output = make_topic("out")
    text = F.concat_ws(",", F.col("ns").cast("array<string>")).alias("value")
    records = ledger.run(rows.select(text), output, mode=mode)
    assert max(len(true_parents(record)) for record in records) == 100
    unlisted = {
        each.address: each for each in read_topic(f"{output}-parents", ledger.settings.kafka)
    }
    for record in records:
        lineage = origin_of(record).lineage
        assert lineage is not None
        found = set(lineage.parents)
        for address in lineage.rest:
            more = origin_of(unlisted[address]).lineage
            assert more is not None
            found |= set(more.parents)
        assert {ledger.numbers[str(each)] for each in found} == true_parents(record)


def test_distinct_rows_have_all_rows_of_their_value_as_parents(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    ledger.read(TOPIC).createOrReplaceTempView("unchanged_records")
    rows = ledger.spark.sql("SELECT DISTINCT CAST(k AS STRING) AS value FROM unchanged_records")
    records = ledger.run(rows, make_topic("out"), mode="update")
    last = {record.value: ledger.parents(record) for record in records}
    assert len(last) == 10
    for value, parents in last.items():
        assert value is not None
        assert parents is not None
        assert parents.numbers == set(range(int(value), 200, 10))


def each_batch(ledger: Ledger, write: Callable[[DataFrame, int], None], **conf: str) -> None:
    settings = {f"spark.headwater.lineage.{name}": value for name, value in conf.items()}
    ledger._queries += 1
    with configured(ledger.spark, {**ENABLED, **settings}):
        query = (
            ledger.read(TOPIC)
            .select("key", "n", "k")
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(ledger.checkpoint()))
            .trigger(availableNow=True)
            .start()
        )
    query.awaitTermination(120)
    assert not query.isActive


def save(rows: DataFrame, topic: str, ledger: Ledger) -> None:
    rows.write.format("kafka").option(
        "kafka.bootstrap.servers", ledger.settings.bootstrap_servers
    ).option("topic", topic).save()


@pytest.mark.lines
def test_writes_to_kafka_in_foreach_batch_have_exact_parents_and_the_job_sees_its_columns(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    seen: list[list[str]] = []
    outputs = [make_topic("one"), make_topic("other")]

    def write(batch: DataFrame, _: int) -> None:
        seen.append(batch.columns)
        save(batch.where("k < 5").dropDuplicates(["n"]).select(numbers("n")), outputs[0], ledger)
        merged = batch.groupBy("k").agg(F.sort_array(F.collect_set("n")).alias("ns"))
        text = F.concat_ws(",", F.col("ns").cast("array<string>")).alias("value")
        save(merged.select(text), outputs[1], ledger)

    each_batch(ledger, write)
    assert all(columns == ["key", "n", "k"] for columns in seen)
    for output in outputs:
        records = list(read_topic(output, ledger.settings.kafka))
        assert records
        for record in records:
            parents = ledger.parents(record)
            assert parents is not None
            assert parents.numbers == true_parents(record)


def test_rows_that_foreach_batch_has_persisted_are_not_computed_again(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    random = F.udf(lambda n: f"{n}-{__import__('uuid').uuid4()}").asNondeterministic()
    collected: list[str] = []
    output = make_topic("out")

    def write(batch: DataFrame, _: int) -> None:
        rows = batch.select(random("n").alias("value")).persist()
        collected.extend(row.value for row in rows.collect())
        save(rows, output, ledger)
        rows.unpersist()

    each_batch(ledger, write)
    records = list(read_topic(output, ledger.settings.kafka))
    assert values(records) == sorted(each.encode() for each in collected)
    found = [ledger.parents(record) for record in records]
    assert all(parents is not None and parents.unknown for parents in found)
