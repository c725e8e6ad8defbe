"""Why a client has no connection: what the library reports outside of requests, by cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from confluent_kafka import KafkaError

from headwater.kafka.errors import is_of_tls, is_refused
from headwater.kafka.listener import why_refused
from headwater.settings import broker_addresses
from headwater.settings.kafka import KafkaSettings
from headwater.settings.kafka_security import client_properties

_LOG = logging.getLogger(__name__)

# By cluster and client properties: the last error of a connection and its time. Requests report
# only a timeout; why there is no connection is reported to a callback.
_connection_errors: dict[tuple[object, ...], tuple[float, KafkaError]] = {}
# When the client last logged that a connection was closed.
_closed_connections: dict[tuple[object, ...], float] = {}
# What listeners have answered, and when.
_reasons: dict[tuple[object, ...], tuple[float, str | None]] = {}
_ASK_AGAIN_SECONDS = 10.0


class ClientLog:
    """Takes librdkafka's log lines. It logs every reconnect as an error; callers get exceptions
    instead, so the lines are only of use for debugging, and for closed connections: of those,
    `error_cb` is not called."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._key = cluster_key(settings)

    def log(self, level: int, message: str, *values: str) -> None:
        _LOG.debug(message, *values)
        if any("isconnected" in value for value in values):
            _closed_connections[self._key] = time.monotonic()


def cluster_key(settings: KafkaSettings) -> tuple[object, ...]:
    """Identifies a cluster with the properties of its clients."""
    properties = sorted(client_properties(settings).items())
    return (broker_addresses(settings), settings.token_provider, *properties)


def connection_error_recorder(settings: KafkaSettings) -> Callable[[KafkaError], None]:
    """A callback for `error_cb`, which the client calls while it is polled."""
    key = cluster_key(settings)

    def record(error: KafkaError) -> None:
        # A summary, which follows the errors of single brokers.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            _connection_errors[key] = (time.monotonic(), error)

    return record


def last_connection_error(settings: KafkaSettings) -> KafkaError | None:
    """The last error of a connection, if it is not older than a request can be."""
    recorded_at, error = _connection_errors.get(cluster_key(settings), (0.0, None))
    age = time.monotonic() - recorded_at
    return error if age < settings.timeout_seconds + 5 else None


def login_refused(settings: KafkaSettings) -> KafkaError | None:
    """The error by which the cluster does not accept the client; None if there is none, or it is
    not known yet."""
    last = last_connection_error(settings)
    refused = last is not None and is_refused(last)
    closed_at = _closed_connections.get(cluster_key(settings), 0.0)
    closed = time.monotonic() - closed_at < settings.timeout_seconds + 5
    if not refused and not closed and not (last is not None and is_of_tls(last)):
        return None
    reason = _reason_of_listener(settings)
    if reason is not None:
        return KafkaError(KafkaError._AUTHENTICATION, reason)  # noqa: SLF001
    return last if refused else None


def _reason_of_listener(settings: KafkaSettings) -> str | None:
    """As `why_refused`; a listener is asked once in a while."""
    key, now = cluster_key(settings), time.monotonic()
    asked_at, reason = _reasons.get(key, (0.0, None))
    if key not in _reasons or now - asked_at > _ASK_AGAIN_SECONDS:
        reason = why_refused(settings)
        _reasons[key] = (now, reason)
    return reason
