"""The security of Kafka clients: given once, derived for the Python client and for Java's.

There are three forms: the keys of `[kafka]`, properties of librdkafka (`kafka.client`) and
properties of Java's clients (`spark.kafka_options`). What a form states in its own map is used as
it is; what it does not state is taken from the keys of `[kafka]`, then from the other map.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from headwater.errors import SettingError
from headwater.settings.jaas import jaas
from headwater.settings.kafka import KafkaSettings
from headwater.settings.kafka_forms import (
    PLAIN_MODULE,
    SCRAM_MODULE,
    TOKEN_MODULE,
    Form,
    NotShared,
    Password,
    Pem,
    Token,
    of_client,
    of_java,
    of_keys,
)

# Of Headwater's jar.
LOGIN_HANDLER = "dev.headwater.kafka.TokenProviderLogin"
# Java reads private keys in PKCS#8 only.
_OTHER_KEYS = ("BEGIN RSA PRIVATE KEY", "BEGIN EC PRIVATE KEY", "BEGIN DSA PRIVATE KEY")
_PARTS = ("protocol", "mechanism", "login", "trusted", "certificate", "checks_name")


def client_properties(kafka: KafkaSettings) -> dict[str, str]:
    """The properties of the Python client: `kafka.client`, and the security derived from the
    other forms.

    Raises:
        SettingError: a part of the other form can't be used by this client.
    """
    own = of_client(kafka.client)
    return {
        **_for_client(_missing(own, of_keys(kafka), of_java(kafka.java_client))),
        **kafka.client,
    }


def java_properties(
    kafka: KafkaSettings, options: Mapping[str, str], *, files: bool = True
) -> dict[str, str]:
    """The properties of Java's clients: `options`, the value of `spark.kafka_options`, and the
    security derived from the other forms. Executors may not have the files, so they are read here.

    Args:
        files: include certificates and keys.

    Raises:
        SettingError: a file can't be read or used by Java.
    """
    own = of_java(options)
    missing = _missing(own, of_keys(kafka), of_client(kafka.client))
    if not files:
        missing = replace(missing, trusted=None, certificate=None)
    return {**_for_java(missing, own.mechanism), **options}


def token_provider(kafka: KafkaSettings) -> str | None:
    """The provider of tokens for the Python client; None if it logs in otherwise."""
    if of_client(kafka.client).login is not None:
        return None
    return kafka.token_provider


def check_security(kafka: KafkaSettings) -> None:
    """Refuse settings that contradict each other, or are not complete.

    Raises:
        SettingError: names the settings.
    """
    forms = (of_keys(kafka), of_client(kafka.client), of_java(kafka.java_client))
    for one, other in combinations(forms, 2):
        if one.protocol and other.protocol and one.protocol != other.protocol:
            raise _contradiction("protocol", one, one.protocol, other, other.protocol)
        if isinstance(one.login, Password) and isinstance(other.login, Password):
            if one.login.user != other.login.user:
                raise _contradiction("user", one, one.login.user, other, other.login.user)
    _check_complete(kafka, _missing(Form(""), *forms))


def _check_complete(kafka: KafkaSettings, stated: Form) -> None:
    for given, needed in (
        ("username", "password"),
        ("password", "username"),
        ("certificate_file", "key_file"),
        ("key_file", "certificate_file"),
    ):
        if getattr(kafka, given) is not None and getattr(kafka, needed) is None:
            raise SettingError(f"kafka.{given} is set, kafka.{needed} is not", hint=_set(needed))
    if kafka.username is not None and kafka.token_provider is not None:
        raise SettingError(
            "kafka.username and kafka.token_provider are both set",
            hint="remove one of them: a client logs in with a password or with a token",
        )
    if kafka.username is not None and stated.mechanism is None:
        raise SettingError(
            "kafka.username is set, kafka.sasl_mechanism is not",
            hint=f"{_set('sasl_mechanism')} to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
        )
    protocol = stated.protocol or ""
    if kafka.username is not None and protocol in {"PLAINTEXT", "SSL"}:
        raise SettingError(
            f"kafka.username is set, but with security protocol {protocol} it is not sent",
            hint=f"{_set('security_protocol')} to SASL_SSL, or remove the user and the password",
        )


def _set(key: str) -> str:
    return f"set HEADWATER_KAFKA__{key.upper()}"


def _contradiction(what: str, one: Form, value: str, other: Form, other_value: str) -> SettingError:
    return SettingError(
        f"two settings of Kafka contradict each other: {what} {value!r} in {one.setting}, "
        f"{other_value!r} in {other.setting}",
        hint="give the security of Kafka once: the other form is derived",
        settings=[one.setting, other.setting],
    )


def _missing(own: Form, *others: Form) -> Form:
    """What `own` does not state, from the first of the others that does."""
    parts: dict[str, Any] = {}
    for name in _PARTS:
        stated = [each.part(name) for each in others if each.part(name) is not None]
        if own.part(name) is None and stated:
            usable = [each for each in stated if not isinstance(each, NotShared)]
            parts[name] = (usable or stated)[0]
    return Form("", **parts)


def _for_client(form: Form) -> dict[str, str]:
    properties = _protocol(form)
    login, trusted, certificate = map(_usable, (form.login, form.trusted, form.certificate))
    if isinstance(login, Password):
        properties |= {"sasl.username": login.user, "sasl.password": login.password}
    if trusted is not None:
        properties |= _at("ssl.ca", trusted)
    if certificate is not None:
        properties |= _at("ssl.certificate", certificate.chain) | _at("ssl.key", certificate.key)
        if certificate.key_password is not None:
            properties["ssl.key.password"] = certificate.key_password
    if form.checks_name is not None:
        value = "https" if form.checks_name else "none"
        properties["ssl.endpoint.identification.algorithm"] = value
    return properties


def _for_java(form: Form, mechanism: str | None) -> dict[str, str]:
    properties = _protocol(form)
    login, trusted, certificate = map(_usable, (form.login, form.trusted, form.certificate))
    if isinstance(login, Password):
        plain = (mechanism or form.mechanism) == "PLAIN"
        module = PLAIN_MODULE if plain else SCRAM_MODULE
        options = {"username": login.user, "password": login.password}
        properties["sasl.jaas.config"] = jaas(module, **options)
    if isinstance(login, Token):
        options = {"provider": login.provider, "python": sys.executable}
        properties["sasl.jaas.config"] = jaas(TOKEN_MODULE, **options)
        properties["sasl.login.callback.handler.class"] = LOGIN_HANDLER
    if trusted is not None:
        properties["ssl.truststore.type"] = "PEM"
        properties["ssl.truststore.certificates"] = _text(trusted)
    if certificate is not None:
        properties["ssl.keystore.type"] = "PEM"
        properties["ssl.keystore.certificate.chain"] = _text(certificate.chain)
        properties["ssl.keystore.key"] = _key_text(certificate.key)
        if certificate.key_password is not None:
            properties["ssl.key.password"] = certificate.key_password
    if form.checks_name is not None:
        value = "https" if form.checks_name else ""
        properties["ssl.endpoint.identification.algorithm"] = value
    return properties


def _protocol(form: Form) -> dict[str, str]:
    stated = {"security.protocol": form.protocol, "sasl.mechanism": form.mechanism}
    return {name: value for name, value in stated.items() if value is not None}


def _usable(part: Any) -> Any:
    if isinstance(part, NotShared):
        raise SettingError(f"{part.why}, which only its own kind of client can use", hint=part.hint)
    return part


def _text(pem: Pem) -> str:
    if pem.path is None:
        return pem.text or ""
    try:
        return Path(pem.path).read_text("ascii", "replace")
    except OSError as error:
        raise SettingError(
            f"the certificate or key {pem.path} can't be read: {error.strerror}",
            hint="check HEADWATER_KAFKA__CA_FILE, HEADWATER_KAFKA__CERTIFICATE_FILE and "
            "HEADWATER_KAFKA__KEY_FILE, or ssl.* in HEADWATER_KAFKA__CLIENT: each is one PEM file",
        ) from None


def _key_text(key: Pem) -> str:
    text = _text(key)
    if any(kind in text for kind in _OTHER_KEYS):
        raise SettingError(
            f"the key {key.path or 'in ssl.key.pem'} is not in PKCS#8, which Java's clients need",
            hint="convert it with `openssl pkcs8 -topk8 -in KEY -out NEW` (without a password: "
            "-nocrypt), and set HEADWATER_KAFKA__KEY_FILE",
        )
    return text


def _at(prefix: str, pem: Pem) -> dict[str, str]:
    return {f"{prefix}.location": pem.path} if pem.path else {f"{prefix}.pem": pem.text or ""}
