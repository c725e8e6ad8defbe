"""A producer that checks every delivery: no record is dropped without an error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headwater.errors import (
    BrokerUnavailableError,
    DeliveryError,
    HeadwaterError,
    KafkaRefusedError,
    NotEnoughReplicasError,
)
from headwater.kafka import connection
from headwater.kafka.client import (
    client_config,
    cluster_of,
    from_kafka_error,
    kafka_errors,
    login_refused,
)
from headwater.kafka.errors import Access
from headwater.model import Header
from headwater.settings import broker_addresses
from headwater.settings.kafka import KafkaSettings

_MAX_EXAMPLES = 5
_TIMEOUT_HINT = "check the broker, or raise HEADWATER_KAFKA__TIMEOUT_SECONDS"
# A refused login is noticed between two waits.
_FLUSH_SECONDS = 0.5
_NOT_WRITTEN = (KafkaRefusedError, NotEnoughReplicasError)


class RecordProducer:
    """A producer that blocks when its queue is full and raises if a record was not delivered.

    Idempotent, in order per partition. Use it as a context manager: exiting it flushes, and
    raises `DeliveryError` if any record was not acknowledged.
    """

    def __init__(self, settings: KafkaSettings, **properties: str | int | float | bool) -> None:
        self._settings = settings
        defaults = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "compression.type": "lz4",
            # The same partition for a key as with Java clients and Spark.
            "partitioner": "murmur2_random",
            "delivery.timeout.ms": int(settings.timeout_seconds * 1000),
        }
        with kafka_errors(settings, "creating a producer"):
            self._producer = Producer(client_config(settings, **{**defaults, **properties}))
        self.delivered = 0
        self.failed = 0
        self._examples: list[tuple[str, KafkaError]] = []
        self._topic = ""

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
        self._topic = topic
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
                with self._fatal_errors():
                    self._producer.poll(0.1)
                if time.monotonic() > deadline or login_refused(self._settings):
                    raise self._queue_full(topic) from None
            except KafkaException as error:
                # The reason of an error that ended the producer is raised by a callback.
                with self._fatal_errors():
                    self._producer.poll(0)
                raise self._error(error.args[0], topic) from error
            else:
                with self._fatal_errors():
                    self._producer.poll(0)
                return

    def flush(self) -> None:
        """Wait until all records are acknowledged.

        Raises:
            DeliveryError: a record was rejected, or not acknowledged within the timeout.
        """
        # delivery.timeout.ms fails each record; the margin is for the delivery reports to arrive.
        deadline = time.monotonic() + self._settings.timeout_seconds + 5
        unacknowledged = len(self._producer)
        while unacknowledged and time.monotonic() < deadline:
            with self._fatal_errors():
                self._producer.flush(_FLUSH_SECONDS)
            unacknowledged = len(self._producer)
            if unacknowledged and login_refused(self._settings):
                break
        self.failed += unacknowledged
        if any(error.code() == KafkaError._PURGE_QUEUE for _, error in self._examples):  # noqa: SLF001
            self._raise_end()
        self._raise_failures(unacknowledged)

    def close(self) -> None:
        """Drop unsent records, without waiting."""
        # An error that ended the producer was raised before.
        with suppress(HeadwaterError), self._fatal_errors():
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

    @contextmanager
    def _fatal_errors(self) -> Iterator[None]:
        """Convert an error that ends the producer, such as of a principal that may not write."""
        try:
            yield
        except (KafkaException, SystemError) as error:
            # The library may return from a call without handling the exception of a callback, and
            # may lose it; then the records that are purged show that the producer has ended.
            fatal = error if isinstance(error, KafkaException) else error.__cause__
            if isinstance(fatal, KafkaException):
                raise self._error(fatal.args[0], self._topic) from error
            if fatal is not None:
                raise

    def _raise_end(self) -> None:
        """Raise the error that ended the producer, which purged the records in its queue: it
        refuses every other record with it."""
        try:
            self._producer.produce(self._topic)
        except KafkaException as error:
            fatal = connection.fatal_error(cluster_of(self._settings), error.args[0])
            raise self._error(fatal, self._topic) from error
        self._producer.purge()

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
        reason, hint = f"no acknowledgement within {seconds:g} s", _TIMEOUT_HINT
        topic = ""
        refused = login_refused(self._settings)
        cause = None if refused is None else self._error(refused, topic)
        if self._examples:
            topic, error = self._examples[0]
            reason = error.str()
            cause = cause or self._cause(unacknowledged)
        if cause is not None:
            reason, hint = cause.message, cause.hint or hint
        raise DeliveryError(
            f"{self.failed} records were not acknowledged by {broker_addresses(self._settings)}, "
            f"{self.delivered} were: {reason}",
            hint=hint,
            topic=topic,
            failed=self.failed,
            delivered=self.delivered,
            unanswered=unacknowledged,
        ).with_cause(cause)

    def _error(self, error: KafkaError, topic: str) -> HeadwaterError:
        access = Access("Write", "topic", topic)
        return from_kafka_error(error, self._settings, f"sending to topic {topic!r}", access)

    def _cause(self, unacknowledged: int) -> HeadwaterError | None:
        """Why Kafka rejected the records, if it is certain that none of them was written."""
        causes = [self._error(error, topic) for topic, error in self._examples]
        certain = all(isinstance(each, _NOT_WRITTEN) for each in causes)
        alike = len({type(each) for each in causes}) == 1
        return causes[0] if certain and alike and not unacknowledged else None

    def _queue_full(self, topic: str) -> HeadwaterError:
        refused = login_refused(self._settings)
        if refused is not None:
            return self._error(refused, topic)
        seconds = self._settings.timeout_seconds
        return BrokerUnavailableError(
            f"Kafka at {broker_addresses(self._settings)} accepted no record of topic {topic!r} "
            f"for {seconds:g} s; {self.delivered} were acknowledged before",
            hint=_TIMEOUT_HINT,
            topic=topic,
            delivered=self.delivered,
        )
