"""Checks that Spark's Kafka clients can connect, before a query starts: a query would retry for
minutes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext

from headwater.errors import HeadwaterError, SettingError
from headwater.kafka.error_kinds import AUTHENTICATION, UNANSWERED, kind_of_java
from headwater.kafka.listener import why_refused
from headwater.settings import Settings
from headwater.spark.session import own_class

_SECURITY = ("bootstrap.servers", "security.", "sasl.", "ssl.", "client.dns.lookup")
_CHECKED_SECONDS = 60.0
# By properties, without keeping them: when they were found to work.
_checked: dict[str, float] = {}


def check_connection(options: Mapping[str, str], settings: Settings) -> None:
    """Connect with the security of these options of a source or sink, from the driver.

    Without security there is nothing to check: the Python client has connected in the same way.

    Raises:
        AuthenticationError: the cluster does not accept the client.
        BrokerUnavailableError: no response within `kafka.timeout_seconds`.
    """
    # Spark's options are case-insensitive.
    named = {name.lower().removeprefix("kafka."): value for name, value in options.items()}
    properties = {name: value for name, value in named.items() if name.startswith(_SECURITY)}
    if properties.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return
    key = hashlib.sha256(repr(sorted(properties.items())).encode()).hexdigest()
    if time.monotonic() - _checked.get(key, float("-inf")) < _CHECKED_SECONDS:
        return
    jvm: Any = SparkContext._jvm  # noqa: SLF001
    given = jvm.java.util.HashMap()
    for name, value in properties.items():
        given.put(name, value)
    seconds = settings.kafka.timeout_seconds
    found = str(own_class("kafka.ConnectionCheck").check(given, round(seconds * 1000)))
    if found:
        raise _error(found, properties["bootstrap.servers"], settings)
    _checked[key] = time.monotonic()


def _error(found: str, brokers: str, settings: Settings) -> HeadwaterError:
    """The error for a text such as `SaslAuthenticationException: Authentication failed`."""
    name, _, _ = found.partition(":")
    kind = kind_of_java(name)
    if kind is None:
        return SettingError(
            f"Spark's Kafka clients can't be created: {found}", hint=AUTHENTICATION.hint
        )
    # Java's clients connect again and again to a listener with another protocol.
    reason = why_refused(settings.kafka) if kind is UNANSWERED else None
    if reason is not None:
        kind, found = AUTHENTICATION, f"{reason} ({found})"
    prefix = kind.prefix.format(brokers)
    return kind.error(f"{prefix}connecting from Spark: {found}", hint=kind.hint, exception=name)
