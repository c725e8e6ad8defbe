"""How errors of the Python client become Headwater's: types, hints and the permission to add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from headwater.errors import BrokerUnavailableError, HeadwaterError
from headwater.kafka.error_kinds import (
    AUTHENTICATION,
    AUTHORIZATION,
    UNANSWERED,
    kind_of_code,
)
from headwater.settings import broker_addresses
from headwater.settings.jaas import parse_jaas
from headwater.settings.kafka import KafkaSettings
from headwater.settings.kafka_security import client_properties


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
    # Java's clients have the user in a JAAS configuration.
    _, login = parse_jaas(properties.get("sasl.jaas.config", ""))
    user = properties.get("sasl.username") or login.get("username")
    if user:
        return f"User:{user}"
    protocol = properties.get("security.protocol", "PLAINTEXT")
    return "User:ANONYMOUS" if protocol.upper() == "PLAINTEXT" else None


def error_of(
    error: KafkaError,
    settings: KafkaSettings,
    what: str,
    access: Access | None,
    last: KafkaError | None,
) -> HeadwaterError:
    """The Headwater error for a client error.

    Args:
        last: the last error of a connection, which may explain a timeout.
    """
    kind, text = kind_of_code(error.code()), error.str()
    if last is not None and kind is UNANSWERED:
        text = f"{text} ({last.str()})"
    if last is not None and issubclass(kind.error, BrokerUnavailableError) and is_refused(last):
        # The client tries to log in again and again, until the request times out.
        error, kind, text = last, kind_of_code(last.code()), last.str()
    hint = kind.hint
    if kind is AUTHORIZATION:
        hint = (access or _LEAST_ACCESS[error.code()]).hint(client_properties(settings))
    attributes: dict[str, Any] = {"code": error.code(), "name": error.name()}
    if issubclass(kind.error, BrokerUnavailableError):
        attributes["bootstrap_servers"] = broker_addresses(settings)
    prefix = kind.prefix.format(broker_addresses(settings))
    return kind.error(f"{prefix}{what}: {text}", hint=hint, **attributes)


def is_refused(error: KafkaError) -> bool:
    """Whether the cluster does not accept the client's credentials or certificate."""
    # A broker that stops during a handshake is an error of TLS, too.
    return kind_of_code(error.code()) is AUTHENTICATION and "Disconnected" not in error.str()


def is_of_tls(error: KafkaError) -> bool:
    """Whether the connection failed in TLS; a broker sends an alert after the handshake, too."""
    return error.code() == KafkaError._SSL or "SSL alert" in error.str()  # noqa: SLF001
