"""Reads a topic from one position to another by offset, without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from enum import Enum
from typing import cast

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from headwater.errors import BrokerUnavailableError
from headwater.kafka.client import client_config, end_offsets, from_kafka_error, kafka_errors
from headwater.kafka.error_kinds import UNREACHABLE, UNUSED_GROUP
from headwater.kafka.errors import Access
from headwater.kafka.topics import partition_states
from headwater.model import Address, Header, Record
from headwater.model.progress import Progress, no_progress
from headwater.settings import broker_addresses
from headwater.settings.kafka import KafkaSettings

# How long the client waits for a full batch; reading a short topic takes two of these.
_POLL_SECONDS = 0.05
_BATCH = 1000

_PROGRESS_EVERY = 10_000


class Position(Enum):
    """Where to start in every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


def read_topic(
    topic: str,
    settings: KafkaSettings,
    *,
    start: Position | Mapping[int, int] = Position.EARLIEST,
    until: Mapping[int, int] | None = None,
    follow: bool = False,
    read_uncommitted: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    progress: Progress = no_progress,
) -> Generator[Record, None, None]:
    """Yield the records of a topic, each partition in order.

    Args:
        start: a position for all partitions, or the first offset of each; partitions that are
            not in the mapping are not read.
        until: the end offset (exclusive) of each partition; default: the current end.
        follow: continue with new records until `stopped` returns True.
        read_uncommitted: also yield records of aborted and open transactions, and those after
            the start of an open transaction.
        progress: called at the start and every 10,000 records.

    Raises:
        TopicNotFoundError: there is no such topic.
        BrokerUnavailableError: no record arrived for `kafka.timeout_seconds` before the end.
    """
    states = {state.partition: state for state in partition_states(topic, settings)}
    ends = dict(until) if until is not None else {p: s.end for p, s in states.items()}
    if isinstance(start, Mapping):
        begins = {p: max(offset, states[p].first) for p, offset in start.items()}
    elif start is Position.EARLIEST:
        begins = {p: state.first for p, state in states.items()}
    else:
        begins = {p: state.end for p, state in states.items()}
    # Without read_uncommitted a partition ends at its first open transaction.
    visible = {} if read_uncommitted else end_offsets(topic, settings, read_committed=True)
    visible = {p: min(end, visible.get(p, end)) for p, end in ends.items()}
    reader = _Reader(topic, begins, ends, visible, settings, read_uncommitted)
    try:
        if follow:
            yield from reader.follow(stopped)
        else:
            total = sum(max(ends.get(p, 0) - begin, 0) for p, begin in begins.items())
            yield from _with_progress(reader.until_end(stopped), progress, topic, total)
    finally:
        reader.close()


def _with_progress(
    records: Iterator[Record], progress: Progress, topic: str, total: int
) -> Iterator[Record]:
    progress(f"reading {topic}", 0, total)
    for done, record in enumerate(records, 1):
        yield record
        if done % _PROGRESS_EVERY == 0:
            progress(f"reading {topic}", done, total)


class _Reader:
    def __init__(
        self,
        topic: str,
        begins: Mapping[int, int],
        ends: Mapping[int, int],
        visible: Mapping[int, int],
        settings: KafkaSettings,
        read_uncommitted: bool,
    ) -> None:
        self._topic = topic
        self._settings = settings
        self._open = {p: ends[p] for p, begin in begins.items() if begin < ends.get(p, 0)}
        self._visible = visible
        self._begins = begins
        config = client_config(
            settings,
            **{
                # A group id is required, but no offsets are committed.
                "group.id": "headwater-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_uncommitted" if read_uncommitted else "read_committed",
            },
        )
        with kafka_errors(settings, "creating a consumer"):
            self._consumer = Consumer(config)

    def until_end(self, stopped: Callable[[], bool]) -> Iterator[Record]:
        self._assign(self._open)
        for message in self._messages(lambda: not self._open or stopped(), fail_if_idle=True):
            end = self._open.get(message.partition() or 0)
            offset = message.offset() or 0
            if end is not None and offset < end:
                yield record_of(message)
            if end is not None and offset >= end - 1:
                self._finish(message.partition() or 0)

    def follow(self, stopped: Callable[[], bool]) -> Iterator[Record]:
        self._assign(self._begins)
        for message in self._messages(stopped, fail_if_idle=False):
            yield record_of(message)

    def close(self) -> None:
        self._consumer.close()

    def _assign(self, partitions: Mapping[int, int]) -> None:
        self._consumer.assign(
            [TopicPartition(self._topic, part, self._begins[part]) for part in partitions]
        )

    def _finish(self, partition: int) -> None:
        if self._open.pop(partition, None) is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])

    def _messages(self, done: Callable[[], bool], *, fail_if_idle: bool) -> Iterator[Message]:
        received_at = time.monotonic()
        while not done():
            messages = self._consumer.consume(_BATCH, _POLL_SECONDS)
            if messages:
                received_at = time.monotonic()
            elif fail_if_idle and time.monotonic() - received_at > self._settings.timeout_seconds:
                raise self._timed_out()
            for message in messages:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    # The last offset may be a transaction marker, which is not a record. Below the
                    # end, a new leader does not yet know all records: they follow.
                    partition = message.partition() or 0
                    if fail_if_idle and (message.offset() or 0) >= self._visible[partition]:
                        self._finish(partition)
                elif error.code() not in UNREACHABLE | UNUSED_GROUP:
                    access = Access("Read", "topic", self._topic)
                    what = f"reading {self._topic!r}"
                    raise from_kafka_error(error, self._settings, what, access)
                # The client reconnects; the timeout above limits how long that takes.

    def _timed_out(self) -> BrokerUnavailableError:
        seconds = self._settings.timeout_seconds
        return BrokerUnavailableError(
            f"Kafka at {broker_addresses(self._settings)} sent no records of topic "
            f"{self._topic!r} for {seconds:g} s, before the end was reached",
            hint="check the broker, or raise HEADWATER_KAFKA__TIMEOUT_SECONDS",
            topic=self._topic,
        )


def record_of(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    return Record(
        Address(message.topic() or "", message.partition() or 0, message.offset() or 0),
        message.key(),
        message.value(),
        tuple(cast("list[Header]", message.headers() or [])),
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
    )
