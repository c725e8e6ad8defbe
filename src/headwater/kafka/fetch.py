"""Reads single records by address with one long-lived consumer: about a millisecond each."""

from __future__ import annotations

import time
from enum import Enum
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headwater.errors import BrokerUnavailableError
from headwater.kafka.client import (
    LOGIN_SECONDS,
    client_config,
    from_kafka_error,
    kafka_errors,
    login_refused,
)
from headwater.kafka.consumer import record_of
from headwater.kafka.error_kinds import UNREACHABLE, UNUSED_GROUP
from headwater.kafka.errors import Access
from headwater.model import Address, Record
from headwater.settings import broker_addresses
from headwater.settings.kafka import KafkaSettings

_FAST = {
    # The broker always sends at least one complete batch; more would be decoded for nothing.
    "fetch.message.max.bytes": 4096,
    "queued.min.messages": 1,
    # There is one request in flight per broker. With the defaults of 500 ms and 1 s, the next fetch
    # would wait for the prefetch of the previous partition.
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 1,
    "fetch.error.backoff.ms": 20,
}


class Absence(Enum):
    """Why there is no record at an address."""

    EXPIRED = "removed: the partition starts after it now"
    # Kafka does not distinguish these; consumers see none of them.
    HOLE = "nothing at this offset: compacted away, or of an aborted transaction"
    BEYOND_END = "beyond the end of the partition"
    NO_PARTITION = "no such topic or partition"
    NOT_ALLOWED = "this client is not allowed to read the topic"

    @property
    def may_have_existed(self) -> bool:
        """Whether a record may have existed; after the end of a partition none can have."""
        return self not in {Absence.BEYOND_END, Absence.NO_PARTITION}


class RecordReader:
    """Reads single records; a context manager, not thread-safe.

    Records of open and aborted transactions are not returned. No consumer group is created.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        config = client_config(
            settings,
            **{
                # A group id is required, but no offsets are committed.
                "group.id": "headwater-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                **_FAST,
            },
        )
        with kafka_errors(settings, "creating a consumer"):
            self._consumer = Consumer(config)
        # First and end offset, as last requested. The request also lets the client find the leader,
        # for which a fetch would have to wait.
        self._windows: dict[tuple[str, int], tuple[int, int]] = {}

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, or why there is none.

        Raises:
            BrokerUnavailableError: no response within `kafka.timeout_seconds`.
        """
        deadline = time.monotonic() + self._settings.timeout_seconds
        window = self._windows.get((address.topic, address.partition))
        while True:
            # The cached offsets may be outdated: request them again for an offset outside.
            if window is None or not window[0] <= address.offset < window[1]:
                offsets = self._request_offsets(address, deadline)
                if isinstance(offsets, Absence):
                    return offsets
                if address.offset < offsets[0]:
                    return Absence.EXPIRED
                if address.offset >= offsets[1]:
                    return Absence.BEYOND_END
            result = self._read(address, deadline)
            if result is not None:
                return result
            window = None

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _request_offsets(self, address: Address, deadline: float) -> tuple[int, int] | Absence:
        partition = TopicPartition(address.topic, address.partition)
        while True:
            try:
                # A refused login is known long before the deadline.
                window = self._consumer.get_watermark_offsets(
                    partition, timeout=min(_remaining(deadline), LOGIN_SECONDS)
                )
            except KafkaException as error:
                absence = self._why(error.args[0], address, deadline)
                if absence is not None:
                    return absence
                # The leader is changing, or the partition is new.
                time.sleep(0.02)
                continue
            if window is None:
                raise self._timed_out(address)
            self._windows[address.topic, address.partition] = window
            return window

    def _why(self, error: KafkaError, address: Address, deadline: float) -> Absence | None:
        """Why there are no offsets; None if the request can be retried."""
        late = time.monotonic() > deadline
        if error.code() in UNREACHABLE or late:
            # Calls `error_cb` with the reason why there is no connection.
            self._consumer.poll(0)
            if _is_timeout(error) and not late and not login_refused(self._settings):
                return None
            raise from_kafka_error(error, self._settings, f"requesting offsets of {address}")
        # The client's metadata may be outdated: request it from the cluster.
        with kafka_errors(self._settings, f"requesting metadata of topic {address.topic!r}"):
            metadata = self._consumer.list_topics(address.topic, timeout=_remaining(deadline))
        topic = metadata.topics[address.topic]
        codes = {error.code(), topic.error and topic.error.code()}
        if KafkaError.TOPIC_AUTHORIZATION_FAILED in codes:
            return Absence.NOT_ALLOWED
        return Absence.NO_PARTITION if address.partition not in topic.partitions else None

    def _read(self, address: Address, deadline: float) -> Record | Absence | None:
        """Read an offset within the known range; None if the range has changed."""
        self._consumer.assign([TopicPartition(address.topic, address.partition, address.offset)])
        try:
            while True:
                message = self._consumer.poll(_remaining(deadline))
                if message is None:
                    raise self._timed_out(address)
                error = message.error()
                if error is None:
                    # If the offset is a gap, Kafka returns the next record.
                    record = record_of(message)
                    return record if record.address == address else Absence.HOLE
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    return _at_end(message, address)
                if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                    return None
                if error.code() not in UNREACHABLE | UNUSED_GROUP:
                    access = Access("Read", "topic", address.topic)
                    raise from_kafka_error(error, self._settings, f"reading {address}", access)
                # The client reconnects; the deadline limits how long that takes.
        finally:
            # Otherwise the client would prefetch the records after it.
            self._consumer.unassign()

    def _timed_out(self, address: Address) -> BrokerUnavailableError:
        seconds = self._settings.timeout_seconds
        return BrokerUnavailableError(
            f"Kafka at {broker_addresses(self._settings)} did not send {address} "
            f"within {seconds:g} s",
            hint="start the local broker with `headwater up kafka`, or set "
            "KAFKA_BOOTSTRAP_SERVERS; the timeout is HEADWATER_KAFKA__TIMEOUT_SECONDS",
            bootstrap_servers=broker_addresses(self._settings),
        )


def _at_end(message: Message, address: Address) -> Absence:
    # After an aborted transaction, the end is after the requested offset; within an open
    # transaction, it is at the requested offset.
    return Absence.HOLE if (message.offset() or 0) > address.offset else Absence.BEYOND_END


def _is_timeout(error: KafkaError) -> bool:
    return error.code() == KafkaError._TIMED_OUT  # noqa: SLF001


def _remaining(deadline: float) -> float:
    # Not below zero: for the client, that means no timeout.
    return max(deadline - time.monotonic(), 0.001)
