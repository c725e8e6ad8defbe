"""Sends events to the catalog over HTTP. Every phase is bounded; redirects are not followed.

Works with Headwater's service and with Marquez: `POST /api/v1/lineage`.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from headwater.errors import SettingError
from headwater.openlineage.events import VERSION
from headwater.settings import Settings, default_ca_file

PATH = "/api/v1/lineage"
# Enough to read an error message; the rest of the response is not read.
_MAX_RESPONSE_BYTES = 64 * 1024
# Upper bound of Retry-After: a server must not stop a job's lineage for days.
_MAX_RETRY_AFTER = 300.0
_URL_HINT = "set MARQUEZ_URL, such as http://localhost:5000; set MARQUEZ_API_KEY for a key"

# The event itself is invalid, or its run id belongs to another namespace (409): it would be refused
# again.
_REFUSED = frozenset({400, 409, 413, 422})


@dataclass(frozen=True, slots=True)
class Delivered:
    """The catalog has stored the event."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The catalog rejects the event; retrying does not help."""

    status: int
    response: str


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Not delivered, to be retried. `status` and `response` are set if the catalog responded."""

    reason: str
    after_seconds: float | None = None
    status: int | None = None
    response: str = ""


Outcome = Delivered | Refused | RetryLater


@dataclass(frozen=True, slots=True)
class CatalogResponse:
    """A response; `text` is the beginning of its body."""

    status: int
    text: str
    retry_after: str | None
    location: str | None


class CatalogClient:
    """Sends requests on a persistent connection. Not thread-safe."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        endpoint: str = PATH,
        connect_seconds: float = 5.0,
        request_seconds: float = 30.0,
    ) -> None:
        parts = _checked_url(url)
        self._https = parts.scheme == "https"
        self._default_port = 443 if self._https else 80
        self._host = str(parts.hostname)
        self._port = self._default_port if parts.port is None else parts.port
        self._base = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self._base}"
        self._endpoint = "/" + endpoint.lstrip("/")
        self._key = _checked_key(key)
        self._connect_seconds = connect_seconds
        self._request_seconds = request_seconds
        self._deadline: float | None = None
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> CatalogClient:
        """A client for the catalog of the settings.

        Raises:
            SettingError: the address or the key is invalid.
        """
        key = settings.catalog.api_key
        return cls(
            settings.catalog_url,
            key.get_secret_value() if key else None,
            endpoint=settings.catalog.endpoint,
            connect_seconds=settings.lineage.connect_seconds,
            request_seconds=settings.lineage.request_seconds,
        )

    def send(self, body: bytes) -> Outcome:
        """Deliver one event; never raises."""
        reused = self._connection is not None
        try:
            return _outcome(self.request("POST", self._endpoint, body), self.url)
        except Exception as error:
            if reused:
                # The server may have closed the persistent connection meanwhile.
                return self._send_again(body)
            return self._unreachable(error)

    def set_deadline(self, deadline: float | None) -> None:
        """End all requests by this time of the monotonic clock; None removes the limit."""
        self._deadline = deadline

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        max_bytes: int = _MAX_RESPONSE_BYTES,
    ) -> CatalogResponse:
        """Send one request; reads at most `max_bytes` of the response.

        Raises:
            OSError: the server can't be reached or did not respond in time.
            http.client.HTTPException: the response is not HTTP.
        """
        headers = {"User-Agent": f"headwater/{VERSION}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection = self._connected()
            connection.request(method, self._base + path, body, headers)
            response = connection.getresponse()
            text = response.read(max_bytes)
            if not response.isclosed() or response.will_close:
                # Do not wait for the rest of the body.
                self.close()
            return CatalogResponse(
                response.status,
                text.decode("utf-8", "replace"),
                response.headers.get("Retry-After"),
                response.headers.get("Location"),
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send_again(self, body: bytes) -> Outcome:
        try:
            return _outcome(self.request("POST", self._endpoint, body), self.url)
        except Exception as error:
            return self._unreachable(error)

    def _unreachable(self, error: Exception) -> RetryLater:
        if isinstance(error, http.client.HTTPException):
            return RetryLater(f"{self.url} is not an HTTP server: {type(error).__name__}")
        if isinstance(error, TimeoutError):
            return RetryLater(f"{self.url} did not respond in time")
        if isinstance(error, OSError):
            return RetryLater(f"{self.url} can't be reached: {error}")
        # Without the error's text, which may quote the value of an invalid header: the API key.
        return RetryLater(f"request to {self.url} failed: {type(error).__name__}")

    def _connected(self) -> http.client.HTTPConnection:
        """The connection, new or reused, with the deadline of this request."""
        if self._connection is None:
            connection = http.client.HTTPConnection(self._host, self._port)
            connection.default_port = self._default_port
            connection.sock = self._timed = DeadlineSocket(self._connect())
            # Otherwise a closed connection would be reopened without these limits.
            connection.auto_open = 0
            self._connection = connection
        self._timed.set_deadline(self._deadline_in(self._request_seconds))
        return self._connection

    def _connect(self) -> socket.socket:
        deadline = self._deadline_in(self._connect_seconds)
        sock = connect_before(deadline, self._host, self._port)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self._https:
                return sock
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            context = ssl.create_default_context(cafile=default_ca_file())
            return context.wrap_socket(sock, server_hostname=self._host)
        except BaseException:
            sock.close()
            raise

    def _deadline_in(self, seconds: float) -> float:
        deadline = time.monotonic() + seconds
        return deadline if self._deadline is None else min(deadline, self._deadline)


def _checked_url(url: str) -> SplitResult:
    """Reject invalid addresses here: otherwise every event would fail, far from the setting."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        # As a resolver does: rejects empty and overlong labels.
        host.encode("idna")
        _ = parts.port
    except ValueError:
        raise SettingError(
            f"MARQUEZ_URL has no usable host or port: {_shown(url)!r}", hint=_URL_HINT
        ) from None
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise SettingError(
            f"MARQUEZ_URL is not an http or https address: {_shown(url)!r}",
            hint=_URL_HINT,
        )
    if not _is_plain(parts.path) or not host.isprintable() or " " in host + parts.path:
        raise SettingError(f"MARQUEZ_URL has invalid characters: {_shown(url)!r}", hint=_URL_HINT)
    return parts


def _checked_key(key: str | None) -> str | None:
    """The key without surrounding whitespace; errors never contain it."""
    key = (key or "").strip()
    if not _is_plain(key):
        raise SettingError(
            "MARQUEZ_API_KEY has control or non-ASCII characters",
            hint="set it to one line, as `headwater keys create` shows it",
        )
    return key or None


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _outcome(response: CatalogResponse, url: str) -> Outcome:
    if 200 <= response.status < 300:
        return Delivered()
    if response.status in _REFUSED:
        return Refused(response.status, response.text)
    if 300 <= response.status < 400:
        where = f" to {_shown(response.location)}" if response.location else ""
        reason = f"responds with a redirect{where}: set MARQUEZ_URL"
    elif response.status in (401, 403):
        reason = f"responds with {response.status}: check MARQUEZ_API_KEY"
    else:
        reason = f"responds with {response.status}"
    pause = _retry_after(response.retry_after)
    return RetryLater(f"{url} {reason}", pause, response.status, response.text)


def _retry_after(text: str | None) -> float | None:
    # A date or an invalid value: the sender uses its own pause.
    return min(float(text), _MAX_RETRY_AFTER) if text and text.strip().isdecimal() else None


def _shown(url: str) -> str:
    """The address without a possible password, shortened."""
    scheme, separator, rest = url.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    # At the last `@`: a password may contain characters that end a host.
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"[:200]


class DeadlineSocket:
    """The part of the socket interface that `http.client` uses."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._deadline = 0.0

    def set_deadline(self, deadline: float) -> None:
        """Bound all calls from now on; `deadline` is a time of the monotonic clock."""
        self._deadline = deadline

    def sendall(self, data: Any) -> None:
        """Raises TimeoutError after the deadline."""
        remaining = memoryview(data).cast("B")
        while remaining:
            remaining = remaining[self.before_deadline().send(remaining) :]

    def makefile(self, mode: Literal["rb"]) -> io.BufferedReader:
        """A reader; the socket stays open until it is closed as well."""
        return io.BufferedReader(_Reader(self, self._socket.makefile(mode, buffering=0)))

    def close(self) -> None:
        self._socket.close()

    def before_deadline(self) -> socket.socket:
        """The socket, with a timeout for one call set to the remaining time."""
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("the deadline of this request has passed")
        self._socket.settimeout(seconds)
        return self._socket


class _Reader(io.RawIOBase):
    def __init__(self, timed: DeadlineSocket, raw: socket.SocketIO) -> None:
        self._timed = timed
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._timed.before_deadline()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def connect_before(deadline: float, host: str, port: int) -> socket.socket:
    """Connect to the first of the host's addresses that responds; they share the time."""
    last_error: OSError = TimeoutError("no address was tried in time")
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, address in enumerate(addresses):
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        # An address that does not respond leaves time for those after it.
        try:
            return _connect(address, remaining / (len(addresses) - number))
        except OSError as error:
            last_error = error
    raise last_error


def _connect(address: tuple[Any, ...], seconds: float) -> socket.socket:
    family, kind, protocol, _, endpoint = address
    connection = socket.socket(family, kind, protocol)
    try:
        connection.settimeout(seconds)
        connection.connect(endpoint)
    except BaseException:
        connection.close()
        raise
    return connection
