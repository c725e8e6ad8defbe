"""`merge_lineage`: the parents of aggregated rows, and the state that they are kept in."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater import LineageJob, lineage_of, merge_lineage, parent_addresses
from headwater.kafka import RecordProducer, read_topic
from headwater.model.header import MAX_LISTED_PARENTS, origin_of
from headwater.settings import Settings
from headwater.spark.local_rows import local_rows
from headwater.spark.source import HEADERS_TYPE
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NOW = {"availableNow": True}
LINEAGE = (
    "struct<topic:string,partition:int,offset:bigint,parents:string,unlisted:bigint,"
    f"all_parents_hash:string,headers:{HEADERS_TYPE},rest:string>"
)
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PROVIDERS = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")

# What one row of a group contributes: the column `lineage`, and its parents.
Row = tuple[dict[str, Any] | None, set[str]]


@pytest.fixture(params=PROVIDERS)
def state_store(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    spark.conf.set(PROVIDER, f"org.apache.spark.sql.execution.streaming.state.{request.param}")
    yield
    spark.conf.unset(PROVIDER)


def merged_texts(lineage: Column) -> Column:
    """`merge_lineage` of version 0.1."""
    texts = F.collect_set(F.array_join(parent_addresses(lineage), ","))
    return lineage_of(F.flatten(F.transform(texts, lambda text: F.split(text, ","))))


def random_address(draw: random.Random) -> tuple[str, int, int]:
    topic = draw.choice(["visits", "visits-1", "ads.x", "V_2"])
    return topic, draw.randrange(12), draw.randrange(10 ** draw.randrange(1, 19))


def random_row(draw: random.Random) -> Row:
    """A record, a row of an earlier merge or join, or a row without parents."""
    addresses = [random_address(draw) for _ in range(draw.choice([0, 1, 1, 1, 3, 200]))]
    texts = [f"{topic}/{partition}@{offset}" for topic, partition, offset in addresses]
    if not addresses:
        return draw.choice([None, {}]), set()
    if len(addresses) == 1:
        return dict(zip(("topic", "partition", "offset"), addresses[0], strict=True)), set(texts)
    listed = draw.randrange(1, len(texts) + 1)
    rest = {"rest": ",".join(texts[listed:])} if listed < len(texts) else {}
    return {"parents": ",".join(texts[:listed]), **rest}, set(texts)


def expected(parents: set[str]) -> tuple[str | None, int, str | None, str | None]:
    every = sorted(parents)
    listed, others = every[:MAX_LISTED_PARENTS], every[MAX_LISTED_PARENTS:]
    text = ",".join(listed) or None
    if not others:
        return text, 0, None, None
    digest = hashlib.sha256(",".join(every).encode()).hexdigest()
    return text, len(others), digest, ",".join(others)


@pytest.mark.lines
def test_the_parents_of_a_group_are_those_of_its_rows_in_the_order_of_their_texts(
    spark: SparkSession,
) -> None:
    draw = random.Random(11)  # noqa: S311
    rows: list[tuple[int, dict[str, Any] | None]] = []
    parents: dict[int, set[str]] = {}
    for group in range(150):
        parents[group] = set()
        for _ in range(draw.randrange(1, 12)):
            lineage, added = random_row(draw)
            # Some rows occur twice, such as after a join.
            rows += [(group, lineage)] * draw.choice([1, 1, 2])
            parents[group] |= added
    draw.shuffle(rows)
    frame = local_rows(spark, rows, f"group int, lineage {LINEAGE}").repartition(3)
    merged = frame.groupBy("group").agg(merge_lineage(F.col("lineage")).alias("l"))
    found = {
        row["group"]: (row.parents, row.unlisted, row.all_parents_hash, row.rest)
        for row in merged.select("group", "l.*").collect()
    }
    assert found == {group: expected(each) for group, each in parents.items()}
    # Merging once more gives the same as merging all rows at once.
    again = merged.select(F.col("l").alias("lineage")).agg(
        merge_lineage(F.col("lineage")).alias("l")
    )
    (row,) = again.select("l.*").collect()
    total = expected(set().union(*parents.values()))
    assert (row.parents, row.unlisted, row.all_parents_hash, row.rest) == total


def test_ranges_and_unknown_parents_are_listed_first(spark: SparkSession) -> None:
    texts = ["~visits/0@3..9,?", "visits/0@17,visits/0@4", "~visits/0@8..12", "?"]
    rows = [({"parents": text},) for text in texts]
    frame = local_rows(spark, rows, f"lineage {LINEAGE}")
    (row,) = frame.agg(merge_lineage(F.col("lineage")).alias("l")).select("l.parents").collect()
    assert row.parents == "~visits/0@3..12,?,visits/0@17,visits/0@4"


def send(settings: Settings, topic: str, count: int) -> None:
    with RecordProducer(settings.kafka) as producer:
        for number in range(count):
            producer.send(topic, b"v", str(number % 2).encode(), partition=0)


def counted(job: LineageJob, topic: str, merge: Callable[[Column], Column]) -> DataFrame:
    return (
        job.read(topic)
        .groupBy("key")
        .agg(
            F.count("*").cast("string").alias("value"),
            merge(F.col("lineage")).alias("lineage"),
        )
    )


@pytest.mark.usefixtures("state_store")
def test_a_checkpoint_with_texts_of_an_earlier_version_is_continued(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    # The state has texts, then both forms, then is read as written.
    for merge in (merged_texts, merge_lineage, merge_lineage):
        send(broker, source, 6)
        job = LineageJob("counts", settings=broker, checkpoint=tmp_path / "checkpoint")
        rows = counted(job, source, merge)
        job.write(rows, target, trigger=NOW, output_mode="update")
    written = [record for record in read_topic(target, broker.kafka) if record.key == b"0"]
    assert [record.value for record in written] == [b"3", b"6", b"9"]
    for record in written:
        lineage = origin_of(record).lineage
        assert lineage is not None
        offsets = range(0, 2 * int(record.value or b""), 2)
        assert {str(each) for each in lineage.parents} == {f"{source}/0@{n}" for n in offsets}


@pytest.mark.lines
@pytest.mark.usefixtures("state_store")
def test_sessions_that_a_later_record_joins_have_the_parents_of_both(
    broker: Settings, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    minute = 60_000
    begin = time.time_ns() // 1_000_000 - 180 * minute

    def run(*minutes: int) -> None:
        with RecordProducer(broker.kafka) as producer:
            for at in minutes:
                producer.send(source, b"v", b"k", partition=0, timestamp_ms=begin + at * minute)
        job = LineageJob("sessions", settings=broker, checkpoint=tmp_path / "checkpoint")
        rows = job.read(source).withWatermark("timestamp", "30 minutes")
        sessions = rows.groupBy(F.session_window("timestamp", "5 minutes"), "key").agg(
            F.count("*").cast("string").alias("value"),
            merge_lineage(F.col("lineage")).alias("lineage"),
        )
        job.write(sessions, target, trigger=NOW)

    run(0, 8, 20)
    run(4)
    run(120)
    found = []
    for record in read_topic(target, broker.kafka):
        lineage = origin_of(record).lineage
        assert lineage is not None
        found.append((record.value, [each.offset for each in lineage.parents]))
    assert sorted(found) == [(b"1", [2]), (b"3", [0, 1, 3])]
