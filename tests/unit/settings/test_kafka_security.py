"""The security of Kafka clients is given once, in one of three forms, and derived for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SettingError
from headwater.settings import Settings
from headwater.settings.jaas import jaas, parse_jaas
from headwater.settings.kafka_security import client_properties, java_properties

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = 'a"b\\c;d'
CLIENT = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": PASSWORD,
}
JAVA = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} required username="ann" password="a\\"b\\\\c;d";',
}
KEYS: dict[str, Any] = {"sasl_mechanism": "SCRAM-SHA-512", "username": "ann", "password": PASSWORD}


def settings(java: dict[str, str] | None = None, **kafka: Any) -> Settings:
    return Settings.model_validate({"kafka": kafka, "spark": {"kafka_options": java or {}}})


def client(java: dict[str, str] | None = None, **kafka: Any) -> dict[str, str]:
    return client_properties(settings(java, **kafka).kafka)


def java(options: dict[str, str] | None = None, **kafka: Any) -> dict[str, str]:
    return java_properties(settings(options, **kafka).kafka, options or {})


@pytest.mark.parametrize("form", [{"java": JAVA}, {"client": CLIENT}, KEYS])
def test_each_form_of_a_password_gives_the_same_properties_to_both_clients(
    form: dict[str, Any],
) -> None:
    assert client(**form) == CLIENT
    options = form.pop("java", None)
    assert java(options, **form) == JAVA


def test_without_security_nothing_is_added() -> None:
    assert client() == java() == {}
    assert client(client={"linger.ms": "5"}) == {"linger.ms": "5"}
    assert java({"max.request.size": "5"}, client={"linger.ms": "5"}) == {"max.request.size": "5"}


def test_credentials_without_a_protocol_are_sent_over_tls_only() -> None:
    assert client(**KEYS)["security.protocol"] == "SASL_SSL"
    assert client(ca_file="ca.pem")["security.protocol"] == "SSL"
    chosen = client(security_protocol="SASL_PLAINTEXT", **KEYS)
    assert chosen["security.protocol"] == "SASL_PLAINTEXT"


def test_files_are_named_to_the_python_client_and_read_for_java(tmp_path: Path) -> None:
    files = {}
    for name in ("ca", "certificate", "key"):
        files[name] = tmp_path / f"{name}.pem"
        files[name].write_text(f"-----BEGIN {name}-----\n")
    keys = {f"{name}_file": file for name, file in files.items()}
    properties = java(None, **keys, key_password="geheim")
    assert properties == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "-----BEGIN ca-----\n",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-----BEGIN certificate-----\n",
        "ssl.keystore.key": "-----BEGIN key-----\n",
        "ssl.key.password": "geheim",
    }
    named = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(files["ca"]),
        "ssl.certificate.location": str(files["certificate"]),
        "ssl.key.location": str(files["key"]),
        "ssl.key.password": "geheim",
    }
    assert client(None, **keys, key_password="geheim") == named
    # From librdkafka's names the same follows for Java, and back.
    assert java(None, client=named) == properties
    assert client(properties)["ssl.ca.pem"] == "-----BEGIN ca-----\n"
    one_file = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "both.pem"}
    assert client(one_file)["ssl.key.location"] == "both.pem"


def test_what_a_map_states_wins_over_the_keys() -> None:
    own = {"sasl.mechanism": "PLAIN", "ssl.ca.location": "own.pem"}
    properties = client(None, client=own, ca_file="ca.pem", **KEYS)
    assert properties["sasl.mechanism"] == "PLAIN"
    assert properties["ssl.ca.location"] == "own.pem"
    assert properties["sasl.username"] == "ann"
    # The login module follows the mechanism.
    assert java({"sasl.mechanism": "PLAIN"}, **KEYS)["sasl.jaas.config"].startswith(PLAIN)


@pytest.mark.parametrize(
    ("options", "kafka", "names"),
    [
        (
            JAVA,
            {"client": {**CLIENT, "sasl.username": "bob"}},
            ["kafka.client", "spark.kafka_options"],
        ),
        (None, {"client": {**CLIENT, "sasl.username": "bob"}, **KEYS}, ["[kafka]", "kafka.client"]),
        (JAVA, {**KEYS, "username": "bob"}, ["[kafka]", "spark.kafka_options"]),
        (JAVA, {"security_protocol": "SSL"}, ["[kafka]", "spark.kafka_options"]),
    ],
)
def test_forms_that_contradict_each_other_are_refused_with_both_names(
    options: dict[str, str] | None, kafka: dict[str, Any], names: list[str]
) -> None:
    with pytest.raises(SettingError) as caught:
        settings(options, **kafka)
    assert caught.value.attributes["settings"] == names
    assert all(name in caught.value.message for name in names)
    assert PASSWORD not in caught.value.message


@pytest.mark.parametrize(
    ("kafka", "needed"),
    [
        ({"username": "ann"}, "PASSWORD"),
        ({"password": "x"}, "USERNAME"),
        ({"username": "ann", "password": "x"}, "SASL_MECHANISM"),
        ({"certificate_file": "a.pem"}, "KEY_FILE"),
        ({**KEYS, "security_protocol": "SSL"}, "SECURITY_PROTOCOL"),
    ],
)
def test_a_form_that_is_not_complete_names_what_is_missing(
    kafka: dict[str, Any], needed: str
) -> None:
    with pytest.raises(SettingError) as caught:
        settings(None, **kafka)
    assert f"HEADWATER_KAFKA__{needed}" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"ssl.truststore.location": "trust.jks"}, "HEADWATER_KAFKA__CA_FILE"),
        ({"ssl.keystore.location": "own.p12", "ssl.keystore.type": "PKCS12"}, "CERTIFICATE_FILE"),
        ({"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"}, "token"),
    ],
)
def test_what_only_java_can_use_is_refused_for_the_python_client_with_what_to_set(
    options: dict[str, str], hint: str
) -> None:
    with pytest.raises(SettingError) as caught:
        client(options)
    assert hint in (caught.value.hint or "")
    # With its own form, nothing has to be derived.
    own = {"ssl.ca.location": "a", "ssl.keystore.location": "b", "sasl.username": "c"}
    assert client(options, client={**own, "ssl.certificate.location": "d", "ssl.key.location": "e"})


def test_a_key_that_java_can_not_read_is_refused_with_the_command_that_converts_it(
    tmp_path: Path,
) -> None:
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    (tmp_path / "certificate.pem").write_text("")
    with pytest.raises(SettingError, match="PKCS#8") as caught:
        java(None, key_file=key, certificate_file=tmp_path / "certificate.pem")
    assert "openssl pkcs8 -topk8" in (caught.value.hint or "")


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(SettingError, match=r"missing\.pem can't be read"):
        java(None, ca_file="missing.pem")


@given(st.text(), st.text())
def test_every_user_and_password_is_read_from_the_line_as_it_was_written(
    user: str, password: str
) -> None:
    line = jaas("a.b.Module", username=user, password=password)
    assert parse_jaas(line) == ("a.b.Module", {"username": user, "password": password})
    assert "\n" not in line
    assert "\r" not in line


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("m required user=ann;", {"user": "ann"}),
        ("m required\n  user = 'a\\'nn'\n;", {"user": "a'nn"}),
        (r'm required p="\101\n\z";', {"p": "A\nz"}),
        ('m required p="unclosed', {"p": "unclosed"}),
        ("", {}),
    ],
)
def test_a_line_is_read_as_java_reads_it(line: str, options: dict[str, str]) -> None:
    assert parse_jaas(line)[1] == options
