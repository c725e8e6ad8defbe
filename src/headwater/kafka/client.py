"""What all Kafka clients share: their settings, and how their errors become Headwater's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from headwater.errors import (
    BrokerUnavailableError,
    HeadwaterError,
    InputError,
    TopicNotFoundError,
)
from headwater.settings.sections import KafkaSettings

_log = logging.getLogger(__name__)
# The client tells of every reconnect; whoever wants to read that sets up logging.
_log.addHandler(logging.NullHandler())

UNREACHABLE = {
    KafkaError._TRANSPORT,  # noqa: SLF001 - librdkafka's local codes start with an underscore
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
}
_UNKNOWN_TOPIC = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
}


def client_config(settings: KafkaSettings, **properties: Any) -> dict[str, Any]:
    """The properties of a client; `kafka.client` of the settings wins over our defaults."""
    return {
        "bootstrap.servers": settings.servers,
        # librdkafka writes to stderr by itself unless its lines go to a logger.
        "logger": _log,
        **properties,
        **settings.client,
    }


@contextmanager
def kafka_errors(settings: KafkaSettings, what: str) -> Iterator[None]:
    """Turn errors of the client into Headwater's; `what` says what was being done."""
    try:
        yield
    except KafkaException as error:
        raise from_kafka_error(error.args[0], settings, what) from error


def from_kafka_error(error: KafkaError, settings: KafkaSettings, what: str) -> HeadwaterError:
    """The error to raise for an answer of the client."""
    text = f"{what}: {error.str()}"
    if error.code() in UNREACHABLE:
        return BrokerUnavailableError(
            f"Kafka at {settings.servers} did not answer: {text}",
            hint="start the local broker with `headwater up kafka`, or set "
            "KAFKA_BOOTSTRAP_SERVERS; the wait is HEADWATER_KAFKA__TIMEOUT_SECONDS",
            bootstrap_servers=settings.servers,
        )
    if error.code() in _UNKNOWN_TOPIC:
        return TopicNotFoundError(text, hint="`headwater topics list` shows what is there")
    return InputError(text, code=error.code(), name=error.name())
