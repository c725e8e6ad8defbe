"""Queries of a job: handles, several at once, output modes, topics by row, source options."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.support import environment
from tests.waiting import wait_until

from headwater import LineageJob, merge_lineage
from headwater.delivery.modes import MODE_NAMES
from headwater.errors import CheckpointInUseError, InputError, QueryFailedError
from headwater.kafka import RecordProducer, end_offsets, read_topic
from headwater.model import Record
from headwater.model.header import origin_of
from headwater.model.record import Lineage
from headwater.settings import Settings
from headwater.spark.compat import configuration_of
from headwater.testing import Ledger, assert_lineage
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Fate, why_missing

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

NOW = {"availableNow": True}
COPIED = ("key", "value", "lineage")


@pytest.fixture
def source(broker: Settings, spark: SparkSession, make_topic: TopicMaker) -> str:
    """Two partitions; each has ten records `{"n": …}` with the keys a and b."""
    topic = make_topic("in")
    send(broker, topic, range(10))
    return topic


def send(settings: Settings, topic: str, numbers: range) -> None:
    with RecordProducer(settings.kafka) as producer:
        for n in numbers:
            for partition in (0, 1):
                value = json.dumps({"n": n}).encode()
                producer.send(topic, value, b"ab"[n % 2 : n % 2 + 1], partition=partition)


def records_of(topic: str, settings: Settings) -> list[Record]:
    return list(read_topic(topic, settings.kafka))


def lineage(record: Record) -> Lineage:
    found = origin_of(record).lineage
    assert found is not None
    return found


def parents(record: Record) -> set[str]:
    return set(map(str, lineage(record).parents))


def test_start_returns_a_handle_that_shows_and_stops_the_query(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target = make_topic("out")
    job = LineageJob("handled", settings=broker, checkpoint=tmp_path / "cp")
    query = job.start(job.read(source).select(*COPIED), target)
    assert query.is_active
    assert not query.await_termination(0.1)
    wait_until(lambda: len(records_of(target, broker)) == 20, 60, "20 copies")
    wait_until(lambda: query.last_progress is not None, 60, "the progress of the batch")
    assert set(query.status) == {"message", "isDataAvailable", "isTriggerActive"}
    assert query.id == json.loads((tmp_path / "cp" / "metadata").read_text())["id"]
    with pytest.raises(InputError, match="a query 'handled' of this job is running"):
        job.start(job.read(source).select(*COPIED), target)
    query.stop()
    assert not query.is_active
    assert query.exception() is None
    assert query.await_termination()
    assert {lineage(record).run_id for record in records_of(target, broker)} == {query.run_id}


def test_an_error_before_the_start_is_raised_by_start(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    job = LineageJob("held", settings=broker, checkpoint=tmp_path / "cp")
    query = job.start(job.read(source).select(*COPIED), make_topic("out"))
    other = LineageJob("other", settings=broker, checkpoint=tmp_path / "cp")
    with pytest.raises(CheckpointInUseError, match="in use"):
        other.start(other.read(source).select(*COPIED), make_topic("other"))
    query.stop()


def test_a_block_stops_its_queries_and_keeps_the_users_session(
    broker: Settings, spark: SparkSession, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target, before = make_topic("out"), configuration_of(spark)
    with LineageJob("block", spark=spark, settings=broker, checkpoint=tmp_path / "cp") as job:
        assert job.spark is spark
        query = job.start(job.read(source).select(*COPIED), target)
        wait_until(lambda: len(records_of(target, broker)) == 20, 60, "20 copies")
    assert not query.is_active
    assert configuration_of(spark) == before
    assert spark.range(3).count() == 3


def test_a_block_raises_the_error_of_a_query_that_was_not_awaited(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    def run() -> None:
        with LineageJob("failing", settings=broker, checkpoint=tmp_path / "cp") as job:
            query = job.start(failing(job.read(source)), make_topic("out"))
            wait_until(lambda: not query.is_active, 60, "the end of the query")

    with pytest.raises(QueryFailedError, match="DIVIDE_BY_ZERO"):
        run()


def failing(rows: DataFrame) -> DataFrame:
    text = (F.lit(1) / (F.col("offset") - F.col("offset"))).cast("string")
    return rows.select("key", text.alias("value"), "lineage")


def test_two_queries_of_one_application_write_each_its_output(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    even, odd = make_topic("even"), make_topic("odd")
    with LineageJob("split", settings=broker, checkpoint=tmp_path / "even") as job:
        rows = job.read(source).select(*COPIED)
        job.start(rows.where("key = 'a'"), even, trigger=NOW)
        job.start(
            rows.where("key = 'b'"), odd, name="odd_ones", checkpoint=tmp_path / "odd", trigger=NOW
        )
        assert job.await_termination(120)
    for topic, name, key in ((even, "split", b"a"), (odd, "odd_ones", b"b")):
        copies = records_of(topic, broker)
        assert [record.key for record in copies] == [key] * 10
        assert {origin_of(record).job_name for record in copies} == {name}


def test_a_query_that_fails_stops_the_others(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    job = LineageJob("two", settings=broker, checkpoint=tmp_path / "cp")
    running = job.start(job.read(source).select(*COPIED), make_topic("out"))
    job.start(failing(job.read(source)), make_topic("bad"), name="bad", checkpoint=tmp_path / "bad")
    with pytest.raises(QueryFailedError, match="query 'bad'"):
        job.await_termination(120)
    assert not running.is_active


@pytest.mark.parametrize("mode", ["exactly-once", "transactional"])
@pytest.mark.parametrize("output_mode", ["update", "complete"])
def test_an_aggregation_in_update_or_complete_mode_has_all_parents(
    broker: Settings,
    source: str,
    make_topic: TopicMaker,
    tmp_path: Path,
    mode: str,
    output_mode: Any,
) -> None:
    target = make_topic("out", partitions=1)

    def run() -> list[Record]:
        job = LineageJob("counts", settings=broker, checkpoint=tmp_path / "cp", delivery=mode)
        grouped = job.read(source).groupBy("key")
        rows = grouped.agg(
            F.count("*").cast("string").alias("value"),
            merge_lineage(F.col("lineage")).alias("lineage"),
        )
        job.write(rows, target, trigger=NOW, output_mode=output_mode)
        return records_of(target, broker)

    first = run()
    assert {(record.key, record.value) for record in first} == {(b"a", b"10"), (b"b", b"10")}
    send(broker, source, range(10, 11))
    second = run()[2:]
    # A group that has not changed is in the complete result only.
    unchanged = {(b"b", b"10")} if output_mode == "complete" else set()
    assert {(record.key, record.value) for record in second} == {(b"a", b"12")} | unchanged
    (changed,) = (record for record in second if record.key == b"a")
    even = {f"{source}/{p}@{offset}" for p in (0, 1) for offset in (0, 2, 4, 6, 8, 10)}
    assert parents(changed) == even


@pytest.mark.parametrize("mode", MODE_NAMES)
def test_the_column_topic_chooses_between_outputs(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path, mode: str
) -> None:
    first, second = make_topic("first"), make_topic("second")
    job = LineageJob("router", settings=broker, checkpoint=tmp_path / "cp", delivery=mode)
    n = F.get_json_object(F.col("value").cast("string"), "$.n").cast("int")
    topic = F.when(n < 4, first).when(n < 9, second).otherwise("elsewhere")
    rows = job.read(source).select(*COPIED, topic.alias("topic"))
    job.write(rows, [first, second], trigger=NOW)
    assert [len(records_of(each, broker)) for each in (first, second)] == [8, 10]
    letters = records_of(f"{first}-dead-letter", broker)
    assert [letter.header("__connect.errors.exception.message") for letter in letters] == [
        f"the row's topic is 'elsewhere', expected one of {first}, {second}".encode()
    ] * 2
    assert parents(letters[0]) | parents(letters[1]) == {f"{source}/0@9", f"{source}/1@9"}
    for record in records_of(second, broker):
        assert_lineage(record, parents=sorted(parents(record)), job_name="router")


def test_why_missing_finds_the_dead_letter_of_the_output_that_a_row_is_for(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    first, second = make_topic("first"), make_topic("second")
    settings = broker.model_copy(
        update={"jobs": broker.jobs.model_copy(update={"max_value_bytes": 8})}
    )
    job = LineageJob("router", settings=settings, checkpoint=tmp_path / "cp")
    rows = job.read(source).select(*COPIED, F.lit(second).alias("topic"))
    job.write(rows.withColumn("value", F.lit("longer than 8")), [first, second], trigger=NOW)
    assert records_of(f"{first}-dead-letter", broker) == []
    record = records_of(source, broker)[0].address
    assert why_missing(record, second, settings).fate == Fate.DEAD_LETTERED


def test_several_outputs_need_the_column_topic(
    broker: Settings, source: str, tmp_path: Path
) -> None:
    job = LineageJob("router", settings=broker, checkpoint=tmp_path / "cp")
    with pytest.raises(InputError, match="have no column 'topic'"):
        job.write(job.read(source).select(*COPIED), ["a", "b"], trigger=NOW)
    with pytest.raises(InputError, match="must be different"):
        job.write(job.read(source), ["a", "a"], trigger=NOW)


def test_a_pattern_reads_all_matching_topics(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    other, target = make_topic("other"), make_topic("out")
    send(broker, other, range(3))
    job = LineageJob("pattern", settings=broker, checkpoint=tmp_path / "cp")
    rows = job.read(subscribePattern=f"({source}|{other})").select(*COPIED)
    job.write(rows, target, trigger=NOW)
    copies = records_of(target, broker)
    assert len(copies) == 26
    assert {next(iter(parents(each))).partition("/")[0] for each in copies} == {source, other}


@pytest.mark.parametrize("mode", ["exactly-once", "transactional"])
def test_a_partition_that_several_tasks_read_is_copied_once(
    broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path, mode: str
) -> None:
    source, target = make_topic("in", partitions=1), make_topic("out", partitions=1)
    ledger = Ledger(source, broker)
    batches: list[Mapping[str, Any]] = []
    ledger.write(3000)
    job = LineageJob("tasks", settings=broker, checkpoint=tmp_path / "cp", delivery=mode)
    rows = job.read(source, minPartitions=4, maxOffsetsPerTrigger=1000).select(*COPIED)
    tasks = rows.withColumn("headers", F.expr(TASK_HEADER))
    job.write(tasks, target, trigger=NOW, on_batch=batches.append)
    copies = records_of(target, broker)
    assert len({next(iter(parents(record))) for record in copies}) == len(copies) == 3000
    # Proof that the options reached the source: three batches of four tasks.
    assert [batch["numInputRows"] for batch in batches] == [1000] * 3
    assert {record.header("task") for record in copies} == {b"0", b"1", b"2", b"3"}


TASK = "cast(cast(spark_partition_id() as string) as binary)"
TASK_HEADER = f"array(named_struct('key', 'task', 'value', {TASK}))"


@pytest.mark.parametrize(
    ("topics", "options", "expected"),
    [
        ([], {}, "a stream needs either topics or one of"),
        (["a"], {"subscribePattern": "a.*"}, "given: topics, subscribePattern"),
        (["a"], {"includeHeaders": False}, "includeHeaders=false would lose the headers"),
    ],
)
def test_options_without_one_meaning_are_refused(
    broker: Settings, spark: object, topics: list[str], options: dict[str, Any], expected: str
) -> None:
    no_topics = broker.model_copy(
        update={"jobs": broker.jobs.model_copy(update={"create_topics": False})}
    )
    with pytest.raises(InputError, match=expected):
        LineageJob("refused", settings=no_topics).read(*topics, **options)


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from headwater import LineageJob

source, target, *rest = sys.argv[1:]
with LineageJob("own_file", delivery="batched") as job:
    rows = job.read(source).select("key", "value", "lineage")
    job.write(rows, target, trigger={"availableNow": True})
print("arguments:", rest, "session:", SparkSession.getActiveSession())
"""


