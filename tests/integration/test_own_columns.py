"""Rows with the columns `headers` and `partition` of Spark's Kafka sink."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import LineageJob
from headwater.delivery.modes import MODE_NAMES
from headwater.errors import InputError
from headwater.kafka import RecordProducer, read_topic
from headwater.model import Record
from headwater.model.dead_letter import read_letter
from headwater.settings import Settings
from headwater.testing import assert_lineage
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

OWN = """array(
    struct('schema' AS key, X'37' AS value),
    struct('lineage' AS key, X'00' AS value),
    struct('empty' AS key, CAST(NULL AS binary) AS value)
)"""


def foreign(record: Record) -> list[tuple[str, bytes | None]]:
    """The headers after Headwater's own."""
    names = [name for name, _ in record.headers]
    return list(record.headers[names.index("lineage") + 1 :])


@pytest.fixture
def source(broker: Settings, spark: SparkSession, make_topic: TopicMaker) -> str:
    topic = make_topic("in")
    with RecordProducer(broker.kafka) as producer:
        for partition in (0, 1):
            headers = [("schema", b"1"), ("traceparent", b"00")]
            producer.send(topic, b"value", b"key", partition=partition, headers=headers)
    return topic


def write(rows: DataFrame, job: LineageJob, target: str, settings: Settings) -> list[Record]:
    job.write(rows, target, trigger={"availableNow": True})
    return sorted(read_topic(target, settings.kafka), key=lambda record: record.address)


@pytest.mark.parametrize("mode", MODE_NAMES)
def test_own_headers_replace_those_of_the_parent_and_none_is_forged(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path, mode: str
) -> None:
    # A local checkpoint as text means the same as a path.
    checkpoint = str(tmp_path / "checkpoint")
    job = LineageJob("own", settings=broker, checkpoint=checkpoint, delivery=mode)
    rows = job.read(source).where("partition = 0").select("key", "value", "lineage")
    (record,) = write(rows.withColumn("headers", F.expr(OWN)), job, make_topic("out"), broker)
    assert foreign(record) == [("schema", b"7"), ("empty", None)]
    assert_lineage(record, parents=[f"{source}/0@0"], job_name="own")


def test_without_own_headers_a_row_has_those_of_its_parent(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    job = LineageJob("own", settings=broker, checkpoint=tmp_path / "checkpoint")
    rows = job.read(source).where("partition = 0").select("key", "value", "lineage")
    some = rows.withColumn("headers", F.when(F.col("key").isNull(), F.expr(OWN)))
    (record,) = write(some, job, make_topic("out"), broker)
    # `schema` describes the content of the parent.
    assert foreign(record) == [("traceparent", b"00")]


def test_a_row_is_written_to_its_partition(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    job = LineageJob("own", settings=broker, checkpoint=tmp_path / "checkpoint")
    rows = job.read(source).select(
        "key", "value", "lineage", (F.lit(1) - F.col("partition")).cast("int").alias("partition")
    )
    records = write(rows, job, make_topic("out"), broker)
    assert [record.address.partition for record in records] == [0, 1]
    for record in records:
        parent = f"{source}/{1 - record.address.partition}@0"
        assert_lineage(record, parents=[parent], job_name="own")


def test_a_dead_letter_keeps_the_headers_of_its_parent(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target = make_topic("out")
    job = LineageJob("own", settings=broker, checkpoint=tmp_path / "checkpoint")
    error = F.struct(F.lit("headwater.Malformed").alias("kind"), F.lit("bad").alias("message"))
    rows = job.read(source).where("partition = 0").withColumn("error", error)
    assert write(rows.withColumn("headers", F.expr(OWN)), job, target, broker) == []
    (letter,) = read_topic(f"{target}-dead-letter", broker.kafka)
    assert letter.header("traceparent") == b"00"


def test_a_function_that_returns_its_error_does_not_stop_the_job(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    """As in the guide on own jobs; the function raises for the record of partition 1."""

    def score(value: Any, partition: Any) -> Any:
        try:
            return f"{bytes(value).decode()} {1 // (1 - partition)}", None
        except Exception as error:
            return None, (type(error).__name__, str(error))

    target = make_topic("out")
    job = LineageJob("own", settings=broker, checkpoint=tmp_path / "checkpoint")
    # Spark does not accept these type hints.
    scored = F.udf(
        lambda value, partition: score(value, partition),
        "result string, error struct<kind:string,message:string>",
    )
    rows = job.read(source).withColumn("scored", scored("value", "partition"))
    out = rows.select(
        "key", "scored.result", F.col("value").alias("raw_value"), "scored.error", "lineage"
    )
    (record,) = write(out.withColumnRenamed("result", "value"), job, target, broker)
    assert record.value == b"value 1"
    (letter,) = map(read_letter, read_topic(f"{target}-dead-letter", broker.kafka))
    assert (str(letter.origin), letter.record.value) == (f"{source}/1@0", b"value")
    assert letter.reason == "ZeroDivisionError"


@pytest.mark.parametrize("column", ["partition", "headers"])
def test_a_column_of_another_type_is_refused_with_its_type(
    broker: Settings, source: str, tmp_path: Path, column: str
) -> None:
    job = LineageJob("own", settings=broker, checkpoint=tmp_path / "checkpoint")
    rows = job.read(source).withColumn(column, F.lit("text"))
    with pytest.raises(InputError, match=f"a column '{column}' of type string"):
        job.write(rows, "out", trigger={"availableNow": True})
