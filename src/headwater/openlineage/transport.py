"""One event to one catalog, over HTTP: every phase is bounded, and nothing is followed or kept.

Works with Headwater's service and with Marquez: `POST /api/v1/lineage`.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from headwater.errors import SettingError
from headwater.openlineage.events import VERSION
from headwater.settings import Settings, default_ca_file

PATH = "/api/v1/lineage"
# What a person needs of an answer; the rest of it stays where it is.
_MOST_ANSWER = 64 * 1024
# Longer pauses a server may not ask for: it could silence a job's lineage for days.
_MOST_RETRY_AFTER = 300.0

# The event itself is at fault: it would be refused again.
_REFUSED = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Delivered:
    """It is stored."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The event is not taken, now or later."""

    status: int
    answer: str


@dataclass(frozen=True, slots=True)
class Later:
    """Not now; `reached` says whether somebody answered."""

    reason: str
    reached: bool
    after_seconds: float | None = None


Outcome = Delivered | Refused | Later


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said; of a long body only its beginning."""

    status: int
    text: str
    retry_after: str | None
    location: str | None


class CatalogClient:
    """Sends requests on a connection that is kept. Not thread-safe."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        connect_seconds: float = 5.0,
        request_seconds: float = 30.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise SettingError(
                f"the catalog's address is no http or https address of a host: {_shown(url)!r}",
                hint="MARQUEZ_URL, such as http://localhost:5000; a key goes into MARQUEZ_API_KEY",
            )
        try:
            self._port = parts.port
        except ValueError:
            raise SettingError(f"MARQUEZ_URL has no usable port: {_shown(url)!r}") from None
        self.url = url.rstrip("/")
        self._https = parts.scheme == "https"
        self._host = parts.hostname
        self._base = parts.path.rstrip("/")
        self._key = key
        self._connect_seconds = connect_seconds
        self._request_seconds = request_seconds
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> CatalogClient:
        """For the catalog that jobs tell.

        Raises:
            SettingError: the address can't be used.
        """
        key = settings.catalog.api_key
        return cls(
            settings.catalog_url,
            key.get_secret_value() if key else None,
            connect_seconds=settings.lineage.connect_seconds,
            request_seconds=settings.lineage.request_seconds,
        )

    def send(self, body: bytes) -> Outcome:
        """Deliver one event; never raises."""
        kept = self._connection is not None
        try:
            return _outcome(self.request("POST", PATH, body), self.url)
        except (OSError, http.client.HTTPException) as error:
            if kept:
                # A kept connection may have been closed by the other end meanwhile.
                return self._send_anew(body)
            return self._unreachable(error)

    def request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """One request; redirects are not followed.

        Raises:
            OSError: nobody answered in time, or not at all.
            http.client.HTTPException: what came was no HTTP.
        """
        connection = self._connected()
        headers = {"User-Agent": f"headwater/{VERSION}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            with _deadline(connection, self._request_seconds):
                connection.request(method, self._base + path, body, headers)
                answer = connection.getresponse()
                text = answer.read(_MOST_ANSWER)
            if not answer.isclosed() or answer.will_close:
                # The rest is not waited for.
                self.close()
            return Answer(
                answer.status,
                text.decode("utf-8", "replace"),
                answer.headers.get("Retry-After"),
                answer.headers.get("Location"),
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _send_anew(self, body: bytes) -> Outcome:
        try:
            return _outcome(self.request("POST", PATH, body), self.url)
        except (OSError, http.client.HTTPException) as error:
            return self._unreachable(error)

    def _unreachable(self, error: Exception) -> Later:
        if isinstance(error, http.client.HTTPException):
            return Later(f"{self.url} does not speak HTTP: {type(error).__name__}", reached=True)
        if isinstance(error, TimeoutError):
            return Later(f"{self.url} did not answer in time", reached=False)
        return Later(f"{self.url} can't be reached: {error}", reached=False)

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            if self._https:
                context = ssl.create_default_context(cafile=default_ca_file())
                made: http.client.HTTPConnection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._connect_seconds, context=context
                )
            else:
                made = http.client.HTTPConnection(
                    self._host, self._port, timeout=self._connect_seconds
                )
            made.connect()
            assert made.sock is not None  # noqa: S101 - connected
            made.sock.settimeout(self._request_seconds)
            made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Without this a closed connection would be opened anew, without these bounds.
            made.auto_open = 0
            self._connection = made
        return self._connection


@contextmanager
def _deadline(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """End the connection when the time is over: a server that sends a byte now and then would
    otherwise hold it for ever, because a socket's own limit is for each byte."""
    late = threading.Event()

    def cut() -> None:
        late.set()
        with suppress(OSError):
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
    # What was cut off may look like a whole answer: half a status line is one, too.
    if late.is_set():
        raise TimeoutError(f"no whole answer within {seconds:g} s")


def _outcome(answer: Answer, url: str) -> Outcome:
    if 200 <= answer.status < 300:
        return Delivered()
    if answer.status in _REFUSED:
        return Refused(answer.status, answer.text)
    if 300 <= answer.status < 400:
        where = f" to {_shown(answer.location)}" if answer.location else ""
        return Later(f"{url} answers with a redirect{where}: set MARQUEZ_URL", reached=True)
    if answer.status in (401, 403):
        return Later(f"{url} answers {answer.status}: look at MARQUEZ_API_KEY", reached=True)
    return Later(f"{url} answers {answer.status}", True, _retry_after(answer.retry_after))


def _retry_after(text: str | None) -> float | None:
    # A date, or nonsense: the own pause holds.
    return min(float(text), _MOST_RETRY_AFTER) if text and text.strip().isdecimal() else None


def _shown(url: str) -> str:
    """Without what may be a password, and short."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"[:200]
