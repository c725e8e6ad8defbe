"""Row lineage of plain jobs: options of their sink, and settings that end up in what is written."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.unchanged import Ledger, numbers, true_parents

from headwater.kafka import RecordProducer, create_topic, is_compacted, read_topic
from headwater.model import Record
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "unchanged-options"
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def ledger(
    broker: Settings, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Ledger:
    ledger = Ledger(spark, broker, tmp_path_factory.mktemp("unchanged"))
    create_topic(TOPIC, 2, broker.kafka)
    ledger.fill(TOPIC, 20)
    return ledger


def copied(ledger: Ledger, topic: str = TOPIC) -> DataFrame:
    return ledger.read(topic).select("key", numbers("n"))


def are_exact(ledger: Ledger, records: list[Record]) -> bool:
    found = [(ledger.parents(each), true_parents(each)) for each in records]
    return all(parents and parents.numbers == true for parents, true in found)


def stored_batches(topic: str, ledger: Ledger) -> set[tuple[str, bool]]:
    """How the batches in the files of the broker are compressed, and if they are idempotent."""
    jvm = ledger.spark._jvm
    assert jvm is not None
    found = set()
    for path in ledger.settings.home_dir.rglob(f"{topic}-*/*.log"):
        log = jvm.org.apache.kafka.common.record.FileRecords.open(jvm.java.io.File(str(path)))
        batches = log.batches().iterator()
        while batches.hasNext():
            batch = batches.next()
            found.add((str(batch.compressionType()), batch.hasProducerId()))
        log.close()
    return found


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({}, {("lz4", True)}),
        ({"kafka.compression.type": "gzip", "kafka.linger.ms": "0"}, {("gzip", True)}),
        ({"kafka.acks": "1"}, {("lz4", False)}),
        ({"kafka.enable.idempotence": "false"}, {("lz4", False)}),
    ],
    ids=["none", "compression", "acks", "idempotence"],
)
def test_the_producer_is_idempotent_and_options_of_the_job_win(
    ledger: Ledger,
    make_topic: TopicMaker,
    options: dict[str, str],
    batches: set[tuple[str, bool]],
) -> None:
    output = make_topic("out")
    records = ledger.run(copied(ledger), output, options=options)
    assert len(records) == 20
    assert are_exact(ledger, records)
    assert stored_batches(output, ledger) == batches


def test_headers_of_the_parent_are_inherited_by_a_job_that_does_not_read_them(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    source = make_topic("in")
    headers = [("traceparent", TRACE), ("tenant", b"a"), ("other", b"x")]
    with RecordProducer(ledger.settings.kafka) as producer:
        value = json.dumps({"n": 7, "k": 7, "t": 0}).encode()
        producer.send(source, value, b"key", headers=headers, partition=0)
    ledger.numbers[f"{source}/0@0"] = 7
    expected: dict[str, list[str]] = {
        "false": [],
        "true": ["traceparent"],
        "ten*, more": ["traceparent", "tenant"],
    }
    for number, (setting, names) in enumerate(expected.items()):
        output = make_topic(f"out-{number}")
        (record,) = ledger.run(copied(ledger, source), output, inheritHeaders=setting)
        inherited = [each for each in record.headers if each[0] != "lineage"]
        assert inherited == [each for each in headers if each[0] in names], setting
        assert are_exact(ledger, [record])


def test_the_version_of_the_job_and_its_run_are_in_the_topic_of_the_settings(
    ledger: Ledger, make_topic: TopicMaker
) -> None:
    output = make_topic("out")
    runs = f"{output}-of-runs"
    records = ledger.run(copied(ledger), output, jobVersion="v7.1", runsTopic=runs)
    (run_id,) = {(each.header("lineage") or b"").split()[1] for each in records}
    (run,) = read_topic(runs, ledger.settings.kafka)
    assert run.key == run_id
    fields = json.loads(run.value or b"")
    assert (fields["job"], fields["version"]) == (f"unchanged_{ledger._queries}", "v7.1")
    assert is_compacted(runs, ledger.settings.kafka)


def test_the_version_of_the_job_is_in_a_full_stamp(ledger: Ledger, make_topic: TopicMaker) -> None:
    records = ledger.run(copied(ledger), make_topic("out"), jobVersion="v7.2", stamp="full")
    assert {each.header("job_version") for each in records} == {b"v7.2"}
