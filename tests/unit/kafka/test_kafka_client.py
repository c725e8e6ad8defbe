"""The configuration of Kafka clients, and the errors that they become; no broker is needed."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater.errors import BrokerUnavailableError, InputError, TopicNotFoundError
from headwater.kafka.client import client_config, from_kafka_error, kafka_errors
from headwater.kafka.producer import RecordProducer
from headwater.settings import broker_addresses
from headwater.settings.sections import KafkaSettings


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
    assert isinstance(error, InputError)
    assert "describing topic 'a'" in error.message


def test_exceptions_of_the_client_are_translated_and_others_pass() -> None:
    with pytest.raises(TopicNotFoundError), kafka_errors(KafkaSettings(), "reading"):
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
    with pytest.raises(ValueError, match="not Kafka's"), kafka_errors(KafkaSettings(), "reading"):
        raise ValueError("not Kafka's")


def test_a_property_that_the_client_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"no\.such\.property"):
        RecordProducer(KafkaSettings(client={"no.such.property": "1"}))
