"""The three forms of the security of Kafka clients, read into one: `Form`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.settings.jaas import parse_jaas
from headwater.settings.kafka import KafkaSettings

KEYS_SETTING, CLIENT_SETTING, JAVA_SETTING = "[kafka]", "kafka.client", "spark.kafka_options"

_COMMON = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_COMMON}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_COMMON}.scram.ScramLoginModule"
TOKEN_MODULE = f"{_COMMON}.oauthbearer.OAuthBearerLoginModule"


@dataclass(frozen=True)
class Pem:
    """Certificates or a key: a file, or the text itself."""

    path: str | None = None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class NotShared:
    """A part that the other kind of client can't use.

    Attributes:
        hint: the setting by which the other client gets its own.
    """

    why: str
    hint: str


@dataclass(frozen=True)
class Password:
    """A user and a password, for PLAIN and SCRAM."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Token:
    """The function that returns tokens, for OAUTHBEARER."""

    provider: str


@dataclass(frozen=True)
class Certificate:
    """The client's own certificate and its key."""

    chain: Pem
    key: Pem
    key_password: str | None = field(repr=False)


@dataclass(frozen=True)
class Form:
    """What one form states; None is not stated."""

    setting: str
    protocol: str | None = None
    mechanism: str | None = None
    login: Password | Token | NotShared | None = None
    trusted: Pem | NotShared | None = None
    certificate: Certificate | NotShared | None = None
    # Whether the name in the broker's certificate is compared with its address.
    checks_name: bool | None = None

    def part(self, name: str) -> Any:
        return getattr(self, name)


def of_keys(kafka: KafkaSettings) -> Form:
    """The keys of `[kafka]`. Without a protocol, credentials are sent over TLS only."""
    protocol, mechanism = kafka.security_protocol, kafka.sasl_mechanism
    login: Password | Token | None = None
    if kafka.username is not None and kafka.password is not None:
        login = Password(kafka.username, kafka.password.get_secret_value())
    elif kafka.token_provider is not None:
        login, mechanism = Token(kafka.token_provider), mechanism or "OAUTHBEARER"
    certificate = None
    if kafka.certificate_file is not None and kafka.key_file is not None:
        secret = kafka.key_password
        certificate = Certificate(
            _file(kafka.certificate_file),
            _file(kafka.key_file),
            None if secret is None else secret.get_secret_value(),
        )
    trusted = None if kafka.ca_file is None else _file(kafka.ca_file)
    others = {**kafka.client, **kafka.java_client}
    if protocol is None and "security.protocol" not in others:
        if login is not None:
            protocol = "SASL_SSL"
        elif trusted is not None or certificate is not None:
            protocol = "SSL"
    return Form(KEYS_SETTING, protocol, mechanism, login, trusted, certificate)


def _file(path: Path) -> Pem:
    return Pem(str(path.expanduser().absolute()))


def of_client(properties: Mapping[str, str]) -> Form:
    """Properties as librdkafka names them."""
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    login: Password | NotShared | None = None
    if "sasl.username" in properties:
        login = Password(properties["sasl.username"], properties.get("sasl.password", ""))
    elif _any(properties, "sasl.oauthbearer.", "sasl.kerberos.", "enable.sasl.oauthbearer."):
        login = NotShared(
            f"{CLIENT_SETTING} has a login that is not a user with a password",
            f"set sasl.jaas.config in {JAVA_SETTING}, or kafka.token_provider",
        )
    trusted = _pem(properties, "ssl.ca.location", "ssl.ca.pem")
    certificate: Certificate | NotShared | None = None
    chain = _pem(properties, "ssl.certificate.location", "ssl.certificate.pem")
    key = _pem(properties, "ssl.key.location", "ssl.key.pem")
    if chain is not None and key is not None:
        certificate = Certificate(chain, key, properties.get("ssl.key.password"))
    elif "ssl.keystore.location" in properties:
        certificate = NotShared(
            f"ssl.keystore.location of {CLIENT_SETTING} is a PKCS#12 file",
            f"set ssl.keystore.* in {JAVA_SETTING}, or kafka.certificate_file and kafka.key_file",
        )
    return Form(
        CLIENT_SETTING,
        _upper(properties.get("security.protocol")),
        _upper(mechanism),
        login,
        trusted,
        certificate,
        _checks_name(properties),
    )


def of_java(properties: Mapping[str, str]) -> Form:
    """Properties as Java's clients name them."""
    login: Password | NotShared | None = None
    module, options = parse_jaas(properties.get("sasl.jaas.config", ""))
    if module in {PLAIN_MODULE, SCRAM_MODULE} and "username" in options:
        login = Password(options["username"], options.get("password", ""))
    elif module or _any(properties, "sasl.login.", "sasl.client.callback", "sasl.oauthbearer."):
        login = NotShared(
            f"{JAVA_SETTING} has a login that is not a user with a password",
            f"set kafka.token_provider, or sasl.* in {CLIENT_SETTING}",
        )
    return Form(
        JAVA_SETTING,
        _upper(properties.get("security.protocol")),
        _upper(properties.get("sasl.mechanism")),
        login,
        _java_trusted(properties),
        _java_certificate(properties),
        _checks_name(properties),
    )


def _java_trusted(properties: Mapping[str, str]) -> Pem | NotShared | None:
    kind = properties.get("ssl.truststore.type", "JKS").upper()
    if (
        "ssl.truststore.location" not in properties
        and "ssl.truststore.certificates" not in properties
    ):
        return None
    if kind != "PEM":
        return NotShared(
            f"ssl.truststore.location of {JAVA_SETTING} is a {kind} file, not PEM",
            "set HEADWATER_KAFKA__CA_FILE to the same certificates as PEM",
        )
    return _pem(properties, "ssl.truststore.location", "ssl.truststore.certificates")


def _java_certificate(properties: Mapping[str, str]) -> Certificate | NotShared | None:
    kind = properties.get("ssl.keystore.type", "JKS").upper()
    password = properties.get("ssl.key.password")
    if kind == "PEM" and "ssl.keystore.location" in properties:
        # One file with the key and the certificates.
        both = Pem(properties["ssl.keystore.location"])
        return Certificate(both, both, password)
    chain = _pem(properties, "", "ssl.keystore.certificate.chain")
    key = _pem(properties, "", "ssl.keystore.key")
    if chain is not None and key is not None:
        return Certificate(chain, key, password)
    if "ssl.keystore.location" in properties:
        return NotShared(
            f"ssl.keystore.location of {JAVA_SETTING} is a {kind} file, not PEM",
            "set HEADWATER_KAFKA__CERTIFICATE_FILE and HEADWATER_KAFKA__KEY_FILE",
        )
    return None


def _pem(properties: Mapping[str, str], location: str, content: str) -> Pem | None:
    if location in properties:
        return Pem(properties[location])
    return Pem(text=properties[content]) if content in properties else None


def _checks_name(properties: Mapping[str, str]) -> bool | None:
    value = properties.get("ssl.endpoint.identification.algorithm")
    return None if value is None else value.lower() == "https"


def _any(properties: Iterable[str], *prefixes: str) -> bool:
    return any(name.startswith(prefixes) for name in properties)


def _upper(value: str | None) -> str | None:
    return None if value is None else value.strip().upper()
