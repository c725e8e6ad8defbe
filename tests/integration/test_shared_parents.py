"""Exactly-once delivery of a `LineageJob` whose rows may have the same parents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import LineageJob, with_row_lineage
from headwater.errors import InputError
from headwater.job.delivery import JobDelivery
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

WORD = "explode(split(CAST(value AS string), ' ')) AS value"
STATIC = "Join with rows that are not from Kafka"


@pytest.fixture
def rows(broker: Settings, spark: SparkSession, make_topic: TopicMaker) -> DataFrame:
    job = LineageJob("shared", settings=broker)
    return job.read(make_topic("in")).select("key", "value")


def counted(rows: DataFrame) -> DataFrame:
    return rows.selectExpr(WORD).groupBy("value").count()


def named(rows: DataFrame) -> DataFrame:
    return rows.crossJoin(rows.sparkSession.range(2))


SHARED: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "exploded": (counted, "Aggregate of rows with common parents"),
    "static join": (named, STATIC),
    "stack": (lambda rows: rows.selectExpr("stack(2, key, value) AS value"), "stack"),
    "numbered": (lambda rows: named(rows.selectExpr(WORD)), STATIC),
}


@pytest.mark.parametrize(("made", "step"), SHARED.values(), ids=SHARED)
def test_rows_that_may_share_parents_are_refused_unless_the_job_numbers_them(
    rows: DataFrame,
    broker: Settings,
    tmp_path: Path,
    made: Callable[[DataFrame], DataFrame],
    step: str,
) -> None:
    checkpoint = tmp_path / "checkpoint"
    job = LineageJob("shared", settings=broker, checkpoint=checkpoint, delivery="exactly-once")
    for each in (made(rows), with_row_lineage(made(rows))):
        with pytest.raises(InputError, match=f"have the same parents after {step}") as refused:
            job.write(each, "out", trigger={"availableNow": True}, output_mode="update")
        assert "a column `ordinal`" in (refused.value.hint or "")
        for own in (each.withColumn("ordinal", F.hash("value")), each):
            mode = "transactional" if own is each else "exactly-once"
            found, _ = JobDelivery(mode).of(own, checkpoint)
            assert "lineage" in found.rows.columns
            # The mode of a job that names none.
            assert JobDelivery(None).of(own, checkpoint)[1].name == mode


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: rows.where("key IS NOT NULL"),
        lambda rows: rows.selectExpr(WORD),
        lambda rows: rows.select(F.expr("uuid()").alias("value")).limit(3),
        lambda rows: rows.groupBy("key").agg(F.first("value").alias("value")),
    ],
    ids=["filter", "explode", "random", "groups"],
)
def test_rows_that_their_parents_identify_are_accepted(
    rows: DataFrame, made: Callable[[DataFrame], DataFrame], tmp_path: Path
) -> None:
    for named in ("exactly-once", None):
        found, mode = JobDelivery(named).of(made(rows), tmp_path / "checkpoint")
        assert (found.shared_by, mode.name) == (None, "exactly-once")
