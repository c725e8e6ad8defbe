"""The examples run unchanged, and their outputs name the correct parents."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from tests.support import environment

from headwater.generator import generate
from headwater.kafka import RecordProducer, create_topic, read_topic
from headwater.model import Address
from headwater.model.header import origin_of
from headwater.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FOLDER = Path(__file__).parents[2] / "examples"
ROWS = 300


@pytest.fixture(scope="module")
def filled(broker: Settings) -> Settings:
    for kind in ("visits", "ads"):
        create_topic(kind, 2, broker.kafka)
        with RecordProducer(broker.kafka) as producer:
            for key, value in generate(kind, ROWS, seed=7):
                producer.send(kind, value, key)
    return broker


@pytest.mark.parametrize(
    ("example", "output", "sources", "parents"),
    [
        ("clean_visits", "visits-clean", {"visits"}, {1}),
        ("page_words", "page-words", {"visits"}, {1}),
        ("visits_by_page", "visits-by-page", {"visits"}, set(range(1, ROWS))),
        ("visits_with_ads", "visits-with-ads", {"visits", "ads"}, {2}),
        ("visit_scores", "visit-scores", {"visits"}, {1}),
        ("orders_avro", "orders-clean", {"orders"}, {1}),
    ],
)
def test_an_example_runs_and_its_records_name_their_parents(
    filled: Settings,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    example: str,
    output: str,
    sources: set[str],
    parents: set[int],
) -> None:
    for name, value in environment(filled).items():
        monkeypatch.setenv(name, value)
    if sources == {"orders"}:
        write_orders(spark, filled)
    runpy.run_path(str(FOLDER / f"{example}.py"), run_name="__main__")
    lineages = [origin_of(record).lineage for record in read_topic(output, filled.kafka)]
    assert lineages
    assert {lineage.parent_count for lineage in lineages if lineage} <= parents
    assert {
        parent.topic for lineage in lineages if lineage for parent in lineage.parents
    } == sources


def write_orders(spark: SparkSession, settings: Settings) -> None:
    """Ten orders as a producer with a schema registry writes them; every second is free."""
    create_topic("orders", 2, settings.kafka)
    schema = runpy.run_path(str(FOLDER / "orders_avro.py"))["SCHEMA"]
    order = F.struct(
        F.col("id").cast("string").alias("order_id"),
        (F.col("id") % 2).cast("double").alias("amount"),
    )
    value = F.concat(F.lit(b"\0\0\0\0\7"), to_avro(order, schema))
    (
        spark.range(10)
        .select(F.col("id").cast("string").alias("key"), value.alias("value"))
        .write.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap_servers)
        .option("topic", "orders")
        .save()
    )


def test_the_example_that_merges_has_one_row_for_each_user_with_its_latest_visit(
    filled: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment(filled).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / "latest_visits.py"), run_name="__main__")
    latest: dict[str, tuple[str, Address]] = {}
    for record in read_topic("visits", filled.kafka):
        visit = json.loads(record.value or b"{}")
        user, time = visit["user_id"], visit["event_time"]
        latest[user] = max(latest.get(user, (time, record.address)), (time, record.address))
    rows = spark.read.format("delta").load(str(tmp_path / "tables" / "latest-visits"))
    found = rows.select("user_id", "lineage.topic", "lineage.partition", "lineage.offset").collect()
    assert {row[0]: Address(*row[1:]) for row in found} == {
        user: address for user, (_, address) in latest.items()
    }
    assert len(found) == len(latest)


def test_the_example_of_a_join_writes_orders_with_and_without_payments(
    broker: Settings,
    spark: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    orders = [("o-1", "09:00", "paid"), ("o-2", "09:00", "unpaid"), ("last", "23:00", "waits")]
    with RecordProducer(broker.kafka) as producer:
        for topic, time in (("web-orders", "ordered_at"), ("web-payments", "paid_at")):
            create_topic(topic, 1, broker.kafka)
            for order, at, kind in orders:
                if topic == "web-orders" or kind != "unpaid":
                    order = f"{topic}-last" if kind == "waits" else order
                    content = {"order_id": order, time: f"2024-01-01T{at}:00Z"}
                    producer.send(topic, json.dumps(content).encode())
    for name, value in environment(broker).items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(FOLDER / "paid_orders.py"), run_name="__main__")
    assert "web-orders left outer join web-payments -> paid-orders" in capsys.readouterr().out
    parents = {}
    for record in read_topic("paid-orders", broker.kafka):
        lineage = origin_of(record).lineage
        assert lineage is not None
        parents[record.key] = [parent.topic for parent in lineage.parents]
    assert parents == {b"o-1": ["web-orders", "web-payments"], b"o-2": ["web-orders"]}


def test_the_example_with_a_table_stores_the_address_of_every_visit(
    filled: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(filled).items():
        monkeypatch.setenv(name, value)
    runpy.run_path(str(FOLDER / "visits_table.py"), run_name="__main__")
    rows = spark.sql("SELECT lineage.topic, lineage.partition, lineage.offset FROM demo.web.visits")
    addresses = {record.address for record in read_topic("visits", filled.kafka)}
    assert {Address(*row) for row in rows.collect()} == addresses
    assert rows.count() == ROWS


def test_every_example_is_in_the_list() -> None:
    listed = set(re.findall(r"\(([a-z_]+\.py)\)", (FOLDER / "README.md").read_text()))
    assert listed == {path.name for path in FOLDER.glob("*.py")}
