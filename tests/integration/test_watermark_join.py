"""Any join of two topics, on a real broker and a real Spark."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.joins import dropped, watermark
from tests.orders_payments import (
    LOWER,
    UPPER,
    Event,
    Row,
    Topics,
    expected_alone,
    expected_pairs,
    fill,
    nearest_pairs,
    orders_side,
    payments_side,
    running,
    send,
)
from tests.support import Headwater
from tests.waiting import wait_until

from headwater import LineageJob, WatermarkJoin
from headwater.errors import CheckpointError, InputError, StateLimitError
from headwater.join.times import TIMES_FILE, HeartbeatTopic
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.model import Address, from_epoch_ms
from headwater.model.dead_letter import read_letter
from headwater.model.header import origin_of
from headwater.settings import Settings
from headwater.spark.query_runner import checkpoint_uri
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import Fate

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

COUNT = 60
NOW = {"availableNow": True}


@pytest.fixture
def topics(broker: Settings, spark: object, make_topic: TopicMaker, tmp_path: Path) -> Topics:
    return Topics(broker, make_topic, tmp_path / "checkpoint")


Filled = tuple[str, str, list[Event], list[Event]]


@pytest.fixture(scope="module")
def filled(broker: Settings) -> Filled:
    orders, payments = "every-join.orders", "every-join.payments"
    for topic in (orders, payments):
        create_topic(topic, 1, broker.kafka)
    return orders, payments, *fill(orders, payments, broker, COUNT)


def rows_of(output: str, orders: str, settings: Settings) -> list[Row]:
    """The offsets of the parents of each record."""
    rows = []
    for record in read_topic(output, settings.kafka):
        lineage = origin_of(record).lineage
        assert lineage is not None
        parents = {parent.topic == orders: parent.offset for parent in lineage.parents}
        rows.append((parents.get(True), parents.get(False)))
    return rows


def order_of(row: Row) -> tuple[int, int]:
    return tuple(-1 if each is None else each for each in row)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("how", "matches"),
    [
        pytest.param(*case, marks=[pytest.mark.lines] if case == ("full_outer", "nearest") else [])
        for case in product(
            ("inner", "left_outer", "right_outer", "full_outer"), ("all", "first", "nearest")
        )
    ],
)
def test_the_rows_are_those_that_plain_python_finds(
    broker: Settings, spark: object, filled: Filled, tmp_path: Path, how: Any, matches: Any
) -> None:
    orders, payments, left, right = filled
    output = f"joined-{how}-{matches}"
    job = LineageJob(output, settings=broker, checkpoint=tmp_path / "checkpoint")
    join = WatermarkJoin(
        job,
        orders_side(orders),
        payments_side(payments),
        output,
        within=(LOWER, UPPER),
        how=how,
        matches=matches,
        max_records_per_batch=COUNT // 4,
    )
    join.write(trigger=NOW)

    pairs = expected_pairs(left, right)
    primary = 1 if how == "right_outer" else 0
    assert len(pairs) > len({pair[primary] for pair in pairs}), "some records have several matches"
    alone = expected_alone(how, left, right, pairs)
    found = rows_of(output, orders, broker)
    assert len(found) == len(set(found)), "a row was written twice"
    matched = {row for row in found if None not in row}
    assert sorted(set(found) - matched, key=order_of) == sorted(alone, key=order_of)
    if matches == "first":
        assert matched <= pairs
        assert sorted(row[primary] for row in matched) == sorted({p[primary] for p in pairs})  # type: ignore[type-var]
    else:
        expected = pairs if matches == "all" else nearest_pairs(pairs, left, right, primary)
        assert sorted(matched, key=order_of) == sorted(expected)
    for suffix in ("-late", "-dead-letter"):
        assert list(read_topic(output + suffix, broker.kafka)) == []
    metrics = generate_latest(join.metrics.registry).decode()
    assert f'headwater_join_dropped_rows_total{{output="{output}"}} 0.0' in metrics


def test_the_default_record_has_the_key_and_all_fields_of_both_sides(topics: Topics) -> None:
    topics.send_orders(("a", 1, 0), ("b", 2, 0))
    topics.send_payments(("a", 1, 1), ("c", 3, 0))
    topics.join(how="full_outer").write(trigger=NOW)
    topics.send_orders(("last", 0, 900))
    topics.send_payments(("last", 1, 900))
    topics.join(how="full_outer").write(trigger=NOW)
    records = {record.key: json.loads(record.value or b"") for record in topics.records()}
    nine = "2024-01-01T09:00:00.000Z"
    assert records == {
        b'{"tenant":"a","order":1}': {
            "tenant": "a",
            "order": 1,
            "left_at": nine,
            "amount": 1.5,
            "number": 1,
            "right_at": "2024-01-01T09:01:00.000Z",
            "method": "card",
        },
        b'{"tenant":"b","order":2}': {
            "tenant": "b",
            "order": 2,
            "left_at": nine,
            "amount": 1.5,
            "number": None,
            "right_at": None,
            "method": None,
        },
        b'{"tenant":"c","order":3}': {
            "tenant": "c",
            "order": None,
            "left_at": None,
            "amount": None,
            "number": 3,
            "right_at": nine,
            "method": "card",
        },
    }


def test_own_keys_and_values_and_rejected_records_go_through_one_join(
    topics: Topics, spark: SparkSession
) -> None:
    join = topics.join(
        key=lambda order, _: F.concat_ws("/", order["tenant"], order["order"].cast("string")),
        value=lambda order, payment: F.concat_ws(" by ", order["amount"], payment["method"]),
    )
    assert join.rows.columns == [
        *("key", "value", "raw_value", "error", "lineage"),
        *("left", "right"),
    ]
    with running(join, spark) as query:
        send(topics.payments, [b"{....", '{"tenant": "a", "number": 1}'], topics.settings)
        topics.send_orders(("a", 1, 0))
        topics.send_payments(("a", 1, 1), ("a", 1, 3))
        query.processAllAvailable()
        topics.send_orders(("b", 1, 60))
        topics.send_payments(("b", 2, 60))
        query.processAllAvailable()
        topics.send_orders(("c", 1, 10))
        query.processAllAvailable()
        assert watermark(query) == "09:50:00"
        assert dropped(query) == 0
    assert [(each.key, each.value) for each in topics.records()] == [(b"a/1", b"1.5 by card")]
    assert {read_letter(each).origin for each in topics.records("-dead-letter")} == {
        Address(topics.payments, 0, 0),
        Address(topics.payments, 0, 1),
    }
    (late,) = map(read_letter, topics.records("-late"))
    assert late.origin == Address(topics.orders, 0, 2)
    assert "late by 2400.000 s: at 2024-01-01T09:10:00.000Z" in (late.message or "")
    # An inner join writes neither records without a match.
    unmatched = topics.why_missing(topics.payments, 3)
    assert unmatched.fate is Fate.UNMATCHED
    assert (
        f"matched no record on tenant 'a', number 1 in {topics.orders}"
        in unmatched.verdict.sentence
    )
    waiting = topics.why_missing(topics.orders, 1)
    assert waiting.fate is Fate.WAITING
    assert (
        f"for a match on tenant 'b', order 1 in {topics.payments}, until the watermark is past "
        "2024-01-01T10:02:00.000Z" in waiting.verdict.sentence
    )
    assert topics.why_missing(topics.orders, 2).fate is Fate.LATE


def test_an_idle_topic_does_not_hold_back_unmatched_records_of_the_right_side(
    topics: Topics, spark: SparkSession
) -> None:
    join = topics.join(how="right_outer", idle_timeout="1 second")
    with running(join, spark):
        topics.send_orders(("a", 1, 0))
        topics.send_payments(("b", 1, 0), ("b", 2, 60))
        wait_until(topics.records, 90, "the first payment")
    (alone,) = topics.records()
    assert alone.key == b'{"tenant":"b","order":1}'
    beats = {((beat.key or b"").split()[0], beat.value) for beat in topics.records("-heartbeat")}
    assert (topics.orders.encode(), b"2024-01-01T10:00:00.000Z") in beats
    present = topics.why_missing(topics.payments, 0)
    assert present.verdict.sentence.endswith(
        f"unmatched: {topics.orders} had no match within -2 minutes to 0 seconds after its at"
    )
    with pytest.raises(InputError, match="idle_timeout can't be used with the trigger"):
        join.write(trigger=NOW)


def test_records_and_heartbeats_of_another_century_do_not_end_the_join(
    topics: Topics, spark: SparkSession
) -> None:
    def far(year: int) -> str:
        fields = {"tenant": "z", "order": 1, "number": 1, "amount": 1.5, "method": "card"}
        return json.dumps(fields | {"at": f"{year}-01-01T00:00:00Z"})

    settings, join = topics.settings, topics.join()
    with running(join, spark) as query:
        topics.send_orders(("a", 1, 0), ("b", 1, 20))
        topics.send_payments(("a", 1, 1), ("b", 1, 21))
        query.processAllAvailable()
        send(topics.orders, [far(2262), far(1970)], settings)
        send(topics.payments, [far(2262), far(1970)], settings)
        beats = HeartbeatTopic.of(topics.output, checkpoint_uri(topics.checkpoint))
        with RecordProducer(settings.kafka) as producer:
            for topic in (topics.orders, topics.payments):
                producer.send(beats.name, b"2262-01-01T00:00:00.000Z", beats.key(topic))
        query.processAllAvailable()
        topics.send_orders(("c", 1, 22))
        topics.send_payments(("c", 1, 23))
        query.processAllAvailable()
        assert watermark(query) == "09:12:00"
    # A restart reads the stored times, and records after them.
    (topics.checkpoint / TIMES_FILE).unlink()
    topics.send_orders(("d", 1, 24))
    topics.send_payments(("d", 1, 25))
    topics.join().write(trigger=NOW)
    stored = json.loads((topics.checkpoint / TIMES_FILE).read_text())
    times = [from_epoch_ms(stored[topic]).isoformat() for topic in (topics.orders, topics.payments)]
    assert times == ["2024-01-01T09:24:00+00:00", "2024-01-01T09:25:00+00:00"]
    keys = [json.loads(record.key or b"")["tenant"] for record in topics.records()]
    assert keys == ["a", "b", "c", "d"]
    future = [read_letter(each) for each in topics.records("-dead-letter")]
    assert {each.origin for each in future} == {
        *(Address(topics.orders, 0, 2), Address(topics.payments, 0, 2))
    }
    assert {each.reason for each in future} == {"headwater.FutureRecord"}
    assert "at 2262-01-01T00:00:00.000Z is more than 1 day after" in (future[0].message or "")
    assert len(topics.records("-late")) == 2
    assert topics.why_missing(topics.orders, 2).fate is Fate.DEAD_LETTERED


def test_a_full_state_stops_the_join_and_its_checkpoint_keeps_the_rule(topics: Topics) -> None:
    topics.send_orders(("a", 1, 0), ("a", 2, 0))
    with pytest.raises(StateLimitError, match="has 2 rows after batch") as stopped:
        topics.join(max_state_rows=2).write(trigger=NOW)
    assert "max_state_rows" in (stopped.value.hint or "")
    with pytest.raises(CheckpointError, match="how: inner, not full_outer"):
        topics.join(how="full_outer").write(trigger=NOW)
    topics.send_payments(("a", 2, 1))
    topics.join(max_state_rows=5).write(trigger=NOW)
    assert [each.key for each in topics.records()] == [b'{"tenant":"a","order":2}']


def test_a_side_in_another_format_has_its_own_parser(topics: Topics) -> None:
    def parse(rows: DataFrame) -> DataFrame:
        columns = "tenant string, number bigint, at timestamp, method string"
        # Fails for a record that is not CSV, such as a heartbeat.
        options = {"mode": "FAILFAST", "timeZone": "UTC"}
        return rows.withColumn("data", F.from_csv(F.col("value").cast("string"), columns, options))

    def join() -> WatermarkJoin:
        return topics.join(right=payments_side(topics.payments, parse=parse), how="left_outer")

    topics.send_orders(("a", 1, 0), ("a", 2, 0))
    payments = ["a,1,2024-01-01T09:01:00Z,cash", ",3,2024-01-01T09:01:00Z,cash"]
    send(topics.payments, payments, topics.settings)
    join().write(trigger=NOW)
    (paid,) = topics.records()
    assert json.loads(paid.value or b"")["method"] == "cash"
    (letter,) = map(read_letter, topics.records("-dead-letter"))
    assert "field 'tenant' is missing or null" in (letter.message or "")
    topics.send_orders(("a", 3, 0))
    send(topics.payments, ["x,4,2024-01-01T09:01:00Z,cash"], topics.settings)
    join().write(trigger=NOW)
    uncertain = topics.why_missing(topics.payments, 2)
    assert uncertain.fate is Fate.UNCERTAIN
    assert "only the job can read its time" in uncertain.verdict.sentence
    with pytest.raises(InputError, match="returns no field 'tenant' in the struct `data`"):
        _ = topics.join(right=payments_side(topics.payments, parse=lambda rows: rows)).rows


def test_the_job_joins_by_options(topics: Topics, headwater: Headwater) -> None:
    topics.send_orders(("a", 1, 0), ("a", 2, 0), ("a", 3, 60))
    topics.send_payments(("a", 1, 1), ("b", 9, 0), ("b", 3, 60))
    options = ["--left", topics.orders, "--left-key", "tenant,order:bigint", "--left-time", "at"]
    options += ["--left-values", "amount:double", "--left-watermark", "1 minute"]
    options += ["--right", topics.payments, "--right-key", "tenant,number:bigint"]
    options += ["--right-time", "at", "--right-values", "method", "--right-watermark", "1 minute"]
    options += ["--within", "-1 minute", "10 minutes", "--how", "full_outer"]
    options += ["--output-topic", topics.output, "--checkpoint", str(topics.checkpoint)]
    done = headwater("run", "watermark_join_job", *options, "--available-now")
    assert done.returncode == 0, done.stderr
    rows = {(each.key or b"").decode(): json.loads(each.value or b"") for each in topics.records()}
    paid = {key: (row["amount"], row["method"]) for key, row in rows.items()}
    assert paid == {
        '{"tenant":"a","order":1}': (1.5, "card"),
        '{"tenant":"a","order":2}': (1.5, None),
        '{"tenant":"b","order":9}': (None, "card"),
    }
    record = str(Address(topics.orders, 0, 2))
    where = ("--in", topics.output, "--checkpoint", str(topics.checkpoint))
    missing = headwater("why-missing", record, *where)
    assert missing.returncode == 1
    assert f"waits in the state for a match on tenant 'a', order 3 in {topics.payments}" in (
        missing.stdout
    )
