"""Records with large headers, or many: they go on without the excess, and no job stops."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater import LineageJob
from headwater.delivery.sink import OutputTopics, rows_to_send
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.model import Header, Record
from headwater.model.header import MAX_HEADER_BYTES
from headwater.settings import Settings
from headwater.spark.source import HEADERS_TYPE, join_lineage, merge_lineage, parent_lineage
from headwater.testing import assert_lineage
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ZEROS = ("ce_zeros", bytes(2 * 1024 * 1024))
MANY: list[Header] = [(f"ce_{number}", b"x") for number in range(10_000)]
TRACE = ("traceparent", b"00")


@pytest.fixture(scope="module")
def source(broker: Settings) -> str:
    """A topic with Kafka's default limit, in which 2 MiB of zeros fit: it counts packed bytes."""
    topic = "large-headers.in"
    create_topic(topic, 1, broker.kafka)
    with RecordProducer(broker.kafka, **{"message.max.bytes": 10_000_000}) as producer:
        for headers in ([ZEROS, TRACE], [*MANY, TRACE], [TRACE]):
            producer.send(topic, b"value", b"key", headers=headers)
        # Both together are over the limit of a producer, each alone is not.
        producer.send(topic, b"v" * 900_000, b"k" * 300_000, headers=[TRACE])
        producer.send(topic, b"bad", b"key", headers=[ZEROS, ("content-type", b"text"), TRACE])
    return topic


def foreign(record: Record) -> list[Header]:
    """The headers after Headwater's own and those of errors."""
    names = [name for name, _ in record.headers]
    headers = record.headers[names.index("lineage") + 1 :]
    return [each for each in headers if not each[0].startswith("__connect.errors.")]


@pytest.mark.parametrize("mode", ["exactly-once", "transactional"])
def test_a_job_goes_on_without_the_headers_beyond_the_limits(
    broker: Settings, source: str, spark: object, make_topic: TopicMaker, tmp_path: Path, mode: str
) -> None:
    target = make_topic("out", partitions=1)
    progress: list[Mapping[str, Any]] = []
    job = LineageJob("bounded", settings=broker, checkpoint=tmp_path / "c", delivery=mode)
    error = F.struct(F.lit("Bad").alias("kind"), F.lit("x" * 100_000).alias("message"))
    rows = job.read(source).select(
        "key", "value", "lineage", F.when(F.expr("value = X'626164'"), error).alias("error")
    )
    job.write(rows, target, trigger={"availableNow": True}, on_batch=progress.append)
    records = list(read_topic(target, broker.kafka))
    assert [foreign(record) for record in records] == [
        [TRACE, ("lineage_dropped_headers", b"1")],
        [*MANY[:100], ("lineage_dropped_headers", b"9901")],
        [TRACE],
    ]
    for offset, record in enumerate(records):
        assert_lineage(record, parents=[f"{source}/0@{offset}"], job_name="bounded")
    large, bad = read_topic(f"{target}-dead-letter", broker.kafka)
    assert large.key is None
    assert (large.value or b"").startswith(f'{{"address":"{source}/0@3","size":900000,'.encode())
    assert large.header("__connect.errors.exception.class.name") == b"headwater.TooLarge"
    assert foreign(large) == [("lineage_dropped_headers", b"1")]
    # A dead letter has the value of its parent, and so all of its headers that fit.
    assert (bad.key, bad.value) == (b"key", b"bad")
    assert foreign(bad) == [("content-type", b"text"), TRACE, ("lineage_dropped_headers", b"1")]
    dropped = [int(each["sink"]["metrics"].get("dropped-headers", 0)) for each in progress]
    assert sum(dropped) == 1 + 9901 + 1


def test_the_policy_holds_for_inherited_headers_and_not_for_those_of_the_row(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, names = make_topic("in", partitions=1), ("traceparent", "value_schema_id", "x-tenant")
    with RecordProducer(broker.kafka) as producer:
        producer.send(source, b"value", headers=[(name, b"1") for name in names])

    def written(name: str, more: list[str], *columns: str) -> list[str]:
        jobs = broker.jobs.model_copy(update={"inherit_headers": more})
        settings = broker.model_copy(update={"jobs": jobs})
        target = make_topic(name, partitions=1)
        job = LineageJob(name, settings=settings, checkpoint=tmp_path / name)
        rows = job.read(source).select("value", "lineage", *columns)
        job.write(rows, target, trigger={"availableNow": True})
        (record,) = read_topic(target, broker.kafka)
        return [name for name, _ in foreign(record)]

    assert written("default", []) == ["traceparent"]
    assert written("more", ["x-*"]) == ["traceparent", "x-tenant"]
    assert written("all", ["*"]) == list(names)
    # A job that keeps the value keeps the column, too.
    assert written("column", [], "headers") == list(names)


@pytest.mark.parametrize("max_listed", [64, 1000])
def test_the_parents_of_joined_aggregates_fit_into_a_header(
    spark: SparkSession, max_listed: int
) -> None:
    topic = "t" * 249
    rows = spark.range(300).withColumn(
        "lineage",
        parent_lineage(F.lit(topic), F.lit(0), F.col("id"), F.lit(None).cast(HEADERS_TYPE)),
    )
    lineage = merge_lineage(F.col("lineage"), max_listed)
    joined = None
    for first in (0, 100, 200):
        part = rows.where(F.col("id").between(first, first + 99)).groupBy().agg(lineage.alias("l"))
        if joined is None:
            joined = part
        else:
            both = join_lineage(F.col("a.l"), F.col("b.l")).alias("l")
            joined = joined.alias("a").crossJoin(part.alias("b")).select(both)
    assert joined is not None
    output = joined.select(F.lit("value").alias("value"), F.col("l").alias("lineage"))
    (sent,) = rows_to_send(output, OutputTopics(("out",)), 900_000).select("lineage.*").collect()
    listed, rest = sent["parents"].split(","), sent["rest"].split(",")
    assert len(sent["parents"]) <= MAX_HEADER_BYTES / 2
    assert (len(listed), sent["unlisted"]) == (64, 300 - 64)
    assert sorted(listed + rest) == sorted(f"{topic}/0@{number}" for number in range(300))
    assert sent["all_parents_hash"] is not None
