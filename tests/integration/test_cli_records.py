"""The commands topics, produce, consume, generate and kafka."""

from __future__ import annotations

import json

import pytest
from tests.support import Headwater

from headwater.settings import Settings
from headwater.testing import free_port
from headwater.testing.fixtures import TopicMaker

pytestmark = pytest.mark.kafka


def test_produced_records_are_consumed_unchanged(
    headwater: Headwater, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    lines = ['{"visit_id": "a"}', "", "not json", '{"visit_id": 5}', '{"visit_id": null}', "[1]"]
    sent = headwater("produce", topic, "--key-field", "visit_id", stdin="\n".join(lines) + "\n")
    assert sent.returncode == 0, sent.stderr
    assert sent.stdout == ""
    read = headwater("consume", topic, "--from-beginning", "--json")
    records = [json.loads(line) for line in read.stdout.splitlines()]
    assert [record["value"] for record in records] == [line for line in lines if line]
    assert [record["key"] for record in records] == ["a", None, "5", None, None]
    assert list(records[0]) == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    ]


def test_binary_values_are_escaped_as_text_and_base64_in_json(
    headwater: Headwater, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    headwater("produce", topic, stdin=b"\x1b[31mred\xff\n")
    text = headwater("consume", topic, "--from-beginning").stdout
    assert "\x1b" not in text
    assert text.startswith("\\x1b[31mred\\xff")
    record = json.loads(headwater("consume", topic, "--from-beginning", "--json").stdout)
    assert record["value"] == {"base64": "G1szMW1yZWT/"}


def test_consume_stops_after_the_limit(headwater: Headwater, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=1)
    headwater("generate", "visits", "--rows", "50", "--topic", topic)
    read = headwater("consume", topic, "--from-beginning", "--limit", "7", "--show-address")
    lines = read.stdout.splitlines()
    assert len(lines) == 7
    assert [line.split("\t")[:2] for line in lines] == [
        ["Partition:0", f"Offset:{offset}"] for offset in range(7)
    ]


def test_a_table_shows_records_by_partition_and_offset(
    headwater: Headwater, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    headwater("produce", topic, stdin="one\ntwo\n")
    shown = headwater("consume", topic, "--format", "table")
    assert shown.stdout.splitlines() == [
        "+-----+---------+------+",
        "|value|partition|offset|",
        "+-----+---------+------+",
        "|one  |0        |0     |",
        "|two  |0        |1     |",
        "+-----+---------+------+",
    ]
    former = headwater("read-topic", topic)
    assert former.stdout == shown.stdout
    assert "use `headwater consume --format table`" in former.stderr


def test_generate_creates_the_topic_and_the_same_seed_gives_the_same_records(
    broker: Settings, headwater: Headwater
) -> None:
    for topic in ("generated-a", "generated-b"):
        done = headwater("generate", "clicks", "--rows", "20", "--seed", "3", "--topic", topic)
        assert done.returncode == 0, done.stderr
    a = headwater("consume", "generated-a", "--from-beginning").stdout
    b = headwater("consume", "generated-b", "--from-beginning").stdout
    assert a == b
    assert len(a.splitlines()) == 20
    described = json.loads(headwater("topics", "describe", "generated-a", "--json").stdout)
    assert len(described["partitions"]) == 1


def test_generate_without_create_refuses_a_missing_topic(
    broker: Settings, headwater: Headwater
) -> None:
    refused = headwater("generate", "ads", "--topic", "never-created", "--no-create")
    assert refused.returncode == 2
    assert "never-created" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_rate_is_kept(headwater: Headwater, make_topic: TopicMaker) -> None:
    topic = make_topic()
    done = headwater("generate", "visits", "--rows", "60", "--rate", "30", "--topic", topic)
    assert done.returncode == 0
    seconds = float(done.stderr.split(" in ")[1].split(" s")[0])
    assert seconds >= 1.8


def test_the_console_consumer_of_kafka_reads_the_same_records(
    headwater: Headwater, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    headwater("produce", topic, stdin="one\ntwo\n")
    options = ["--topic", topic, "--from-beginning", "--max-messages", "2"]
    read = headwater("kafka", "kafka-console-consumer.sh", *options)
    assert read.stdout == "one\ntwo\n"
    listed = headwater("kafka", "topics", "--list").stdout
    assert topic in listed.splitlines()


def test_the_console_producer_of_kafka_accepts_the_old_broker_list_option(
    broker: Settings, headwater: Headwater, make_topic: TopicMaker
) -> None:
    topic = make_topic(partitions=1)
    options = ["--broker-list", broker.bootstrap_servers, "--topic", topic]
    sent = headwater("kafka", "console-producer", *options, stdin="typed\n")
    assert sent.returncode == 0, sent.stderr
    assert headwater("consume", topic, "--from-beginning").stdout == "typed\n"


def test_an_unreachable_broker_exits_with_3_and_names_the_setting(headwater: Headwater) -> None:
    done = headwater(
        "topics",
        "list",
        KAFKA_BOOTSTRAP_SERVERS=f"127.0.0.1:{free_port()}",
        HEADWATER_KAFKA__TIMEOUT_SECONDS="1",
    )
    assert done.returncode == 3
    assert "KAFKA_BOOTSTRAP_SERVERS" in done.stderr
    assert "Traceback" not in done.stderr


def test_topics_list_prints_json(broker: Settings, headwater: Headwater) -> None:
    made = headwater("topics", "create", "listed", "--partitions", "3")
    assert made.returncode == 0, made.stderr
    listed = json.loads(headwater("topics", "list", "--json").stdout)
    assert {"topic": "listed", "partitions": 3} in listed
    again = headwater("topics", "create", "listed")
    assert again.returncode == 2
    assert "already exists" in again.stderr
