"""One form of security for both clients, and the reason why a cluster refuses a client."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql import SparkSession
from tests.certificates import CertificateAuthority
from tests.secured_broker import PASSWORD, USER, SecuredBroker
from tests.support import Headwater

from headwater.errors import (
    AuthenticationError,
    AuthorizationError,
    HeadwaterError,
    SettingError,
)
from headwater.job import LineageJob
from headwater.jvm.installed import find_java
from headwater.kafka import RecordProducer, create_topic, find_topics, list_topics, read_topic
from headwater.settings import Settings
from headwater.settings.kafka_security import client_properties, java_properties
from headwater.spark.connection_check import check_connection

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def topic(secured: SecuredBroker) -> str:
    create_topic("open", 1, secured.admin.kafka)
    secured.allow(USER, AclOperation.ALL, "open")
    return "open"


def forms(secured: SecuredBroker) -> dict[str, Settings]:
    """The same login in the three forms."""
    keys = secured.login()
    client = client_properties(keys.kafka)
    java = java_properties(keys.kafka, {})
    return {
        "keys": keys,
        "librdkafka": secured.settings(client=client),
        "Java": secured.settings(java=java),
        "both": secured.settings(client=client, java=java),
    }


@pytest.mark.parametrize("form", ["keys", "librdkafka", "Java", "both"])
def test_the_python_client_logs_in_with_each_form(
    form: str, secured: SecuredBroker, topic: str
) -> None:
    assert find_topics([topic], forms(secured)[form].kafka)


@pytest.mark.spark
@pytest.mark.parametrize("form", ["keys", "librdkafka", "Java", "both"])
def test_sparks_clients_log_in_with_each_form(
    form: str, secured: SecuredBroker, spark: SparkSession
) -> None:
    check_connection(_options(forms(secured)[form]), secured.admin)


def _options(settings: Settings) -> dict[str, str]:
    properties = java_properties(settings.kafka, settings.spark.kafka_options)
    named = {f"kafka.{name}": value for name, value in properties.items()}
    return {"kafka.bootstrap.servers": settings.bootstrap_servers, **named}


def mutual(secured: SecuredBroker, name: str, **issue: Any) -> Settings:
    certificate, key = secured.authority.issue(name, **issue)
    password = issue.get("password")
    return secured.settings(
        "MUTUAL",
        ca_file=secured.authority.file,
        certificate_file=certificate,
        key_file=key,
        **({"key_password": password} if password else {}),
    )


@pytest.mark.spark
def test_both_clients_log_in_with_a_certificate(
    secured: SecuredBroker, topic: str, spark: SparkSession
) -> None:
    settings = mutual(secured, USER)
    assert find_topics([topic], settings.kafka)
    check_connection(_options(settings), settings)


@pytest.mark.spark
def test_a_key_with_a_password_has_an_encryption_that_java_can_read(
    secured: SecuredBroker, topic: str, spark: SparkSession
) -> None:
    settings = mutual(secured, USER, password="geheim")
    assert find_topics([topic], settings.kafka)
    # Java 17 has no PBES2, the default of OpenSSL.
    too_old = find_java(settings).major < 21
    with pytest.raises(SettingError, match="PBES2") if too_old else nullcontext():
        check_connection(_options(settings), settings)
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl")
    key, readable = settings.kafka.key_file, secured.admin.home_dir / "readable.key"
    convert = ["-in", str(key), "-passin", "pass:geheim", "-passout", "pass:geheim"]
    convert = ["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", *convert, "-out", str(readable)]
    subprocess.run([openssl, *convert], check=True, timeout=30)
    kafka = settings.kafka.model_copy(update={"key_file": readable})
    settings = settings.model_copy(update={"kafka": kafka})
    assert find_topics([topic], settings.kafka)
    check_connection(_options(settings), settings)


# What is wrong, and the reason that is given by the Python client and by Spark's.
Refusal = Callable[[SecuredBroker, Path], Settings]
REFUSALS: dict[str, tuple[Refusal, str, str]] = {
    "a wrong password": (
        lambda broker, _: broker.login(password="wrong"),
        "invalid credentials with SASL mechanism SCRAM-SHA-512",
        "SaslAuthenticationException: Authentication failed during authentication due to invalid",
    ),
    "another mechanism": (
        lambda broker, _: broker.login(sasl_mechanism="PLAIN"),
        "the listener has the SASL mechanisms SCRAM-SHA-512, SCRAM-SHA-256, not PLAIN",
        "UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' not enabled",
    ),
    "an expired certificate": (
        lambda broker, _: broker.login(bootstrap_servers=broker.address("EXPIRED")),
        "the certificate of the broker is not accepted: certificate has expired",
        "CertificateExpiredException: NotAfter: ",
    ),
    "an unknown CA": (
        lambda broker, folder: broker.login(ca_file=CertificateAuthority(folder, "other").file),
        "the certificate of the broker is not accepted: ",
        "PKIX path building failed",
    ),
    "no certificate of the client": (
        lambda broker, _: broker.settings("MUTUAL", ca_file=broker.authority.file),
        "the broker does not accept a client without a certificate: ",
        "SslAuthenticationException",
    ),
    "an expired certificate of the client": (
        lambda broker, _: mutual(broker, "late", expired=True),
        "the broker does not accept the certificate of the client: ",
        "SslAuthenticationException",
    ),
    "TLS is expected": (
        lambda broker, _: broker.login(security_protocol="SASL_PLAINTEXT"),
        "the listener expects TLS, but the security protocol is SASL_PLAINTEXT",
        "the listener expects TLS, but the security protocol is SASL_PLAINTEXT (TimeoutException",
    ),
    "TLS is not expected": (
        lambda broker, _: broker.login(bootstrap_servers=broker.admin.bootstrap_servers),
        "the listener does not use TLS, but the security protocol is SASL_SSL",
        "the listener does not use TLS, but the security protocol is SASL_SSL",
    ),
    "a login is expected": (
        lambda broker, _: broker.settings(ca_file=broker.authority.file),
        "the listener requires a login (SCRAM-SHA-512, SCRAM-SHA-256), but the security protocol "
        "is SSL",
        "the listener requires a login",
    ),
    "no security at all": (
        lambda broker, _: broker.settings(),
        "the listener expects TLS, but the security protocol is PLAINTEXT",
        "",
    ),
}


def refused(function: Callable[..., Any], *arguments: Any) -> tuple[HeadwaterError, float]:
    began = time.monotonic()
    with pytest.raises(HeadwaterError) as caught:
        function(*arguments)
    return caught.value, time.monotonic() - began


@pytest.mark.parametrize("what", REFUSALS)
def test_the_reason_is_given_within_seconds_and_not_after_the_timeout(
    what: str, secured: SecuredBroker, tmp_path: Path
) -> None:
    make, reason, _ = REFUSALS[what]
    settings = make(secured, tmp_path)
    error, seconds = refused(list_topics, settings.kafka)
    assert isinstance(error, AuthenticationError)
    assert reason in error.message
    assert "\n" not in error.message
    assert "HEADWATER_KAFKA__SECURITY_PROTOCOL" in (error.hint or "")
    assert error.exit_code == 4
    assert seconds < settings.kafka.timeout_seconds / 2


def test_a_producer_gives_the_reason_too(secured: SecuredBroker) -> None:
    def send() -> None:
        with RecordProducer(secured.settings().kafka) as producer:
            producer.send("open", b"x")

    error, seconds = refused(send)
    assert "the listener expects TLS" in error.message
    assert error.exit_code == 4
    assert seconds < 15


@pytest.mark.parametrize("seconds", [0.0, 2.0])
def test_a_producer_that_may_not_write_names_the_permission(
    seconds: float, secured: SecuredBroker
) -> None:
    if not find_topics(["readable"], secured.admin.kafka):
        create_topic("readable", 1, secured.admin.kafka)
    # Of a principal that may write to no topic at all, the broker refuses the producer.
    secured.add_user("reader")
    secured.allow("reader", AclOperation.READ, "readable")

    def send() -> None:
        with RecordProducer(secured.login("reader").kafka) as producer:
            producer.send("readable", b"x")
            # The producer is refused during a flush, or before the next record.
            time.sleep(seconds)
            producer.send("readable", b"x")

    error, _ = refused(send)
    assert isinstance(error, AuthorizationError)
    assert "User:reader needs Write on the topic 'readable'" in (error.hint or "")


@pytest.mark.spark
@pytest.mark.parametrize("what", [what for what, (_, _, java) in REFUSALS.items() if java])
def test_sparks_clients_give_the_reason_in_one_line_before_a_query_starts(
    what: str, secured: SecuredBroker, tmp_path: Path, spark: SparkSession
) -> None:
    make, _, reason = REFUSALS[what]
    settings = make(secured, tmp_path)
    bounded = settings.kafka.model_copy(update={"timeout_seconds": 5.0})
    settings = settings.model_copy(update={"kafka": bounded})
    error, seconds = refused(check_connection, _options(settings), settings)
    assert isinstance(error, AuthenticationError)
    assert reason in error.message
    assert "\n" not in error.message
    assert "HEADWATER_KAFKA__SECURITY_PROTOCOL" in (error.hint or "")
    assert seconds < 20


@pytest.mark.spark
def test_a_job_with_librdkafkas_form_alone_runs_and_its_plan_has_no_password(
    secured: SecuredBroker, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    settings = forms(secured)["librdkafka"]
    with RecordProducer(settings.kafka) as producer:
        producer.send(topic, b"value", b"key")
    job = LineageJob("copy", settings=settings, checkpoint=tmp_path / "c", delivery="idempotent")
    secured.allow(USER, AclOperation.ALL, "copied")
    secured.allow(USER, AclOperation.ALL, "copied-dead-letter")
    rows = job.read(topic)
    query = job.start(rows, "copied", trigger={"availableNow": True})
    query.wait()
    assert [each.value for each in read_topic("copied", settings.kafka)] == [b"value"]
    assert query._query is not None
    plan = query._query._jsq.explainInternal(True)
    assert "kafka.sasl.jaas.config" in plan
    assert "quoted" not in plan


def test_kafkas_own_tools_log_in_without_a_password_in_their_arguments(
    secured: SecuredBroker, topic: str, headwater: Headwater
) -> None:
    variables = {
        "KAFKA_BOOTSTRAP_SERVERS": secured.address("SECURED"),
        "HEADWATER_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
        "HEADWATER_KAFKA__USERNAME": USER,
        "HEADWATER_KAFKA__PASSWORD": PASSWORD,
        "HEADWATER_KAFKA__CA_FILE": str(secured.authority.file),
    }
    listed = headwater("kafka", "topics", "--list", settings=secured.admin, **variables)
    assert topic in listed.stdout.split(), listed.stderr
    wrong = {**variables, "HEADWATER_KAFKA__PASSWORD": "wrong"}
    listed = headwater("kafka", "topics", "--list", settings=secured.admin, **wrong)
    assert "SaslAuthenticationException" in listed.stdout + listed.stderr
