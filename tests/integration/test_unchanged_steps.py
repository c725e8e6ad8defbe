"""Row lineage of plain jobs: grouping sets, generators, window functions, cogroups and state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from tests.lines.environments import since
from tests.unchanged import Ledger, numbers, true_parents, values

from headwater.kafka import create_topic, read_topic
from headwater.model import Record
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.lines]

# At most 64 records in a group: all parents are in the header.
TOPIC, COUNT, PER_BATCH = "unchanged-steps", 60, 30
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
Step = Callable[[DataFrame], DataFrame]


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, COUNT)
    return ledger


def stored(ledger: Ledger) -> DataFrame:
    """The records as a batch, with the columns `n, k`."""
    source = (
        ledger.spark.read.format("kafka")
        .option("kafka.bootstrap.servers", ledger.settings.bootstrap_servers)
        .option("subscribe", TOPIC)
        .load()
    )
    fields = F.from_json(F.col("value").cast("string"), "struct<n:int,k:int>")
    return source.select(fields.alias("r")).select("r.n", "r.k")


def save(rows: DataFrame, output: str, ledger: Ledger, enabled: str) -> list[Record]:
    """Write the rows of a batch, and read what the topic has then."""
    with configured(ledger.spark, {"spark.headwater.lineage.enabled": enabled}):
        rows.write.format("kafka").option(
            "kafka.bootstrap.servers", ledger.settings.bootstrap_servers
        ).option("topic", output).save()
    return list(read_topic(output, ledger.settings.kafka))


def check_exact(records: list[Record], plain: list[Record], ledger: Ledger) -> None:
    assert plain
    assert values(records) == values(plain)
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert parents.exact, record
        assert parents.numbers == true_parents(record), record


def collected() -> Column:
    found = F.sort_array(F.collect_set("n")).cast("array<string>")
    return F.concat_ws(",", found).alias("value")


def rolled_up(rows: DataFrame) -> DataFrame:
    return rows.rollup(F.expr("k % 2"), "k").agg(collected()).select("value")


def cubed(rows: DataFrame) -> DataFrame:
    return rows.cube(F.expr("k % 2"), F.expr("k % 3")).agg(collected()).select("value")


def stacked(rows: DataFrame) -> DataFrame:
    return rows.select("n", F.expr("stack(2, n, n) AS m")).select(numbers("n", "m"))


def json_tuple(rows: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    return rows.select(F.json_tuple(text, "n").alias("m")).select(numbers("m"))


@pytest.mark.parametrize("step", [rolled_up, cubed, stacked, json_tuple])
def test_the_parents_after_a_step_of_a_stream_are_exact(
    ledger: Ledger, make_topic: TopicMaker, step: Step
) -> None:
    rows = step(ledger.read(TOPIC, maxOffsetsPerTrigger=PER_BATCH))
    plain = ledger.run(rows, make_topic("plain"), mode="update", lineage=False)
    records = ledger.run(rows, make_topic("out"), mode="update")
    check_exact(records, plain, ledger)


def test_the_parent_after_an_anti_join_is_the_row_of_the_stream(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    """Spark has no anti join with a stream on the right."""
    others = stored(ledger).where("k > 2").select("n")
    rows = ledger.read(TOPIC).join(others, "n", "leftAnti").select(numbers("n"))
    plain = ledger.run(rows, make_topic("plain"), lineage=False)
    records = ledger.run(rows, make_topic("out"))
    assert len(records) == 18
    check_exact(records, plain, ledger)


def first_of_each_key(rows: DataFrame) -> DataFrame:
    place = F.row_number().over(Window.partitionBy("k").orderBy("n"))
    return rows.withColumn("place", place).where("place <= 2").select(numbers("n"))


def above_the_mean(rows: DataFrame) -> DataFrame:
    mean = F.avg("n").over(Window.partitionBy("k"))
    return rows.withColumn("mean", mean).where("n > mean").select(numbers("n"))


@pytest.mark.parametrize("step", [first_of_each_key, above_the_mean, rolled_up])
def test_the_parents_after_a_step_of_a_batch_are_exact(
    ledger: Ledger, make_topic: TopicMaker, step: Step
) -> None:
    rows = step(stored(ledger))
    plain = save(rows, make_topic("plain"), ledger, "false")
    check_exact(save(rows, make_topic("out"), ledger, "true"), plain, ledger)


def test_the_parents_after_a_cogroup_are_within_ranges(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    def both(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        found = sorted({*left["n"], *right["m"]})
        return pd.DataFrame({"value": [",".join(map(str, found))]})

    left = stored(ledger).where("n % 4 = 0").groupBy("k")
    right = stored(ledger).where("n % 4 = 2").toDF("m", "k").groupBy("k")
    rows = left.cogroup(right).applyInPandas(both, "value string")
    records = save(rows, make_topic("out"), ledger, "true")
    assert {n for each in records for n in true_parents(each)} == set(range(0, COUNT, 2))
    check_within(records, ledger, unknown=False)


def check_within(records: list[Record], ledger: Ledger, *, unknown: bool) -> None:
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert parents.ranges, record
        assert parents.unknown == unknown, record
        missing = [n for n in true_parents(record) if not ledger.is_within(n, parents)]
        assert missing == [], record


@pytest.mark.skipif(not since("4.0"), reason="Spark 3.5 has no transformWithStateInPandas")
def test_the_parents_after_a_function_with_state_are_ranges_and_unknown_ones(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    stateful: Any = pytest.importorskip("pyspark.sql.streaming.stateful_processor")

    class Rows(stateful.StatefulProcessor):  # type: ignore[misc]
        """Returns the numbers of this micro-batch, and counts all in its state."""

        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "count int")

        def handleInputRows(self, key: Any, frames: Any, timers: Any) -> Iterator[pd.DataFrame]:
            found = [int(n) for frame in frames for n in frame["n"]]
            before = self.count.get()[0] if self.count.exists() else 0
            self.count.update((before + len(found),))
            yield pd.DataFrame({"value": [",".join(map(str, found))]})

        def close(self) -> None:
            pass

    groups: Any = ledger.read(TOPIC, maxOffsetsPerTrigger=PER_BATCH).select("n", "k").groupBy("k")
    rows = groups.transformWithStateInPandas(Rows(), "value string", "Append", "None")
    with configured(ledger.spark, {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}):
        records = ledger.run(rows, make_topic("out"))
    assert {n for each in records for n in true_parents(each)} == set(range(COUNT))
    # The values have rows of one micro-batch only: those are within the ranges.
    check_within(records, ledger, unknown=True)
