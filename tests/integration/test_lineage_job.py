"""Jobs of users: outputs of any transformation have their parents."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater import LineageJob, join_lineage, lineage_of, merge_lineage, parent_addresses
from headwater.errors import InputError
from headwater.kafka import RecordProducer, RecordReader, read_topic
from headwater.model import Address, Record
from headwater.model.header import Origin, origin_of
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Fate, trace, verify, why_missing

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RunJob = Callable[..., list[Record]]


@pytest.fixture
def run_job(broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path) -> RunJob:
    """Runs `transform(job)` on the available records and returns the output."""

    def run(transform: Callable[[LineageJob], DataFrame], target: str = "out") -> list[Record]:
        topic = make_topic(target, partitions=1)
        job = LineageJob("own_job", settings=broker, checkpoint=tmp_path / "checkpoint")
        job.write(transform(job), topic, trigger={"availableNow": True})
        return list(read_topic(topic, broker.kafka))

    return run


@pytest.fixture
def numbers(broker: Settings, make_topic: TopicMaker) -> str:
    """A topic of one partition with the records 0 to 5; odd and even ones have different keys."""
    topic = make_topic("numbers", partitions=1)
    fill(broker, topic, [json.dumps({"n": n, "words": ["a", "a", "b"]}) for n in range(6)])
    return topic


def fill(settings: Settings, topic: str, values: Sequence[str]) -> None:
    with RecordProducer(settings.kafka) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value.encode(), str(number % 2).encode(), partition=0)


def parents(record: Record) -> list[str]:
    return [str(parent) for parent in lineage(record).parents]


def lineage(record: Record):  # type: ignore[no-untyped-def]
    found = origin_of(record).lineage
    assert found is not None
    return found


def origins(records: Sequence[Record]) -> list[Origin]:
    return [origin_of(record) for record in records]


def test_a_filter_keeps_the_address_of_its_input(run_job: RunJob, numbers: str) -> None:
    def even(job: LineageJob) -> DataFrame:
        rows = job.read(numbers)
        return rows.where(F.get_json_object(rows.value.cast("string"), "$.n") % 2 == 0).select(
            "key", "value", "lineage"
        )

    assert [parents(r) for r in run_job(even)] == [[f"{numbers}/0@{n}"] for n in (0, 2, 4)]


def test_several_outputs_of_a_record_have_ordinals_and_different_ids(
    run_job: RunJob, numbers: str
) -> None:
    def words(job: LineageJob) -> DataFrame:
        rows = job.read(numbers).where("offset < 2")
        array = F.from_json(
            F.get_json_object(F.col("value").cast("string"), "$.words"), "array<string>"
        )
        exploded = rows.select("key", "lineage", F.posexplode(array).alias("ordinal", "value"))
        return exploded

    records = run_job(words)
    assert [parents(record) for record in records] == [[f"{numbers}/0@0"]] * 3 + [
        [f"{numbers}/0@1"]
    ] * 3
    assert [lineage(record).ordinal for record in records] == [0, 1, 2, 0, 1, 2]
    # Equal values of one parent are different records.
    assert len({origin.record_id for origin in origins(records)}) == 6


def test_a_function_in_python_that_makes_one_row_of_several_names_all_parents(
    run_job: RunJob, numbers: str
) -> None:
    def joined(frames: Iterable[Any]) -> Iterator[Any]:
        import pandas as pd

        for frame in frames:
            parents = [each for row in frame["parents"] for each in row]
            yield pd.DataFrame({"value": [str(len(frame))], "parents": [parents]})

    def in_batches(job: LineageJob) -> DataFrame:
        addresses = parent_addresses(F.col("lineage")).alias("parents")
        rows = job.read(numbers).select("value", addresses)
        made = rows.mapInPandas(joined, "value string, parents array<string>")
        return made.select("value", lineage_of(F.col("parents")).alias("lineage"))

    (record,) = run_job(in_batches)
    assert (record.value, parents(record)) == (b"6", [f"{numbers}/0@{n}" for n in range(6)])


def test_a_union_of_topics_has_the_right_parents(
    run_job: RunJob, numbers: str, broker: Settings, make_topic: TopicMaker
) -> None:
    other = make_topic("other", partitions=1)
    fill(broker, other, ["x", "y"])

    def both(job: LineageJob) -> DataFrame:
        columns = ["key", "value", "lineage"]
        return job.read(numbers).select(columns).unionByName(job.read(other).select(columns))

    found = sorted(parents(record)[0] for record in run_job(both))
    assert found == sorted(
        [*(f"{numbers}/0@{n}" for n in range(6)), f"{other}/0@0", f"{other}/0@1"]
    )


def test_a_stream_stream_join_has_parents_on_both_sides(
    run_job: RunJob, broker: Settings, make_topic: TopicMaker
) -> None:
    left, right = make_topic("left", partitions=1), make_topic("right", partitions=1)
    fill(broker, left, ["a", "b", "c"])
    fill(broker, right, ["c", "a"])

    def joined(job: LineageJob) -> DataFrame:
        one = job.read(left).withWatermark("timestamp", "10 minutes").alias("one")
        two = job.read(right).withWatermark("timestamp", "10 minutes").alias("two")
        condition = F.expr(
            "one.value = two.value AND two.timestamp BETWEEN one.timestamp - INTERVAL 1 HOUR "
            "AND one.timestamp + INTERVAL 1 HOUR"
        )
        return one.join(two, condition).select(
            F.col("one.value").alias("value"),
            join_lineage(F.col("one.lineage"), F.col("two.lineage")).alias("lineage"),
        )

    found = {record.value: parents(record) for record in run_job(joined)}
    assert found == {
        b"a": [f"{left}/0@0", f"{right}/0@1"],
        b"c": [f"{left}/0@2", f"{right}/0@0"],
    }


def test_an_aggregate_lists_parents_up_to_a_limit_and_has_the_addresses_of_the_others(
    spark: object, broker: Settings, make_topic: TopicMaker, run_job: RunJob
) -> None:
    source = make_topic("many", partitions=1)
    # The start of a past hour; the broker would soon delete much older records.
    hour = 3_600_000
    old = (time.time_ns() // 1_000_000 // hour - 2) * hour
    with RecordProducer(broker.kafka) as producer:
        for number in range(100):
            producer.send(source, b"x", b"k", partition=0, timestamp_ms=old + number)
        # A later record advances the watermark past the window.
        producer.send(source, b"x", b"later", partition=0, timestamp_ms=old + hour + 120_000)

    def counted(job: LineageJob) -> DataFrame:
        rows = job.read(source).withWatermark("timestamp", "1 minute")
        window = F.window("timestamp", "1 hour")
        return rows.groupBy(window, "key").agg(
            F.count("*").cast("string").alias("value"),
            merge_lineage(F.col("lineage"), max_listed=10).alias("lineage"),
        )

    (record,) = [r for r in run_job(counted) if r.key == b"k"]
    assert record.value == b"100"
    found = lineage(record)
    assert len(found.parents) == 10
    assert (found.unlisted, found.parent_count) == (90, 100)
    # The id can't be derived from a part of the parents, so it is in the header.
    assert found.record_id is not None
    assert origin_of(record).record_id == found.record_id
    with RecordReader(broker.kafka) as reader:
        fetched = [reader.fetch(address) for address in found.rest]
    others = [each for each in fetched if isinstance(each, Record)]
    assert {other.address.topic for other in others} == {f"{record.address.topic}-parents"}
    all_parents = {*found.parents, *(p for other in others for p in lineage(other).parents)}
    assert all_parents == {Address(source, 0, offset) for offset in range(100)}
    # Queries read the additional parents as well.
    node = trace(record.address, broker)
    assert {parent.address for parent in node.parents} == all_parents
    assert node.unlisted == 0
    proof = verify(record.address.topic, source, broker)
    assert (proof.found, proof.missing, proof.unlisted_parents) == (100, 1, 0)
    fate = why_missing(max(all_parents), record.address.topic, broker).verdict
    assert (fate.fate, fate.evidence) == (Fate.PRESENT, (record.address,))


def test_rows_that_do_not_come_from_kafka_are_refused_with_a_hint(run_job: RunJob) -> None:
    with pytest.raises(InputError, match="no row comes from Kafka") as error:
        run_job(lambda job: job.spark.readStream.format("rate").load().selectExpr("'a' AS value"))
    assert "keep the column in every select" in (error.value.hint or "")


def test_the_batch_version_is_the_batch_id_of_spark(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    for batch in range(3):
        fill(broker, source, ["x"])
        job = LineageJob("own_job", settings=broker, checkpoint=tmp_path / "checkpoint")
        rows = job.read(source).select("value", "lineage")
        job.write(rows, target, trigger={"availableNow": True})
        newest = list(read_topic(target, broker.kafka))[-1]
        assert origin_of(newest).batch_version == batch
        assert (tmp_path / "checkpoint" / "commits" / str(batch)).exists()
