"""Row lineage of plain jobs with `delivery=transactional`: checkpoints and committed batches."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.unchanged import Ledger, numbers, values

from headwater.kafka import read_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import read_progress
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def ledger(broker: Settings, spark: SparkSession, tmp_path: Path) -> Ledger:
    return Ledger(spark, broker, tmp_path)


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_older_copy_of_a_checkpoint_stops_the_query_before_records_are_lost(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path, shuffled: bool
) -> None:
    source, output, checkpoint = make_topic("in"), make_topic("out"), tmp_path / "checkpoint"

    def run() -> list[bytes | None]:
        rows: DataFrame = ledger.read(source).select(numbers("n"))
        rows = rows.repartition(2, "value") if shuffled else rows
        return values(ledger.run(rows, output, checkpoint=checkpoint, delivery="transactional"))

    ledger.fill(source, 10)
    run()
    shutil.copytree(checkpoint, tmp_path / "copy")
    ledger.fill(source, 10, first=10)
    # A batch that is committed in Kafka, and not in the checkpoint, is completed.
    run()
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    assert read_progress(checkpoint).cut_off == 1
    written = run()
    assert len(written) == 20
    shutil.rmtree(checkpoint)
    (tmp_path / "copy").rename(checkpoint)
    # They would be in the next batch of the copy, whose number is in the output.
    ledger.fill(source, 10, first=20)
    refused = "is older than the output: its newest batch is 0, but the output has batch 1"
    with pytest.raises(Exception, match=refused):
        run()
    assert values(list(read_topic(output, ledger.settings.kafka))) == written
