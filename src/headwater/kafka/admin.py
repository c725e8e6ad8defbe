"""The configuration of clients, and requests of an admin client."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from headwater.kafka.errors import (
    cluster_key,
    connection_error_recorder,
    kafka_errors,
    login_refused,
)
from headwater.settings import broker_addresses
from headwater.settings.sections import KafkaSettings

_LOG = logging.getLogger(__name__)

T = TypeVar("T")


class _DebugLogger:
    """Takes librdkafka's log lines. It logs every reconnect as an error; callers get exceptions
    instead, so the lines are only of use for debugging."""

    def log(self, level: int, message: str, *values: str) -> None:
        _LOG.debug(message, *values)


def client_config(settings: KafkaSettings, **properties: Any) -> dict[str, Any]:
    """The properties of a client; the setting `kafka.client` takes precedence over defaults."""
    return {
        "bootstrap.servers": broker_addresses(settings),
        # Without a logger, librdkafka writes to stderr.
        "logger": _DebugLogger(),
        "error_cb": connection_error_recorder(settings),
        **properties,
        **settings.client,
    }


# A client opens connections and starts threads, so one is shared per cluster. It must exist until
# its futures are complete.
_admins: dict[tuple[object, ...], AdminClient] = {}


def admin_client(settings: KafkaSettings) -> AdminClient:
    """The admin client of a cluster."""
    cluster = cluster_key(settings)
    if cluster not in _admins:
        with kafka_errors(settings, "creating an admin client"):
            _admins[cluster] = AdminClient(client_config(settings))
    return _admins[cluster]


# A refused login is known after a fraction of a second, but a request would wait for its timeout.
LOGIN_SECONDS = 2.0


def request_metadata(
    settings: KafkaSettings, topic: str | None = None, *, timeout_seconds: float | None = None
) -> ClusterMetadata:
    """Brokers and topics, or one topic.

    Raises:
        KafkaException: the cluster does not respond, or does not accept the client.
    """
    admin = admin_client(settings)
    seconds = timeout_seconds or settings.timeout_seconds
    first = min(seconds, LOGIN_SECONDS)
    try:
        return admin.list_topics(topic, timeout=first)
    except KafkaException:
        # Calls `error_cb`.
        admin.poll(0)
        if seconds == first or login_refused(settings):
            raise
    with _polled_after(admin):
        return admin.list_topics(topic, timeout=seconds - first)


def result_of(future: Future[T], settings: KafkaSettings) -> T:
    """The result of a request.

    Raises:
        KafkaException: the request failed, or there was no response within the timeout.
    """
    deadline = time.monotonic() + settings.timeout_seconds
    while True:
        try:
            with _polled_after(admin_client(settings)):
                return future.result(min(LOGIN_SECONDS, max(deadline - time.monotonic(), 0)))
        except TimeoutError:
            if time.monotonic() > deadline or login_refused(settings):
                # The client's own timeout may be longer.
                timed_out = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
                raise KafkaException(timed_out) from None


@contextmanager
def _polled_after(admin: AdminClient) -> Iterator[None]:
    """Let the client call `error_cb` after a request that failed."""
    try:
        yield
    except (KafkaException, TimeoutError):
        admin.poll(0)
        raise
