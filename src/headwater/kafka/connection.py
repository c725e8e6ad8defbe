"""Why a client has no connection: what the library reports outside of requests, by cluster; and
the security of clients.

Nothing here runs while connections work without security.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError

from headwater.kafka.errors import is_of_tls, is_refused
from headwater.kafka.listener import why_refused
from headwater.settings.kafka import KafkaSettings
from headwater.settings.kafka_security import client_properties, token_provider
from headwater.settings.tokens import load_provider

# Identifies a cluster with the properties of its clients.
Cluster = tuple[object, ...]

# The last error of a connection and its time. Requests report only a timeout; why there is no
# connection is reported to a callback.
_errors: dict[Cluster, tuple[float, KafkaError]] = {}
# Why a producer ended, from its log: the exception of a callback may be lost.
_fatal: dict[Cluster, str] = {}
# When the client last logged that a connection was closed.
_closed: dict[Cluster, float] = {}
# What listeners have answered, and when.
_reasons: dict[Cluster, tuple[float, str | None]] = {}
_ASK_AGAIN_SECONDS = 10.0


def security_of(cluster: Cluster, settings: KafkaSettings) -> dict[str, Any]:
    """The properties by which a client logs in.

    Raises:
        SettingError: the security of Java's clients can't be used by this one.
    """
    properties: dict[str, Any] = {**client_properties(settings)}
    name = token_provider(settings)
    if name is None:
        return properties
    provider = load_provider(name)

    def token(_: str) -> tuple[str, float, str, dict[str, str]]:
        """Called in a poll of the client."""
        try:
            given = provider()
        except Exception as error:
            # The client would only report that a callback failed.
            first = (str(error).splitlines() or [""])[0]
            reason = f"kafka.token_provider {name}: {type(error).__name__}: {first}"
            record_error(cluster, KafkaError(KafkaError._AUTHENTICATION, reason))  # noqa: SLF001
            raise
        return given.value, given.expires_at, given.principal, dict(given.extensions)

    return {**properties, "oauth_cb": token}


def record_error(cluster: Cluster, error: KafkaError) -> None:
    """For `error_cb`, which the client calls while it is polled."""
    # A summary, which follows the errors of single brokers.
    if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
        _errors[cluster] = (time.monotonic(), error)


def record_closed(cluster: Cluster) -> None:
    """A connection was closed."""
    _closed[cluster] = time.monotonic()


def record_fatal(cluster: Cluster, text: str) -> None:
    """A producer has ended."""
    _fatal[cluster] = text


def fatal_error(cluster: Cluster, error: KafkaError) -> KafkaError:
    """The error that ended a producer, of which `error` only reports that it did."""
    text = _fatal.get(cluster, "")
    refused = "authorization failed" in text.lower()
    return KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, text) if refused else error


def last_error(cluster: Cluster, settings: KafkaSettings) -> KafkaError | None:
    """The last error of a connection, if it is not older than a request can be."""
    recorded_at, error = _errors.get(cluster, (0.0, None))
    age = time.monotonic() - recorded_at
    return error if age < settings.timeout_seconds + 5 else None


def login_refused(cluster: Cluster, settings: KafkaSettings) -> KafkaError | None:
    """The error by which the cluster does not accept the client; None if there is none, or it is
    not known yet."""
    last = last_error(cluster, settings)
    refused = last is not None and is_refused(last)
    closed = time.monotonic() - _closed.get(cluster, 0.0) < settings.timeout_seconds + 5
    if not refused and not closed and not (last is not None and is_of_tls(last)):
        return None
    reason = _reason_of_listener(cluster, settings)
    if reason is not None:
        return KafkaError(KafkaError._AUTHENTICATION, reason)  # noqa: SLF001
    return last if refused else None


def _reason_of_listener(cluster: Cluster, settings: KafkaSettings) -> str | None:
    """As `why_refused`; a listener is asked once in a while."""
    now = time.monotonic()
    asked_at, reason = _reasons.get(cluster, (0.0, None))
    if cluster not in _reasons or now - asked_at > _ASK_AGAIN_SECONDS:
        reason = why_refused(settings)
        _reasons[cluster] = (now, reason)
    return reason
