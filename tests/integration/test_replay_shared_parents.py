"""Replays of a transform that makes several rows of one record, after an interrupted step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import ReplayRefusedError
from headwater.jobs import data_synchronization_job
from headwater.kafka import RecordProducer, read_topic
from headwater.replay.folder import ReplayFolder
from headwater.replay.operation import replay
from headwater.replay.request import Request
from headwater.replay.selection import Selection
from headwater.replay.transform import Transform
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Replay = Callable[..., ReplayFolder]


def words(rows: DataFrame) -> DataFrame:
    """Rows that share their parents."""
    word = F.explode(F.split(F.col("value").cast("string"), " "))
    return rows.select("key", word.alias("value"), "lineage")


def numbered(rows: DataFrame) -> DataFrame:
    word = F.posexplode(F.split(F.col("value").cast("string"), " "))
    return rows.select("key", word.alias("ordinal", "value"), "lineage")


@pytest.fixture
def run(broker: Settings, spark: SparkSession, make_topic: TopicMaker, tmp_path: Path) -> Replay:
    """Replays three records of two words."""
    settings = broker.model_copy(update={"home": tmp_path / "home"})
    source = make_topic("in", partitions=1)
    with RecordProducer(settings.kafka) as producer:
        for number in range(3):
            producer.send(source, f"{number} again".encode(), b"key")
    data_synchronization_job.main.main(
        ["--available-now", "--quiet", "--input-topic", source], standalone_mode=False, obj=settings
    )

    def run(
        function: Callable[[DataFrame], DataFrame], target: str, delivery: str = "exactly-once"
    ) -> ReplayFolder:
        request = Request(
            name="words",
            transform=Transform("words", function),
            selection=Selection(source, {0: ((0, 2),)}),
            job_version="v1",
            target=target,
            delivery=delivery,
        )
        return replay(request, settings, lambda: spark).folder

    return run


def interrupt(folder: ReplayFolder) -> None:
    """Make its step one that was not completed."""
    (folder.path / "manifest.json").unlink()
    (folder.path / "commits" / "0").unlink()
    assert folder.progress().cut_off == 0


def test_a_step_whose_rows_share_parents_is_not_completed(
    run: Replay, broker: Settings, make_topic: TopicMaker
) -> None:
    target = make_topic("out", partitions=1)
    interrupt(run(words, target))
    with pytest.raises(ReplayRefusedError, match=r"several of its rows have the same parents \("):
        run(words, target)
    assert len(list(read_topic(target, broker.kafka))) == 6


@pytest.mark.parametrize(
    ("function", "delivery"), [(numbered, "exactly-once"), (words, "transactional")]
)
def test_rows_that_are_numbered_or_written_in_transactions_are_completed_once(
    run: Replay,
    broker: Settings,
    make_topic: TopicMaker,
    function: Callable[[DataFrame], DataFrame],
    delivery: str,
) -> None:
    target = make_topic("out", partitions=1)
    interrupt(run(function, target, delivery))
    manifest = run(function, target, delivery).manifest()
    assert manifest is not None
    assert manifest.result.outputs.records == 6
    assert manifest.result.read.records == 3
    assert len(list(read_topic(target, broker.kafka))) == 6
