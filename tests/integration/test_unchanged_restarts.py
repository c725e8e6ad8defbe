"""Row lineage of plain jobs with state that are changed between two starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.unchanged import Ledger, numbers, true_parents, values

from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MARK = "headwater/row-lineage-state"


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    return Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))


def joined(ledger: Ledger, left: str, right: str, how: str, *, explode: bool) -> DataFrame:
    rows = ledger.read(left).select("n", "t")
    if explode:
        rows = rows.select(F.explode(F.array("n")).alias("n"), "t")
    other = ledger.read(right).select(F.col("n").alias("m"), F.col("t").alias("u"))
    condition = F.expr("m - 1000 = n AND u BETWEEN t AND t + INTERVAL 1 SECOND")
    found = rows.withWatermark("t", "10 days").join(
        other.withWatermark("u", "10 days"), condition, how
    )
    return found.select(numbers(*found.columns[:1], *(["m"] if how == "inner" else [])))


@pytest.mark.parametrize("how", ["inner", "leftSemi"])
def test_a_step_that_is_added_before_a_join_finds_the_state_of_the_join(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path, how: str
) -> None:
    left, right, output = make_topic("left"), make_topic("right"), make_topic("out")
    ledger.fill(left, 20)
    before = joined(ledger, left, right, how, explode=False)
    assert ledger.run(before, output, checkpoint=tmp_path / "checkpoint") == []
    ledger.fill(right, 20, first=1000)
    after = joined(ledger, left, right, how, explode=True)
    records = ledger.run(after, output, checkpoint=tmp_path / "checkpoint")
    assert len(records) == 20
    for record in records:
        parents = ledger.parents(record)
        assert parents is not None
        assert parents.numbers == true_parents(record)


def test_the_version_in_the_checkpoint_decides_on_the_fields_in_the_state(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    left, right, output = make_topic("left"), make_topic("right"), make_topic("out")
    ledger.fill(left, 20)
    rows = joined(ledger, left, right, "inner", explode=False)
    ledger.run(rows, output, checkpoint=tmp_path / "checkpoint")
    mark = tmp_path / "checkpoint" / MARK
    assert mark.read_text() == "2"
    # The query started with state of version 2, so with that of version 1 Spark must refuse it.
    mark.write_text("1")
    (mark.parent / ".row-lineage-state.crc").unlink(missing_ok=True)
    ledger.fill(right, 20, first=1000)
    with pytest.raises(Exception, match="STATE_STORE"):
        ledger.run(rows, output, checkpoint=tmp_path / "checkpoint")


def test_a_checkpoint_of_another_version_goes_on_without_lineage(
    ledger: Ledger, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    ledger.fill(source, 20)
    rows = ledger.read(source).groupBy("k").agg(F.count("*").alias("c"))
    rows = rows.select(F.col("c").cast("string").alias("value"))
    checkpoint = tmp_path / "checkpoint"
    ledger.run(rows, output, mode="update", checkpoint=checkpoint, lineage=False)
    (checkpoint / MARK).parent.mkdir()
    (checkpoint / MARK).write_text("99")
    ledger.fill(source, 20)
    records = ledger.run(rows, output, mode="update", checkpoint=checkpoint)
    assert values(records) == [b"2"] * 10 + [b"4"] * 10
    assert all(each.header("lineage") is None for each in records)
    reason = "the checkpoint has lineage of version 99 in its state"
    assert ledger.status() == {"kind": "off", "steps": [], "reason": reason}
