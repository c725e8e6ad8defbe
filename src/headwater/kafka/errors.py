"""How errors of the Python client become Headwater's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from headwater.errors import BrokerUnavailableError, HeadwaterError
from headwater.kafka.error_kinds import (
    AUTHENTICATION,
    AUTHORIZATION,
    UNANSWERED,
    kind_of_code,
)
from headwater.settings import broker_addresses
from headwater.settings.sections import KafkaSettings


@dataclass(frozen=True, slots=True)
class Access:
    """The permission that a request needs, in the words of `headwater kafka acls`.

    A name that ends with `*` is a prefix.
    """

    operation: str
    resource: str
    name: str = ""

    def hint(self, properties: Mapping[str, str]) -> str:
        """Which ACL to add, for the principal of a client with these properties."""
        principal = principal_of(properties)
        option = f"--{self.resource} {self.name}".rstrip()
        if self.name.endswith("*"):
            option = f"{option.rstrip('*')} --resource-pattern-type prefixed"
        return (
            f"{principal or 'the principal of the client'} needs {self.operation} on the "
            f"{self.resource}{f' {self.name!r}' if self.name else ''}: `headwater kafka acls --add "
            f"--allow-principal {principal or 'User:NAME'} --operation {self.operation} {option}`"
        )


# If the caller does not know more: the least permission that such a request can need.
_LEAST_ACCESS: Mapping[int, Access] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Access("Describe", "topic", "NAME"),
    KafkaError.GROUP_AUTHORIZATION_FAILED: Access("Describe", "group", "NAME"),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Access("Describe", "cluster"),
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Access("Write", "transactional-id", "NAME"),
    KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED: Access(
        "Describe", "delegation-token", "TOKEN"
    ),
}


def principal_of(properties: Mapping[str, str]) -> str | None:
    """The principal of a client; None if the broker derives it from a certificate or a token."""
    user = properties.get("sasl.username")
    # Java's clients have it in a JAAS configuration.
    _, found, rest = properties.get("sasl.jaas.config", "").partition('username="')
    user = user or (rest.partition('"')[0] if found else None)
    if user:
        return f"User:{user}"
    protocol = properties.get("security.protocol", "PLAINTEXT")
    return "User:ANONYMOUS" if protocol.upper() == "PLAINTEXT" else None


@contextmanager
def kafka_errors(
    settings: KafkaSettings, what: str, access: Access | None = None
) -> Iterator[None]:
    """Convert client errors to Headwater errors.

    Args:
        what: describes the operation.
        access: the permission that it needs.
    """
    try:
        yield
    except KafkaException as error:
        raise from_kafka_error(error.args[0], settings, what, access) from error


def from_kafka_error(
    error: KafkaError, settings: KafkaSettings, what: str, access: Access | None = None
) -> HeadwaterError:
    """The Headwater error for a client error."""
    kind, text = kind_of_code(error.code()), error.str()
    last = last_connection_error(settings)
    if last is not None and kind is UNANSWERED:
        text = f"{text} ({last.str()})"
    if last is not None and issubclass(kind.error, BrokerUnavailableError) and is_refused(last):
        # The client tries to log in again and again, until the request times out.
        error, kind, text = last, kind_of_code(last.code()), last.str()
    hint = kind.hint
    if kind is AUTHORIZATION:
        hint = (access or _LEAST_ACCESS[error.code()]).hint(settings.client)
    attributes: dict[str, Any] = {"code": error.code(), "name": error.name()}
    if issubclass(kind.error, BrokerUnavailableError):
        attributes["bootstrap_servers"] = broker_addresses(settings)
    prefix = kind.prefix.format(broker_addresses(settings))
    return kind.error(f"{prefix}{what}: {text}", hint=hint, **attributes)


# By cluster and client properties: the last error of a connection and its time. Requests report
# only a timeout; why there is no connection is reported to a callback.
_connection_errors: dict[tuple[object, ...], tuple[float, KafkaError]] = {}


def cluster_key(settings: KafkaSettings) -> tuple[object, ...]:
    """Identifies a cluster with the properties of its clients."""
    return (broker_addresses(settings), *sorted(settings.client.items()))


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
    """The last error of a connection, if it is that the cluster does not accept the client."""
    last = last_connection_error(settings)
    return last if last is not None and is_refused(last) else None


def is_refused(error: KafkaError) -> bool:
    """Whether the cluster does not accept the client's credentials or certificate."""
    # A broker that stops during a handshake is an error of TLS, too.
    return kind_of_code(error.code()) is AUTHENTICATION and "Disconnected" not in error.str()
