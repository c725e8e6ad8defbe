"""Orders and payments: two topics that tests join, and the rows that are expected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.waiting import wait_until

from headwater import JoinSide, LineageJob, WatermarkJoin, why_missing
from headwater.kafka import RecordProducer, read_topic
from headwater.model import Address, Record
from headwater.settings import Settings
from headwater.testing.fixtures import TopicMaker
from headwater.tracing import WhyMissing

START = datetime(2024, 1, 1, 9, tzinfo=UTC)
LOWER, UPPER = timedelta(minutes=-5), timedelta(minutes=10)
SPREAD = timedelta(minutes=50)
# Records are in the order of their times, so none is late.
DELAY = timedelta(seconds=1)


@dataclass(frozen=True)
class Event:
    """A record of one of the topics; its offset is its position."""

    offset: int
    tenant: str
    number: int
    at: datetime

    @property
    def key(self) -> tuple[str, int]:
        return self.tenant, self.number


# Offsets of an order and a payment; None for the missing one.
Row = tuple[int | None, int | None]


def events(count: int, seed: int) -> list[Event]:
    """Records with few keys; the last one is a day later."""
    random = Random(seed)  # noqa: S311 - data, not secrets
    times = sorted(random.randrange(int(SPREAD.total_seconds())) for _ in range(count))
    some = [
        Event(offset, random.choice("ab"), random.randrange(6), START + timedelta(seconds=time))
        for offset, time in enumerate(times)
    ]
    return [*some, Event(count, f"last-{seed}", 0, START + timedelta(days=1))]


def orders_side(topic: str, watermark: timedelta | str = DELAY) -> JoinSide:
    return JoinSide(
        topic,
        fields={"tenant": "string", "order": "bigint", "at": "timestamp", "amount": "double"},
        key=("tenant", "order"),
        time="at",
        watermark=watermark,
    )


def payments_side(topic: str, watermark: timedelta | str = DELAY, **more: Any) -> JoinSide:
    return JoinSide(
        topic,
        fields={"tenant": "string", "number": "bigint", "at": "timestamp", "method": "string"},
        key=("tenant", "number"),
        time="at",
        watermark=watermark,
        **more,
    )


def order(tenant: str, number: int, at: datetime) -> str:
    return json.dumps({"tenant": tenant, "order": number, "at": at.isoformat(), "amount": 1.5})


def payment(tenant: str, number: int, at: datetime) -> str:
    return json.dumps({"tenant": tenant, "number": number, "at": at.isoformat(), "method": "card"})


def send(topic: str, values: Sequence[str | bytes], settings: Settings) -> None:
    with RecordProducer(settings.kafka) as producer:
        for value in values:
            data = value.encode() if isinstance(value, str) else value
            producer.send(topic, data, b"raw key", partition=0)


def fill(
    orders: str, payments: str, settings: Settings, count: int
) -> tuple[list[Event], list[Event]]:
    """Write both topics; the last records advance the watermark past all others."""
    left, right = events(count, 1), events(count, 2)
    send(orders, [order(*each.key, each.at) for each in left], settings)
    send(payments, [payment(*each.key, each.at) for each in right], settings)
    return left, right


def expected_pairs(orders: Sequence[Event], payments: Sequence[Event]) -> set[tuple[int, int]]:
    return {
        (left.offset, right.offset)
        for left in orders
        for right in payments
        if left.key == right.key and LOWER <= right.at - left.at <= UPPER
    }


def expected_alone(
    how: str, orders: Sequence[Event], payments: Sequence[Event], pairs: set[tuple[int, int]]
) -> set[Row]:
    """The rows of records without a match; the last one of each topic still waits."""
    alone: set[Row] = set()
    if how in ("left_outer", "full_outer"):
        matched = {left for left, _ in pairs}
        alone |= {(each.offset, None) for each in orders[:-1] if each.offset not in matched}
    if how in ("right_outer", "full_outer"):
        matched = {right for _, right in pairs}
        alone |= {(None, each.offset) for each in payments[:-1] if each.offset not in matched}
    return alone


def nearest_pairs(
    pairs: set[tuple[int, int]],
    orders: Sequence[Event],
    payments: Sequence[Event],
    primary: int,
) -> set[tuple[int, int]]:
    """The nearest pair of each record of the primary side (0: orders, 1: payments)."""
    chosen: dict[int, tuple[Any, tuple[int, int]]] = {}
    for pair in pairs:
        distance = abs(payments[pair[1]].at - orders[pair[0]].at)
        order_ = (distance, pair[1 - primary])
        chosen[pair[primary]] = min(chosen.get(pair[primary], (order_, pair)), (order_, pair))
    return {pair for _, pair in chosen.values()}


class Topics:
    """Two inputs and an output of one test, and joins between them."""

    def __init__(self, settings: Settings, make_topic: TopicMaker, checkpoint: Path) -> None:
        self.settings = settings
        self.orders = make_topic("orders", partitions=1)
        self.payments = make_topic("payments", partitions=1)
        self.output = self.orders.removesuffix("orders") + "paid"
        self.checkpoint = checkpoint

    def join(self, **arguments: Any) -> WatermarkJoin:
        job = LineageJob(self.output, settings=self.settings, checkpoint=self.checkpoint)
        defaults: dict[str, Any] = {
            "left": orders_side(self.orders, "10 minutes"),
            "right": payments_side(self.payments, "10 minutes"),
            "within": ("0 seconds", "2 minutes"),
        }
        return WatermarkJoin(job, output=self.output, **{**defaults, **arguments})

    def send_orders(self, *orders: tuple[str, int, int]) -> None:
        """Orders as (tenant, number, minutes after 9:00)."""
        send(self.orders, [order(*each[:2], at(each[2])) for each in orders], self.settings)

    def send_payments(self, *payments: tuple[str, int, int]) -> None:
        send(self.payments, [payment(*each[:2], at(each[2])) for each in payments], self.settings)

    def records(self, suffix: str = "") -> list[Record]:
        return list(read_topic(self.output + suffix, self.settings.kafka))

    def why_missing(self, topic: str, offset: int) -> WhyMissing:
        address = Address(topic, 0, offset)
        return why_missing(address, self.output, self.settings, checkpoint=self.checkpoint)


def at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


@contextmanager
def running(join: WatermarkJoin, spark: SparkSession) -> Iterator[StreamingQuery]:
    """Run the join while the body runs; yields Spark's query."""
    handle = join.start()
    try:
        name = join.output
        yield wait_until(
            lambda: next((each for each in spark.streams.active if each.name == name), None),
            60,
            "the query to start",
        )
    finally:
        handle.stop()
    assert handle.exception() is None
