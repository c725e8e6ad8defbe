"""One event to one catalog, over HTTP: every phase is bounded, and nothing is followed or kept.

Works with Headwater's service and with Marquez: `POST /api/v1/lineage`.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from headwater.errors import SettingError
from headwater.openlineage.deadline import DeadlineSocket, connected_by
from headwater.openlineage.events import VERSION
from headwater.settings import Settings, default_ca_file

PATH = "/api/v1/lineage"
# What a person needs of an answer; the rest of it stays where it is.
_MAX_ANSWER = 64 * 1024
# Longer pauses a server may not ask for: it could silence a job's lineage for days.
_MAX_RETRY_AFTER = 300.0
_URL_HINT = "MARQUEZ_URL, such as http://localhost:5000; a key goes into MARQUEZ_API_KEY"

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
    """Not now; `status` and `answer` are what came, if something did.

    `here` says that the fault is this machine's.
    """

    reason: str
    after_seconds: float | None = None
    status: int | None = None
    answer: str = ""
    here: bool = False


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
        parts = _usable(url)
        self._https = parts.scheme == "https"
        self._default_port = 443 if self._https else 80
        self._host = str(parts.hostname)
        self._port = self._default_port if parts.port is None else parts.port
        self._base = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self._base}"
        self._key = _usable_key(key)
        self._connect_seconds = connect_seconds
        self._request_seconds = request_seconds
        self._no_later_than: float | None = None
        self._connection: http.client.HTTPConnection | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> CatalogClient:
        """For the catalog that jobs tell.

        Raises:
            SettingError: the address or the key can't be used.
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
        except Exception as error:
            if kept:
                # A kept connection may have been closed by the other end meanwhile.
                return self._send_anew(body)
            return self._unreachable(error)

    def end_by(self, moment: float | None) -> None:
        """Let no request go on beyond this moment of the monotonic clock; None lifts it."""
        self._no_later_than = moment

    def request(
        self, method: str, path: str, body: bytes | None = None, max_bytes: int = _MAX_ANSWER
    ) -> Answer:
        """One request; redirects are not followed, and no more than `max_bytes` are read.

        Raises:
            OSError: nobody answered in time, or not at all.
            http.client.HTTPException: what came was no HTTP.
        """
        headers = {"User-Agent": f"headwater/{VERSION}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection = self._connected()
            connection.request(method, self._base + path, body, headers)
            answer = connection.getresponse()
            text = answer.read(max_bytes)
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
        except Exception as error:
            return self._unreachable(error)

    def _unreachable(self, error: Exception) -> Later:
        if isinstance(error, http.client.HTTPException):
            return Later(f"{self.url} does not speak HTTP: {type(error).__name__}")
        if isinstance(error, TimeoutError):
            return Later(f"{self.url} did not answer in time")
        if isinstance(error, OSError):
            return Later(f"{self.url} can't be reached: {error}")
        # Not its text: of a header that can't be sent it may quote the value, which is the key.
        return Later(f"{self.url} can't be asked: {type(error).__name__}")

    def _connected(self) -> http.client.HTTPConnection:
        """The connection, new or kept, with the time that this request has."""
        if self._connection is None:
            made = http.client.HTTPConnection(self._host, self._port)
            made.default_port = self._default_port
            made.sock = self._timed = DeadlineSocket(self._connect())
            # Without this a closed connection would be opened anew, without these bounds.
            made.auto_open = 0
            self._connection = made
        self._timed.end_by(self._moment(self._request_seconds))
        return self._connection

    def _connect(self) -> socket.socket:
        end = self._moment(self._connect_seconds)
        made = connected_by(end, self._host, self._port)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self._https:
                return made
            made.settimeout(max(end - time.monotonic(), 0.001))
            context = ssl.create_default_context(cafile=default_ca_file())
            return context.wrap_socket(made, server_hostname=self._host)
        except BaseException:
            made.close()
            raise

    def _moment(self, seconds: float) -> float:
        moment = time.monotonic() + seconds
        return moment if self._no_later_than is None else min(moment, self._no_later_than)


def _usable(url: str) -> SplitResult:
    """Refuse here what would fail with each event, far from the setting."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        # What a resolver is asked for: it refuses empty and overlong labels.
        host.encode("idna")
        _ = parts.port
    except ValueError:
        raise SettingError(
            f"MARQUEZ_URL has no usable host or port: {_shown(url)!r}", hint=_URL_HINT
        ) from None
    if parts.scheme not in ("http", "https") or not host or parts.username:
        raise SettingError(
            f"the catalog's address is no http or https address of a host: {_shown(url)!r}",
            hint=_URL_HINT,
        )
    if not _is_plain(parts.path) or not host.isprintable() or " " in host + parts.path:
        raise SettingError(
            f"MARQUEZ_URL has characters that no address has: {_shown(url)!r}", hint=_URL_HINT
        )
    return parts


def _usable_key(key: str | None) -> str | None:
    """Without the line end that a file or a shell left; errors never quote it."""
    key = (key or "").strip()
    if not _is_plain(key):
        raise SettingError(
            "MARQUEZ_API_KEY has control characters, or others than ASCII",
            hint="set it to one line, as `headwater keys create` shows it",
        )
    return key or None


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _outcome(answer: Answer, url: str) -> Outcome:
    if 200 <= answer.status < 300:
        return Delivered()
    if answer.status in _REFUSED:
        return Refused(answer.status, answer.text)
    if 300 <= answer.status < 400:
        where = f" to {_shown(answer.location)}" if answer.location else ""
        reason = f"answers with a redirect{where}: set MARQUEZ_URL"
    elif answer.status in (401, 403):
        reason = f"answers {answer.status}: look at MARQUEZ_API_KEY"
    else:
        reason = f"answers {answer.status}"
    pause = _retry_after(answer.retry_after)
    return Later(f"{url} {reason}", pause, answer.status, answer.text)


def _retry_after(text: str | None) -> float | None:
    # A date, or nonsense: the own pause holds.
    return min(float(text), _MAX_RETRY_AFTER) if text and text.strip().isdecimal() else None


def _shown(url: str) -> str:
    """Without what may be a password, and short."""
    scheme, separator, rest = url.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    # By the last one, wherever it is: a password may hold what ends a host elsewhere.
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"[:200]
