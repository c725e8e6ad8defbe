"""The configuration of Kafka clients, and the errors that they become; no broker is needed."""

from __future__ import annotations

import time
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnavailableError,
    InputError,
    TopicNotFoundError,
)
from headwater.kafka.client import (
    client_config,
    cluster_of,
    from_kafka_error,
    kafka_errors,
)
from headwater.kafka.connection import record_error
from headwater.kafka.errors import Access, principal_of
from headwater.kafka.producer import RecordProducer
from headwater.settings import broker_addresses
from headwater.settings.kafka import KafkaSettings


def test_clients_use_the_configured_brokers_or_else_the_local_one() -> None:
    assert broker_addresses(KafkaSettings(port=19092)) == "localhost:19092"
    assert broker_addresses(KafkaSettings(bootstrap_servers="a:9092,b:9092")) == "a:9092,b:9092"


def test_the_users_client_properties_win_over_a_clients_own() -> None:
    settings = KafkaSettings(client={"linger.ms": "0", "security.protocol": "SSL"})
    config = client_config(settings, **{"linger.ms": 20, "acks": "all"})
    assert config["linger.ms"] == "0"
    assert config["acks"] == "all"
    assert config["security.protocol"] == "SSL"
    assert config["bootstrap.servers"] == "localhost:9092"


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT])
def test_an_unreachable_broker_is_named_with_the_settings_to_change(code: int) -> None:
    settings = KafkaSettings(bootstrap_servers="nowhere:9092")
    error = from_kafka_error(KafkaError(code), settings, "listing topics")
    assert isinstance(error, BrokerUnavailableError)
    assert "nowhere:9092" in error.message
    assert "listing topics" in error.message
    assert "KAFKA_BOOTSTRAP_SERVERS" in (error.hint or "")
    assert "HEADWATER_KAFKA__TIMEOUT_SECONDS" in (error.hint or "")
    assert error.exit_code == 3


def test_an_unknown_topic_and_a_refused_request_are_different_errors() -> None:
    unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert isinstance(from_kafka_error(unknown, KafkaSettings(), "x"), TopicNotFoundError)
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    error = from_kafka_error(refused, KafkaSettings(), "describing topic 'a'")
    assert isinstance(error, AuthorizationError)
    assert "describing topic 'a'" in error.message


def test_the_hint_of_a_missing_permission_is_the_command_that_adds_it() -> None:
    settings = KafkaSettings(client={"security.protocol": "SASL_SSL", "sasl.username": "ann"})
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    error = from_kafka_error(refused, settings, "creating", Access("Create", "topic", "visits"))
    assert error.hint == (
        "User:ann needs Create on the topic 'visits': `headwater kafka acls --add "
        "--allow-principal User:ann --operation Create --topic visits`"
    )


@pytest.mark.parametrize(
    ("properties", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security.protocol": "plaintext"}, "User:ANONYMOUS"),
        ({"security.protocol": "SASL_SSL", "sasl.username": "ann"}, "User:ann"),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": 'x username="ann";'}, "User:ann"),
        ({"security.protocol": "SSL"}, None),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": "x required;"}, None),
    ],
)
def test_the_principal_is_known_unless_the_broker_derives_it(
    properties: dict[str, str], principal: str | None
) -> None:
    assert principal_of(properties) == principal


def test_a_timeout_of_a_client_that_can_not_log_in_is_an_error_of_authentication() -> None:
    settings = KafkaSettings(bootstrap_servers="refusing:9092")
    timeout = KafkaError(KafkaError._TIMED_OUT)
    record = partial(record_error, cluster_of(settings))
    record(KafkaError(KafkaError._AUTHENTICATION, "Invalid username or password"))
    record(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    error = from_kafka_error(timeout, settings, "listing topics")
    assert isinstance(error, AuthenticationError)
    assert error.message == (
        "Kafka at refusing:9092 does not accept the client: listing topics: "
        "Invalid username or password"
    )
    assert "HEADWATER_KAFKA__CLIENT" in (error.hint or "")
    # Of other clients nothing is known.
    other = from_kafka_error(timeout, KafkaSettings(bootstrap_servers="other:9092"), "listing")
    assert isinstance(other, BrokerUnavailableError)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (KafkaError._TRANSPORT, "Connection refused"),
        # A broker that stopped during a handshake.
        (KafkaError._SSL, "SSL handshake failed: Disconnected"),
    ],
)
def test_a_timeout_states_why_there_is_no_connection(code: int, text: str) -> None:
    settings = KafkaSettings(bootstrap_servers=f"stopped{code}:9092")
    record_error(cluster_of(settings), KafkaError(code, text))
    error = from_kafka_error(KafkaError(KafkaError._TIMED_OUT), settings, "listing topics")
    assert isinstance(error, BrokerUnavailableError)
    assert error.message.endswith(f"did not respond: listing topics: Local: Timed out ({text})")


def test_an_old_error_of_a_connection_is_not_the_reason_of_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = KafkaSettings(bootstrap_servers="recovered:9092", timeout_seconds=30)
    record_error(cluster_of(settings), KafkaError(KafkaError._AUTHENTICATION))
    timeout, later = KafkaError(KafkaError._TIMED_OUT), time.monotonic() + 36
    assert isinstance(from_kafka_error(timeout, settings, "asking"), AuthenticationError)
    monkeypatch.setattr("headwater.kafka.connection.time.monotonic", lambda: later)
    assert isinstance(from_kafka_error(timeout, settings, "asking"), BrokerUnavailableError)


def test_exceptions_of_the_client_are_translated_and_others_pass() -> None:
    with pytest.raises(TopicNotFoundError), kafka_errors(KafkaSettings(), "reading"):
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
    with pytest.raises(ValueError, match="not Kafka's"), kafka_errors(KafkaSettings(), "reading"):
        raise ValueError("not Kafka's")


def test_a_property_that_the_client_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"no\.such\.property"):
        RecordProducer(KafkaSettings(client={"no.such.property": "1"}))
