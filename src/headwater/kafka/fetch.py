"""One record by its address, from a consumer that stays warm: about a millisecond."""

from __future__ import annotations

import time
from enum import Enum
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headwater.errors import BrokerUnavailableError
from headwater.kafka.client import UNREACHABLE, client_config, from_kafka_error, kafka_errors
from headwater.kafka.consumer import record_of
from headwater.model import Address, Record
from headwater.settings.sections import KafkaSettings

_FAST = {
    # The broker sends at least one whole batch, whatever its size: the least is enough, and all
    # beyond it would be decoded for nothing.
    "fetch.message.max.bytes": 4096,
    "queued.min.messages": 1,
    # One request runs at a time. Left at 500 ms and 1 s, these make the next fetch wait for the
    # one that looks ahead in the partition before.
    "fetch.wait.max.ms": 5,
    "fetch.queue.backoff.ms": 1,
    "fetch.error.backoff.ms": 20,
}


class Absence(Enum):
    """Why there is no record at an address."""

    EXPIRED = "removed: the partition begins behind it now"
    # Kafka does not tell these apart; none of them is to be seen by a reader.
    HOLE = "nothing at this offset: compacted away, or of an aborted transaction"
    BEYOND_END = "beyond the end of the partition"
    NO_PARTITION = "no such topic or partition"
    NOT_ALLOWED = "this client is not allowed to read the topic"

    @property
    def was_there(self) -> bool:
        """Whether there may have been a record; beyond what there is, there can't have been."""
        return self not in {Absence.BEYOND_END, Absence.NO_PARTITION}


class RecordReader:
    """Reads single records; a context manager, for one thread.

    Records of open and of aborted transactions are not seen. No consumer group is left behind.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        config = client_config(
            settings,
            **{
                # A group id has to be there; nothing is ever committed under it.
                "group.id": "headwater-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                **_FAST,
            },
        )
        with kafka_errors(settings, "setting up a consumer"):
            self._consumer = Consumer(config)
        # First and end offset, as last heard; asking also makes the client find the leader,
        # for which a fetch would have to wait.
        self._windows: dict[tuple[str, int], tuple[int, int]] = {}

    def fetch(self, address: Address) -> Record | Absence:
        """The record at an address, or why there is none.

        Raises:
            BrokerUnavailableError: no answer within `kafka.timeout_seconds`.
        """
        deadline = time.monotonic() + self._settings.timeout_seconds
        window = self._windows.get((address.topic, address.partition))
        while True:
            # Known bounds may be old: what lies outside is asked for again.
            if window is None or not window[0] <= address.offset < window[1]:
                answer = self._ask_window(address, deadline)
                if isinstance(answer, Absence):
                    return answer
                if address.offset < answer[0]:
                    return Absence.EXPIRED
                if address.offset >= answer[1]:
                    return Absence.BEYOND_END
            found = self._read(address, deadline)
            if found is not None:
                return found
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

    def _ask_window(self, address: Address, deadline: float) -> tuple[int, int] | Absence:
        where = TopicPartition(address.topic, address.partition)
        while True:
            try:
                window = self._consumer.get_watermark_offsets(where, timeout=_left(deadline))
            except KafkaException as error:
                absence = self._why(error.args[0], address, deadline)
                if absence is not None:
                    return absence
                # A leader that moves, or a partition that was not there a moment ago.
                time.sleep(0.02)
                continue
            if window is None:
                raise self._silence(address)
            self._windows[address.topic, address.partition] = window
            return window

    def _why(self, error: KafkaError, address: Address, deadline: float) -> Absence | None:
        """Why there are no offsets to be had; None if it is worth asking again."""
        if error.code() in UNREACHABLE or time.monotonic() > deadline:
            raise from_kafka_error(error, self._settings, f"asking for offsets of {address}")
        # What the client remembers may be old: the cluster is asked.
        with kafka_errors(self._settings, f"asking for topic {address.topic!r}"):
            metadata = self._consumer.list_topics(address.topic, timeout=_left(deadline))
        topic = metadata.topics[address.topic]
        codes = {error.code(), topic.error and topic.error.code()}
        if KafkaError.TOPIC_AUTHORIZATION_FAILED in codes:
            return Absence.NOT_ALLOWED
        return Absence.NO_PARTITION if address.partition not in topic.partitions else None

    def _read(self, address: Address, deadline: float) -> Record | Absence | None:
        """What lies at an offset within the bounds; None if the bounds are others by now."""
        self._consumer.assign([TopicPartition(address.topic, address.partition, address.offset)])
        try:
            while True:
                message = self._consumer.poll(_left(deadline))
                if message is None:
                    raise self._silence(address)
                error = message.error()
                if error is None:
                    # In place of a hole comes the next record there is.
                    record = record_of(message)
                    return record if record.address == address else Absence.HOLE
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    return _at_end(message, address)
                if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                    return None
                if error.code() not in UNREACHABLE:
                    raise from_kafka_error(error, self._settings, f"reading {address}")
                # The client reconnects by itself; the deadline bounds how long that may take.
        finally:
            # Or else it would go on fetching what comes behind the record.
            self._consumer.unassign()

    def _silence(self, address: Address) -> BrokerUnavailableError:
        seconds = self._settings.timeout_seconds
        return BrokerUnavailableError(
            f"Kafka at {self._settings.servers} did not send {address} within {seconds:g} s",
            hint="start the local broker with `headwater up kafka`, or set "
            "KAFKA_BOOTSTRAP_SERVERS; the wait is HEADWATER_KAFKA__TIMEOUT_SECONDS",
            bootstrap_servers=self._settings.servers,
        )


def _at_end(message: Message, address: Address) -> Absence:
    # Behind an aborted transaction the end comes later than the offset that was asked for;
    # within one that is still open it comes at it.
    return Absence.HOLE if (message.offset() or 0) > address.offset else Absence.BEYOND_END


def _left(deadline: float) -> float:
    # Not below zero: the client takes that for "wait for ever".
    return max(deadline - time.monotonic(), 0.001)
