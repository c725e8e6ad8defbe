"""The HTTP/1.1 protocol of the service: Uvicorn's, with limits for each connection.

Uvicorn limits only the time between two requests. Here a connection is also closed if the header of
a request does not arrive in time, or if its client does not read the response. If there are too
many connections, the one that has been waiting the longest without a request is closed, so that new
clients, such as a health check, are answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

# Chromium sends at most 256 KiB, Apache HttpClient and nginx far less; tokens have a few KiB.
_MAX_HEADER_BYTES = 64 * 1024
# Within this time a client must read `_MIN_READ_BYTES` of a response: 17 kbit/s.
_READ_SECONDS = 30.0
_MIN_READ_BYTES = 64 * 1024
# Bytes of all responses that their clients have not read yet.
_MAX_UNREAD_BYTES = 64 * 1024 * 1024
# Headers of an offer to switch protocols, which is not forwarded to the application.
_OFFER_HEADERS = (b"upgrade", b"http2-settings")


class Connections:
    """The connections of one server that wait for a request or for their client, oldest first."""

    def __init__(self, max_connections: int) -> None:
        self.max_connections = max_connections
        self.waiting: dict[HttpProtocol, None] = {}
        self.unread: dict[HttpProtocol, None] = {}

    def make_room(self, used: int) -> None:
        """Close the connections that have waited the longest, if `used` are too many."""
        for victim in list(self.waiting)[: max(used - self.max_connections + 1, 0)]:
            victim.give_up()

    def limit_unread(self) -> None:
        """Close the connections that have not read their response for the longest time."""
        sizes = {each: each.unread_bytes() for each in self.unread}
        total = sum(sizes.values())
        for victim in list(self.unread)[:-1]:
            if total <= _MAX_UNREAD_BYTES:
                return
            total -= sizes[victim]
            victim.give_up()


class HttpProtocol(HttpToolsProtocol):
    """One connection. `protocol_class` creates a subclass for each server."""

    header_seconds: float
    shared: Connections

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self._header_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._read_timer: asyncio.TimerHandle | None = None
        self._offered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.shared.make_room(len(self.connections))
        self._expect_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_complete()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._header_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")
            return
        if self.transport.is_closing() or not self._is_idle():
            return
        if self.timeout_keep_alive_task is None:
            # Also for what precedes or follows a request and is none: line ends, a late body.
            self._expect_header()
        if self._header_timer is not None and self._header_bytes > _MAX_HEADER_BYTES:
            self.send_400_response(f"The header is larger than {_MAX_HEADER_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._offered = True
            return
        self._header_complete()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._offered:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._offered:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:
            # Between two requests: closed before others if there are too many connections.
            self.shared.waiting[self] = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self.shared.unread[self] = None
        self.shared.limit_unread()
        if self._read_timer is None and not self.transport.is_closing():
            self._watch_reading()

    def resume_writing(self) -> None:
        self.shared.unread.pop(self, None)
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        super().resume_writing()

    def unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def give_up(self) -> None:
        """Close the connection without waiting for its client."""
        self._header_complete()
        self.shared.unread.pop(self, None)
        # At once: Uvicorn counts these connections before the event loop reports their end.
        self.connections.discard(self)
        self.transport.abort()

    def _feed(self, data: bytes) -> None:
        """Parse data. An offer to switch to another protocol is ignored, as RFC 9110 7.8 allows.

        The parser takes what follows such a header for the other protocol, although the body of
        the request precedes it. So the request is parsed again without the offer.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            if not self._offered:
                raise httptools.HttpParserError("CONNECT is not supported")
            self._offered = False
            request = self._without_offer()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.parser.feed_data(request)

    def _without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                kept = b", ".join(t for t in tokens if t.lower() not in _OFFER_HEADERS)
                lines += [b"connection: " + kept] if kept else []
            elif name not in _OFFER_HEADERS:
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _expect_header(self) -> None:
        self.shared.waiting[self] = None
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_seconds, self.give_up)

    def _header_complete(self) -> None:
        self.shared.waiting.pop(self, None)
        self._header_bytes = 0
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _watch_reading(self, before: int | None = None) -> None:
        unread = self.unread_bytes()
        if before is not None and unread > before - _MIN_READ_BYTES:
            self.give_up()
            return
        self._read_timer = self.loop.call_later(_READ_SECONDS, self._watch_reading, unread)


def protocol_class(header_seconds: float, max_connections: int) -> type[HttpProtocol]:
    """The protocol of one server."""
    shared = Connections(max_connections)
    return type(
        "ServerProtocol", (HttpProtocol,), {"header_seconds": header_seconds, "shared": shared}
    )
