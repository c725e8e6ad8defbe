"""Row lineage of plain jobs: which sink writes, and writes in foreachBatch without lineage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.unchanged import Ledger, numbers, true_parents

from headwater.kafka import create_topic, read_topic
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "unchanged-writes"


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 200)
    return ledger


def save(rows: DataFrame, topic: str, ledger: Ledger) -> None:
    servers = ledger.settings.bootstrap_servers
    options = {"kafka.bootstrap.servers": servers, "topic": topic}
    rows.select(numbers("n")).write.format("kafka").options(**options).save()


def check(ledger: Ledger, topic: str) -> None:
    records = list(read_topic(topic, ledger.settings.kafka))
    assert len(records) == 200
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert parents.numbers == true_parents(record)


def test_writes_of_foreach_batch_that_have_no_column_for_lineage_are_reported(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    folder, table, output = str(tmp_path / "files"), tmp_path / "table", make_topic("out")
    ledger.spark.sql(f"CREATE TABLE delta.`{table}` (n int, k int) USING delta")

    def write(batch: DataFrame) -> None:
        batch.write.mode("append").parquet(folder)
        batch.write.format("delta").mode("append").save(str(table))

    ledger.in_batches(TOPIC, write)
    assert ledger.spark.read.parquet(folder).count() == 200
    reason = "ParquetFileFormat, DeltaDataSource has no column for it"
    assert ledger.status() == {"kind": "off", "steps": [], "reason": reason}

    def write_both(batch: DataFrame) -> None:
        batch.write.mode("append").parquet(folder)
        save(batch, output, ledger)

    ledger.in_batches(TOPIC, write_both)
    check(ledger, output)
    assert ledger.status() == {
        "kind": "unknown",
        "steps": ["write with ParquetFileFormat"],
        "reason": None,
    }


def test_writes_in_foreach_batch_have_the_name_of_their_query_for_the_settings(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    output, application = make_topic("out"), str(ledger.spark.sparkContext.appName)
    rows = ledger.read(TOPIC).select("n")
    ledger.each_batch(rows, lambda batch: save(batch, output, ledger), disabledQueries=application)
    check(ledger, output)
    assert ledger.status()["kind"] == "exact"


@pytest.fixture
def tokens(ledger: Ledger) -> Iterator[None]:
    """The setting of Spark by which it fetches delegation tokens when an application starts."""
    conf = ledger.spark.sparkContext._jsc.sc().conf()
    name = "spark.kafka.clusters.main.auth.bootstrap.servers"
    conf.set(name, ledger.settings.bootstrap_servers)
    yield
    conf.remove(name)


@pytest.mark.usefixtures("tokens")
def test_the_sink_of_spark_is_kept_for_delegation_tokens(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    output = make_topic("out")
    # Only Headwater's sink writes these headers.
    records = ledger.run(ledger.read(TOPIC).select(numbers("n")), output, stamp="full")
    assert all(each.header("job_name") is None for each in records)
    check(ledger, output)
    status = ledger.status()
    assert status["kind"] == "exact"
    assert "delegation tokens (spark.kafka.clusters.*)" in status["reason"]
    with pytest.raises(Exception, match=r"Spark's own sink is kept: delegation tokens"):
        ledger.run(ledger.read(TOPIC).select(numbers("n")), output, delivery="exactly-once")
