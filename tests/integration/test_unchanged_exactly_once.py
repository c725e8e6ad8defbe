"""Row lineage of plain jobs with `delivery=exactly-once`: batches that run again, and refusals.

A batch without its file in `commits` is one that Spark runs again: all of its records are in the
output. Batches that were killed halfway are in `tests/fault`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.kills import records_in
from tests.stamped import delete_before
from tests.unchanged import Ledger, numbers, values
from tests.waiting import wait_until

from headwater.kafka import create_topic
from headwater.model import Record
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.storage.checkpoint import read_progress
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "unchanged-exactly-once"


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 40)
    return ledger


def copied(ledger: Ledger) -> DataFrame:
    return ledger.read(TOPIC).select("key", numbers("n"))


def counted(ledger: Ledger) -> DataFrame:
    """Groups that have the same parents: each record is in three of them."""
    word = F.explode(F.array(F.lit("a"), F.lit("b"), F.col("k").cast("string")))
    words = ledger.read(TOPIC).select(word.alias("key"))
    return words.groupBy("key").agg(F.count("*").cast("string").alias("value"))


def matched(ledger: Ledger) -> DataFrame:
    """Rows that are equal in everything: each record has two equal matches."""
    other = ledger.spark.createDataFrame([(1, "x"), (1, "x"), (2, "y")], "k int, name string")
    rows = ledger.read(TOPIC).join(other, "k")
    return rows.select(F.col("name").alias("key"), numbers("n"))


def matched_by_partition(ledger: Ledger) -> DataFrame:
    return matched(ledger).withColumn("partition", F.length("value") % 2)


def in_pandas(ledger: Ledger) -> DataFrame:
    def changed(frames: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        yield from frames

    return ledger.read(TOPIC).select(numbers("n")).mapInPandas(changed, "value string")


def random(ledger: Ledger) -> DataFrame:
    return ledger.read(TOPIC).where(F.rand() > 0.1).select(numbers("n"))


def from_spark(ledger: Ledger) -> DataFrame:
    rows = ledger.spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return rows.select(F.col("value").cast("string"))


def run(
    ledger: Ledger, rows: DataFrame, output: str, checkpoint: Path, **more: Any
) -> list[Record]:
    """A start of the same query, which fails if the query fails."""
    ledger._queries -= 1
    conf = {"delivery": "exactly-once", **more}
    query = ledger.start(rows, output, checkpoint=checkpoint, **conf)
    return ledger.finish(query, output)


def interrupt(checkpoint: Path) -> int:
    """Make the last batch one that Spark runs again."""
    batch = read_progress(checkpoint).committed
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    assert read_progress(checkpoint).cut_off == batch
    return batch


@pytest.fixture(autouse=True)
def named(ledger: Ledger) -> None:
    ledger._queries += 1


@pytest.mark.parametrize(
    ("rows", "mode"),
    [(copied, "append"), (counted, "update"), (counted, "complete"), (matched, "append")],
)
@pytest.mark.parametrize("stamp", ["compact", "full"])
def test_a_batch_that_runs_again_writes_nothing_twice(
    ledger: Ledger,
    make_topic: TopicMaker,
    tmp_path: Path,
    rows: Callable[[Ledger], DataFrame],
    mode: str,
    stamp: str,
) -> None:
    output = make_topic("out")
    first = run(ledger, rows(ledger), output, tmp_path, mode=mode, stamp=stamp)
    batch = interrupt(tmp_path)
    second = run(ledger, rows(ledger), output, tmp_path, mode=mode, stamp=stamp)
    # Proof that it ran again.
    assert read_progress(tmp_path).committed == batch
    assert values(second) == values(first)
    assert len(first) == records_in(output, ledger.settings) > 0


def test_a_query_that_is_stopped_within_a_batch_can_be_started_again_in_the_same_process(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    ledger.fill(source, 20_000)
    rows = ledger.read(source, maxOffsetsPerTrigger=20_000).select(numbers("n"))
    # A request per record, so that the batch takes long enough.
    slow = {"kafka.batch.size": "0", "kafka.linger.ms": "0"}
    ledger._queries -= 1
    query = ledger.start(rows, output, checkpoint=tmp_path, options=slow, delivery="exactly-once")
    first = partial(records_in, output, ledger.settings)
    wait_until(first, 60, "the first records", pause_seconds=0.01)
    query.stop()
    # Proof that a batch was interrupted.
    assert read_progress(tmp_path).cut_off == 0
    run(ledger, rows, output, tmp_path, options=slow)
    assert records_in(output, ledger.settings) == 20_000


def test_a_batch_that_runs_again_with_another_delivery_is_written_twice(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    output = make_topic("out")
    assert len(run(ledger, copied(ledger), output, tmp_path)) == 40
    interrupt(tmp_path)
    assert len(run(ledger, copied(ledger), output, tmp_path, delivery="idempotent")) == 80
    interrupt(tmp_path)
    with pytest.raises(Exception, match="was interrupted with another delivery"):
        run(ledger, copied(ledger), output, tmp_path)


def test_a_start_that_failed_before_its_first_batch_was_written_can_be_repeated(
    ledger: Ledger, tmp_path: Path
) -> None:
    output = "unchanged-created-later"
    with pytest.raises(Exception, match=f"the output topic {output} is missing: create it"):
        run(ledger, copied(ledger), output, tmp_path)
    # Proof that Spark has recorded the batch.
    assert read_progress(tmp_path).cut_off == 0
    create_topic(output, 2, ledger.settings.kafka)
    assert len(run(ledger, copied(ledger), output, tmp_path)) == 40
    interrupt(tmp_path)
    assert len(run(ledger, copied(ledger), output, tmp_path)) == 40


def test_the_log_is_kept_until_another_delivery_writes(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    output = make_topic("out")
    run(ledger, copied(ledger), output, tmp_path)
    interrupt(tmp_path)
    refused = {"kafka.key.serializer": "any"}
    with pytest.raises(Exception, match=r"key\.serializer"):
        run(ledger, copied(ledger), output, tmp_path, options=refused, delivery="idempotent")
    assert len(run(ledger, copied(ledger), output, tmp_path)) == 40
    interrupt(tmp_path)
    # Spark's own sink.
    assert len(run(ledger, copied(ledger), output, tmp_path, enabled="false")) == 80
    assert not (tmp_path / "headwater/exactly-once").exists()


def test_a_write_to_kafka_inside_foreach_batch_is_refused(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    output = make_topic("out")

    def write(batch: DataFrame) -> None:
        rows = batch.select(F.col("n").cast("string").alias("value"))
        servers = {"kafka.bootstrap.servers": ledger.settings.bootstrap_servers}
        rows.write.format("kafka").options(**servers, topic=output).save()

    conf = {"spark.headwater.lineage.delivery": "exactly-once"}
    with (
        configured(ledger.spark, conf),
        pytest.raises(Exception, match="writes to Kafka inside foreachBatch"),
    ):
        ledger.in_batches(TOPIC, write)
    assert records_in(output, ledger.settings) == 0


@pytest.mark.parametrize(
    ("rows", "conf", "reason"),
    [
        (in_pandas, {}, r"not exact because of \[MapInPandas\]"),
        (random, {}, "because of rand: its result may differ"),
        (from_spark, {}, "its rows do not come from Kafka"),
        (copied, {"sink": "headers"}, "spark.headwater.lineage.sink has to be headwater"),
        (copied, {"stamp": "small"}, "stamp is 'small', expected one of compact, full"),
        (matched_by_partition, {}, "the column partition may be null"),
    ],
)
def test_a_query_whose_rows_can_not_be_recognized_does_not_start(
    ledger: Ledger,
    make_topic: TopicMaker,
    tmp_path: Path,
    rows: Callable[[Ledger], DataFrame],
    conf: dict[str, str],
    reason: str,
) -> None:
    output = make_topic("out")
    with pytest.raises(Exception, match=reason):
        run(ledger, rows(ledger), output, tmp_path, **conf)
    assert records_in(output, ledger.settings) == 0


def test_a_checkpoint_with_state_but_without_lineage_is_refused(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    output = make_topic("out")
    run(ledger, counted(ledger), output, tmp_path, mode="update", lineage=False)
    with pytest.raises(Exception, match="the checkpoint has state without lineage"):
        run(ledger, counted(ledger), output, tmp_path, mode="update")


@pytest.mark.parametrize("option", ["kafka.interceptor.classes", "kafka.transactional.id"])
def test_options_of_the_sink_that_would_break_the_guarantee_stop_the_query(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path, option: str
) -> None:
    output = make_topic("out")
    with pytest.raises(Exception, match=option):
        run(ledger, copied(ledger), output, tmp_path, options={option: "true"})
    assert records_in(output, ledger.settings) == 0


def test_an_interrupted_batch_whose_records_were_deleted_or_renamed_is_refused(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    output = make_topic("out", partitions=1)
    run(ledger, copied(ledger), output, tmp_path)
    interrupt(tmp_path)
    with pytest.raises(Exception, match="and now the output is"):
        run(ledger, copied(ledger), make_topic("other"), tmp_path)
    ledger._queries += 1
    with pytest.raises(Exception, match="restore its name"):
        run(ledger, copied(ledger), output, tmp_path)
    ledger._queries -= 1
    delete_before(output, 1, ledger.settings)
    with pytest.raises(Exception, match=r"@0 to @0 were deleted from the output"):
        run(ledger, copied(ledger), output, tmp_path)
