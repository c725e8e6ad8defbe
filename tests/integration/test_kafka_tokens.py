"""Clients that log in with tokens of the user's own function, on a broker with OAUTHBEARER."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql import SparkSession
from tests.secured_broker import USER, SecuredBroker
from tests.unsecured_tokens import CALLS

from headwater.errors import AuthenticationError, HeadwaterError, SettingError
from headwater.job import LineageJob
from headwater.kafka import RecordProducer, create_topic, list_topics, read_topic
from headwater.settings import Settings
from headwater.settings.kafka_security import java_properties
from headwater.spark.connection_check import check_connection

pytestmark = pytest.mark.kafka

TESTS = Path(__file__).parents[1]


def with_tokens(broker: SecuredBroker, function: str = "unsecured_tokens:token") -> Settings:
    return broker.settings(
        "TOKENS", security_protocol="SASL_PLAINTEXT", token_provider=function, timeout_seconds=20
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The provider as a module on the path."""
    monkeypatch.setattr(sys, "path", [str(TESTS), *sys.path])
    monkeypatch.setenv(CALLS, str(tmp_path / "calls"))
    return tmp_path / "calls"


def test_the_python_client_logs_in_with_tokens_of_the_function(
    secured: SecuredBroker, calls: Path
) -> None:
    create_topic("tokens", 1, secured.admin.kafka)
    secured.allow(USER, AclOperation.ALL, "tokens")
    settings = with_tokens(secured)
    assert "tokens" in [topic.name for topic in list_topics(settings.kafka)]
    with RecordProducer(settings.kafka) as producer:
        producer.send("tokens", b"value")
    assert [record.value for record in read_topic("tokens", settings.kafka)] == [b"value"]
    # An admin client, a producer and a consumer.
    assert calls.read_text().count("called") >= 3


def test_a_function_that_fails_is_the_reason_within_seconds(
    secured: SecuredBroker, calls: Path
) -> None:
    with pytest.raises(AuthenticationError) as caught:
        list_topics(with_tokens(secured, "unsecured_tokens:failing").kafka)
    assert "RuntimeError: the identity provider is down" in caught.value.message
    with pytest.raises(SettingError, match="can't be imported"):
        list_topics(with_tokens(secured, "no_such_module:token").kafka)


@pytest.mark.spark
def test_a_job_logs_in_with_tokens_of_the_function_in_local_mode(
    secured: SecuredBroker, calls: Path, spark: SparkSession, tmp_path: Path
) -> None:
    for topic in ("token-in", "token-out", "token-out-dead-letter"):
        create_topic(topic, 1, secured.admin.kafka)
        secured.allow(USER, AclOperation.ALL, topic)
    settings = with_tokens(secured)
    with RecordProducer(secured.admin.kafka) as producer:
        producer.send("token-in", b"value")
    # The JVM that runs has its own environment: the module is found by the PYTHONPATH of a wrapper.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={TESTS} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    java = java_properties(settings.kafka, {})
    jaas = java["sasl.jaas.config"].replace(sys.executable, str(python))
    spark_settings = settings.spark.model_copy(
        update={"kafka_options": {**java, "sasl.jaas.config": jaas}}
    )
    settings = settings.model_copy(update={"spark": spark_settings})
    job = LineageJob("tokens", settings=settings, checkpoint=tmp_path / "c", delivery="idempotent")
    job.write(job.read("token-in"), "token-out", trigger={"availableNow": True})
    assert [record.value for record in read_topic("token-out", settings.kafka)] == [b"value"]
    wrong = {
        **{f"kafka.{name}": value for name, value in java.items()},
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "kafka.sasl.jaas.config": jaas.replace(":token", ":failing"),
    }
    with pytest.raises(HeadwaterError, match="the identity provider is down"):
        check_connection(wrong, settings)
