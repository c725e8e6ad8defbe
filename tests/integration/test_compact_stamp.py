"""A compact stamp: the lineage header alone, and every query has the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headwater import LineageJob
from headwater.errors import InputError
from headwater.kafka import (
    KafkaRuns,
    RecordProducer,
    is_compacted,
    last_runs,
    read_topic,
    write_run,
)
from headwater.kafka.client import find_topic
from headwater.model import Address, Record
from headwater.model.dead_letter import read_letter
from headwater.model.header import identity_of, origin_of
from headwater.model.run_record import RunCoverage, RunRecord
from headwater.model.topic_names import dead_letter_topic
from headwater.replay.identities import IDENTITY, in_topic, register_digest_udf
from headwater.settings import Settings
from headwater.spark.writers.index_parse import parse_lineage, with_runs
from headwater.spark.writers.index_ranges import made_of
from headwater.storage.query_identity import recent_records
from headwater.testing import assert_lineage
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Fate, trace, verify, why_missing

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

# Value of the record that is too large for the output.
LARGE = 5


@pytest.fixture
def settings(broker: Settings, make_topic: TopicMaker) -> Settings:
    """With its own topic of runs, which does not exist yet."""
    runs = f"{make_topic('used', partitions=1)}-runs"
    kafka = broker.kafka.model_copy(update={"runs_topic": runs})
    jobs = broker.jobs.model_copy(update={"max_value_bytes": 100})
    return broker.model_copy(update={"kafka": kafka, "jobs": jobs})


def run_job(settings: Settings, source: str, output: str, stamp: str, tmp_path: Path) -> None:
    job = LineageJob(
        "own_job",
        version="v7",
        stamp=stamp,
        settings=settings,
        checkpoint=tmp_path / stamp,
    )
    rows = job.read(source).select("key", "value", "lineage")
    job.write(rows, output, trigger={"availableNow": True})


def without_run(node: dict[str, Any]) -> dict[str, Any]:
    """The trace without what differs between two outputs of the same job."""
    ignored = {"topic", "run_id", "timestamp", "parents"}
    parents = [without_run(parent) for parent in node["parents"]]
    return {name: value for name, value in node.items() if name not in ignored} | {"p": parents}


def test_every_query_has_the_same_answer_for_both_stamps(
    settings: Settings,
    spark: SparkSession,
    make_topic: TopicMaker,
    tmp_path: Path,
) -> None:
    source, full, compact = (make_topic(name, partitions=1) for name in ("in", "full", "compact"))
    with RecordProducer(settings.kafka) as producer:
        for number in range(6):
            value = b"x" * 200 if number == LARGE else str(number).encode()
            producer.send(source, value, b"k", partition=0)
    for stamp, output in (("full", full), ("compact", compact)):
        run_job(settings, source, output, stamp, tmp_path)
    stamped, bare = (list(read_topic(topic, settings.kafka)) for topic in (full, compact))
    assert [name for name, _ in bare[0].headers] == ["lineage"]
    value = bare[0].header("lineage") or b""
    assert value.startswith(b"2 ")
    assert value.endswith(b" b0")
    assert identity_of(value) == identity_of(stamped[0].header("lineage") or b"")
    assert is_compacted(settings.kafka.runs_topic, settings.kafka)

    traces = [trace(Address(t, 0, 3), settings).as_json() for t in (full, compact)]
    assert without_run(traces[0]) == without_run(traces[1])
    assert (traces[1]["job_name"], traces[1]["job_version"]) == ("own_job", "v7")
    assert traces[1]["batch_version"] == 0
    reports = [verify(topic, source, settings).as_json() for topic in (full, compact)]
    assert [report.pop("topic") for report in reports] == [full, compact]
    assert reports[0] == reports[1]
    assert (reports[0]["passed"], reports[0]["dead_lettered"]) == (True, 1)
    for topic in (full, compact):
        assert why_missing(Address(source, 0, 1), topic, settings).fate is Fate.PRESENT
        found = why_missing(Address(source, 0, LARGE), topic, settings)
        assert found.fate is Fate.DEAD_LETTERED
    letters = [
        read_letter(next(iter(read_topic(dead_letter_topic(topic), settings.kafka))))
        for topic in (full, compact)
    ]
    assert letters[0].job_name == letters[1].job_name == "own_job"
    assert letters[0].batch == letters[1].batch == 0
    assert_lineage(bare[2], parents=[f"{source}/0@2"], job_name="own_job", settings=settings)
    # The guard of checkpoints recognizes the records of the job.
    found_records = list(recent_records(compact, "own_job", [source].__contains__, settings.kafka))
    assert len(found_records) == len(bare)
    _check_in_spark(settings, spark, compact, bare)


def _check_in_spark(
    settings: Settings, spark: SparkSession, compact: str, bare: list[Record]
) -> None:
    """The index and a replay find the job of the records, too."""
    options = {"kafka.bootstrap.servers": settings.bootstrap_servers, "includeHeaders": "true"}
    records = spark.read.format("kafka").options(**options, subscribe=compact).load()
    runs = KafkaRuns(settings.kafka)
    made = made_of(with_runs(parse_lineage(records), runs)).collect()
    assert [(row["job_name"], row["job_version"], row["batch_version"]) for row in made] == [
        ("own_job", "v7", 0)
    ]
    register_digest_udf(spark)
    existing = in_topic(records, "own_job", "another run", runs.of_job("own_job"))
    assert existing.where(F.col(IDENTITY).isNotNull()).count() == len(bare)
    assert in_topic(records, "own_job", "another run").count() == 0


def test_the_driver_of_any_job_writes_the_record_of_its_run(
    settings: Settings, spark: SparkSession
) -> None:
    jvm: Any = spark._jvm
    delivery = jvm.dev.headwater.delivery
    run_id, topic = "0190c5f2-1111-7222-8333-444455556666", settings.kafka.runs_topic
    options = {"kafka.bootstrap.servers": settings.bootstrap_servers, "topic": "ignored"}
    run = delivery.RunRecord(run_id, 'a "job"', "v1", 7, "ranges", ["a step"], None)
    assert not delivery.RunRecords.write(options, topic, run, False)
    assert find_topic(topic, settings.kafka) is None
    assert delivery.RunRecords.write(options, topic, run, True)
    assert KafkaRuns(settings.kafka).find(run_id) == RunRecord('a "job"', "v1", 7)
    (last,) = last_runs(settings.kafka)
    assert last == RunRecord('a "job"', "v1", 7, RunCoverage("ranges", ("a step",)))
    assert is_compacted(topic, settings.kafka)
    # An unreachable broker is an entry in the log, and nothing else.
    unreachable = {"kafka.bootstrap.servers": "127.0.0.1:1"}
    assert not delivery.RunRecords.write(unreachable, topic, run, True)


def test_runs_are_found_after_they_are_written_and_others_are_none(settings: Settings) -> None:
    now = [0.0]
    runs = KafkaRuns(settings.kafka, clock=lambda: now[0])
    assert runs.find("r1") is None
    assert write_run("r1", RunRecord("job", "v1", 1), settings.kafka, create=True)
    with RecordProducer(settings.kafka) as producer:
        for value in (b"", b"[]", b'{"job":1}', b'{"job":"\\ud800"}', b"\xff", b"[" * 5000):
            producer.send(settings.kafka.runs_topic, value, b"r2")
    # Not read again at once: unknown runs must not cost a request for each record.
    assert runs.find("r1") is None
    now[0] = 10.0
    assert runs.find("r1") == RunRecord("job", "v1", 1)
    assert runs.find("r2") is None
    assert runs.of_job("job") == {"r1"}
    header = (("lineage", b"2 0190c5f2-1111-7222-8333-444455556666 visits/0@1 b4"),)
    origin = origin_of(Record(Address("t", 0, 0), None, None, header), runs)
    assert (origin.job_name, origin.batch_version) == (None, 4)


def test_an_unknown_stamp_is_refused(settings: Settings, spark: SparkSession) -> None:
    with pytest.raises(InputError, match="unknown stamp: 'tiny'"):
        LineageJob("own_job", stamp="tiny", settings=settings)


def test_a_record_whose_run_is_not_known_is_not_called_a_source_record(
    settings: Settings, make_topic: TopicMaker
) -> None:
    source, output = make_topic("in", partitions=1), make_topic("out", partitions=1)
    value = f"2 0190c5f2-1111-7222-8333-444455556666 {source}/0@0 b4".encode()
    with RecordProducer(settings.kafka) as producer:
        producer.send(source, b"{}", partition=0)
        producer.send(output, b"{}", headers=[("lineage", value)], partition=0)
    node = trace(Address(output, 0, 0), settings)
    assert (node.job_name, node.batch_version) == (None, 4)
    assert node.reason == "the job of its run is not known"
    assert len(node.parents) == 1
