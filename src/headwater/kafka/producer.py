"""A producer that checks every delivery: no record is dropped without an error."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headwater.errors import BrokerUnavailableError, DeliveryError
from headwater.kafka.client import client_config, from_kafka_error
from headwater.model import Header
from headwater.settings import broker_addresses
from headwater.settings.sections import KafkaSettings

_MAX_EXAMPLES = 5


class RecordProducer:
    """A producer that blocks when its queue is full and raises if a record was not delivered.

    Idempotent, in order per partition. Use it as a context manager: exiting it flushes, and
    raises `DeliveryError` if any record was not acknowledged.
    """

    def __init__(self, settings: KafkaSettings, **properties: str | int | float | bool) -> None:
        self._settings = settings
        defaults = {
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            # The same partition for a key as with Java clients and Spark.
            "partitioner": "murmur2_random",
            "delivery.timeout.ms": int(settings.timeout_seconds * 1000),
        }
        try:
            self._producer = Producer(client_config(settings, **{**defaults, **properties}))
        except KafkaException as error:
            raise from_kafka_error(error.args[0], settings, "creating a producer") from error
        self.delivered = 0
        self.failed = 0
        self._examples: list[tuple[str, KafkaError]] = []

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Iterable[Header] = (),
        partition: int = -1,
        timestamp_ms: int = 0,
    ) -> None:
        """Queue a record; blocks, with a timeout, while the local queue is full."""
        deadline: float | None = None
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    timestamp=timestamp_ms,
                    headers=list(headers),
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                # The queue drains as fast as the broker accepts records, or not at all.
                deadline = deadline or time.monotonic() + self._settings.timeout_seconds
                self._producer.poll(0.1)
                if time.monotonic() > deadline:
                    raise self._queue_full(topic) from None
            except KafkaException as error:
                raise from_kafka_error(
                    error.args[0], self._settings, f"sending to topic {topic!r}"
                ) from error
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Wait until all records are acknowledged.

        Raises:
            DeliveryError: a record was rejected, or not acknowledged within the timeout.
        """
        # delivery.timeout.ms fails each record; the margin is for the delivery reports to arrive.
        unacknowledged = self._producer.flush(self._settings.timeout_seconds + 5)
        self.failed += unacknowledged
        self._raise_failures(unacknowledged)

    def close(self) -> None:
        """Drop unsent records, without waiting."""
        self._producer.purge()
        self._producer.flush(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.flush()
        else:
            self.close()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
            return
        self.failed += 1
        if len(self._examples) < _MAX_EXAMPLES:
            self._examples.append((message.topic() or "", error))

    def _raise_failures(self, unacknowledged: int) -> None:
        if not self.failed:
            return
        seconds = self._settings.timeout_seconds
        reason = f"no acknowledgement within {seconds:g} s"
        topic = ""
        if self._examples:
            topic, error = self._examples[0]
            reason = error.str()
        raise DeliveryError(
            f"{self.failed} records were not acknowledged by {broker_addresses(self._settings)}, "
            f"{self.delivered} were: {reason}",
            hint="check the broker, or raise HEADWATER_KAFKA__TIMEOUT_SECONDS",
            topic=topic,
            failed=self.failed,
            delivered=self.delivered,
            unanswered=unacknowledged,
        )

    def _queue_full(self, topic: str) -> BrokerUnavailableError:
        seconds = self._settings.timeout_seconds
        return BrokerUnavailableError(
            f"Kafka at {broker_addresses(self._settings)} accepted no record of topic {topic!r} "
            f"for {seconds:g} s; {self.delivered} were acknowledged before",
            hint="check the broker, or raise HEADWATER_KAFKA__TIMEOUT_SECONDS",
            topic=topic,
            delivered=self.delivered,
        )
