"""Why a listener does not accept a client: compares the client's security with the listener's.

The client library reports a wrong protocol as a closed connection, and a certificate that it does
not accept without the reason. This opens another connection and asks.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from headwater.settings import broker_addresses
from headwater.settings.kafka import KafkaSettings
from headwater.settings.kafka_security import client_properties

# Of one connection; there are at most three.
_SECONDS = 3.0
_SASL_HANDSHAKE = 17
_NO_MECHANISM = 33  # UNSUPPORTED_SASL_MECHANISM: the listener has others
_NO_LOGIN = 34  # ILLEGAL_SASL_STATE: the listener has none
_LONGEST_RESPONSE = 10_000


@dataclass(frozen=True, slots=True)
class _Listener:
    """What a listener requires; mechanisms are empty if it has no login."""

    tls: bool
    mechanisms: tuple[str, ...]


def why_refused(settings: KafkaSettings) -> str | None:
    """Why the first broker that can be reached does not accept the client, in one line.

    Returns:
        None if there is no connection, or no reason is found.
    """
    properties = client_properties(settings)
    for address in broker_addresses(settings).split(","):
        host, _, port = address.strip().rpartition(":")
        if not port.isdigit():
            continue
        try:
            return _compare(host.strip("[]"), int(port), properties)
        except (OSError, ValueError, struct.error):
            continue
    return None


def _compare(host: str, port: int, properties: Mapping[str, str]) -> str | None:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    tls, sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    listener = _examine(host, port)
    if listener is None:
        # The listener requires a certificate.
        return _why_no_handshake(host, port, properties) if tls else _other_tls(True, protocol)
    if listener.tls != tls:
        return _other_tls(listener.tls, protocol)
    if tls and (reason := _why_no_handshake(host, port, properties)):
        return reason
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "")
    if sasl and not listener.mechanisms:
        return f"the listener has no login, but the security protocol is {protocol}"
    known = ", ".join(listener.mechanisms)
    if listener.mechanisms and not sasl:
        return f"the listener requires a login ({known}), but the security protocol is {protocol}"
    if sasl and mechanism.upper() not in listener.mechanisms:
        return f"the listener has the SASL mechanisms {known}, not {mechanism}"
    return None


def _other_tls(encrypted: bool, protocol: str) -> str:
    expects = "expects TLS" if encrypted else "does not use TLS"
    return f"the listener {expects}, but the security protocol is {protocol}"


def _examine(host: str, port: int) -> _Listener | None:
    """What the listener requires; None if it is one with TLS that does not respond to a client
    without a certificate."""
    try:
        with socket.create_connection((host, port), _SECONDS) as plain:
            return _Listener(False, _mechanisms(plain))
    except (ValueError, ConnectionError):
        pass
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing secret is sent: the certificate is checked by `_why_no_handshake`.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _encrypted(host, port, context) as connection:
            return _Listener(True, _mechanisms(connection))
    except (ssl.SSLError, ValueError, ConnectionError):
        return None


def _why_no_handshake(host: str, port: int, properties: Mapping[str, str]) -> str | None:
    try:
        context = _context(properties)
    except (OSError, ssl.SSLError) as error:
        return f"the certificates can't be loaded: {error.strerror or error}"
    try:
        with _encrypted(host, port, context) as connection:
            # With TLS 1.3 a certificate of the client is refused after the handshake.
            _mechanisms(connection)
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of the broker is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        reason = (error.reason or "").lower().replace("_", " ")
        own = "ssl.certificate.location" in properties or "ssl.certificate.pem" in properties
        what = "the certificate of the client" if own else "a client without a certificate"
        return f"the broker does not accept {what}: {reason}"
    except (ValueError, ConnectionError):
        return None
    return None


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem")
    )
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https")
    context.check_hostname = algorithm.lower() == "https"
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate = properties.get("ssl.certificate.location")
    if certificate is not None:
        key, password = properties.get("ssl.key.location"), properties.get("ssl.key.password")
        context.load_cert_chain(certificate, key, password)
    return context


@contextmanager
def _encrypted(host: str, port: int, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with socket.create_connection((host, port), _SECONDS) as plain:
        with context.wrap_socket(plain, server_hostname=host) as encrypted:
            yield encrypted


def _mechanisms(connection: socket.socket) -> tuple[str, ...]:
    """The mechanisms by which clients log in; none if they do not.

    Requests a mechanism without a name: the response lists those that exist.

    Raises:
        ValueError: it is not a response of Kafka.
    """
    # Key and version of the request, its id, no client id, and the mechanism.
    request = struct.pack(">hhihh", _SASL_HANDSHAKE, 1, 1, -1, 0)
    connection.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    if not 10 <= length <= _LONGEST_RESPONSE:
        raise ValueError("not a response of Kafka")
    response = _exactly(connection, length)
    correlation, code, count = struct.unpack_from(">ihi", response)
    if correlation != 1 or code not in {_NO_MECHANISM, _NO_LOGIN}:
        raise ValueError("not a response of Kafka")
    names, place = [], 10
    for _ in range(max(count, 0)):
        (size,) = struct.unpack_from(">h", response, place)
        names.append(response[place + 2 : place + 2 + size].decode("ascii", "replace"))
        place += 2 + size
    return tuple(names)


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise ConnectionResetError
        received += part
    return received
