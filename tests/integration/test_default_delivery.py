"""The delivery mode of a `LineageJob` that names none, with real checkpoints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater import LineageJob
from headwater.errors import InputError
from headwater.kafka import RecordProducer, read_topic
from headwater.settings import Settings
from headwater.storage.checkpoint import IDENTITY_FILE, read_identity
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Run = Callable[..., str | None]


def matched(rows: DataFrame) -> DataFrame:
    """Each record has two matches in a table."""
    return rows.crossJoin(rows.sparkSession.range(2)).select("key", "value")


def copied(rows: DataFrame) -> DataFrame:
    return rows.select("key", "value")


@pytest.fixture
def run(spark: SparkSession, broker: Settings, make_topic: TopicMaker, tmp_path: Path) -> Run:
    """Sends a record and runs a job until it is processed; returns the mode in the checkpoint."""
    source = make_topic("in")

    def run(
        made: Callable[[DataFrame], DataFrame], target: str, delivery: str | None = None
    ) -> str | None:
        with RecordProducer(broker.kafka) as producer:
            producer.send(source, b"value", b"key")
        checkpoint = tmp_path / "checkpoint"
        job = LineageJob("default", settings=broker, checkpoint=checkpoint, delivery=delivery)
        job.write(made(job.read(source)), target, trigger={"availableNow": True})
        identity = read_identity(checkpoint)
        return identity.delivery if identity else None

    return run


def test_a_join_with_a_table_is_transactional_unless_exactly_once_is_named(
    run: Run, broker: Settings, make_topic: TopicMaker, caplog: pytest.LogCaptureFixture
) -> None:
    target = make_topic("out")
    with pytest.raises(InputError, match="the same parents after Join with rows that are not"):
        run(matched, target, "exactly-once")
    assert run(matched, target) == "transactional"
    # Also of the record that the refused start did not read.
    assert len(list(read_topic(target, broker.kafka))) == 4
    (line,) = [each for each in caplog.messages if "no delivery mode is named" in each]
    assert "(several rows may have the same parents after Join with rows that are not" in line
    assert "isolation.level=read_committed" in line


def test_a_restart_keeps_the_mode_of_the_checkpoint(
    run: Run,
    broker: Settings,
    make_topic: TopicMaker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    target = make_topic("out")
    assert run(copied, target, "transactional") == "transactional"
    assert run(copied, target) == "transactional"
    assert any("transactional, as in" in each for each in caplog.messages)
    # A named mode changes it, and the next start keeps that one.
    assert run(copied, target, "exactly-once") == "exactly-once"
    assert run(copied, target) == "exactly-once"
    # The checkpoint of an earlier version has no mode; its output offsets are of exactly-once.
    (tmp_path / "checkpoint" / IDENTITY_FILE).unlink()
    with pytest.raises(InputError, match="exactly-once delivery finds records by their parents"):
        run(matched, target)
    assert run(copied, target) == "exactly-once"
    assert len(list(read_topic(target, broker.kafka))) == 6