def test_options_of_the_command_line_reach_the_job_of_a_users_file(
    broker: Settings, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    file, target = tmp_path / "job.py", make_topic("out")
    file.write_text(PROGRAM)
    options = ["--set", "jobs.version=v9", "--delivery=transactional"]
    arguments = [source, target, "--checkpoint", str(tmp_path / "cp"), "--own", "--", "--set", "x"]
    ended = subprocess.run(
        [sys.executable, "-m", "headwater", "run", str(file), *options, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(broker),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    # The block has stopped the session that the job has created.
    assert "arguments: ['--own', '--set', 'x'] session: None" in ended.stdout
    assert {origin_of(record).job_version for record in records_of(target, broker)} == {"v9"}
    assert (tmp_path / "cp" / "commits" / "0").is_file()
    # The markers of transactions have offsets, too.
    assert len(records_of(target, broker)) == 20 < sum(end_offsets(target, broker.kafka).values())


def test_a_checkpoint_of_sparks_own_sink_is_continued_and_can_be_continued_by_it(
    broker: Settings, spark: SparkSession, source: str, make_topic: TopicMaker, tmp_path: Path
) -> None:
    target, checkpoint = make_topic("out"), tmp_path / "cp"

    def plain() -> None:
        brokers = broker.bootstrap_servers
        stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
        stream = stream.option("subscribe", source).option("startingOffsets", "earliest")
        rows = stream.load().select("key", "value")
        sink = rows.writeStream.format("kafka").option("topic", target).trigger(availableNow=True)
        sink = sink.option("kafka.bootstrap.servers", brokers)
        sink.option("checkpointLocation", checkpoint.as_uri()).start().awaitTermination(60)

    plain()
    send(broker, source, range(10, 12))
    job = LineageJob("moved", settings=broker)
    job.write(job.read(source).select(*COPIED), target, checkpoint=checkpoint, trigger=NOW)
    send(broker, source, range(12, 13))
    plain()
    copies = records_of(target, broker)
    assert len(copies) == 26
    moved = [record for record in copies if origin_of(record).lineage is not None]
    assert set().union(*map(parents, moved)) == {
        f"{source}/{partition}@{offset}" for partition in (0, 1) for offset in (10, 11)
    }
