"""ASGI middleware of the API and the page: request checks, security headers, gzip and ETags."""

from __future__ import annotations

import asyncio
import hashlib

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.catalog.api.guard import is_loopback
from headwater.catalog.api.problems import problem_response
from headwater.settings.catalog import CatalogSettings

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        # No inline scripts or styles, nothing from other origins.
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        b"form-action 'self'",
    ),
]
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

# Smaller responses consist mostly of headers.
_GZIP_MIN_BYTES = 1024
# Higher levels take twice the time and save hardly anything. Starlette compresses large responses
# in a thread, and event streams not at all.
_GZIP_LEVEL = 4

# Larger responses are streamed without an ETag. A graph of 5,000 nodes has about half of this.
_ETAG_MAX_BYTES = 32 * 1024 * 1024


class SecurityMiddleware:
    """Checks Host and Origin, adds security headers, and routes by the undecoded path.

    The undecoded path keeps a `%2F` inside a name from splitting it.

    On loopback without keys, pages of other origins in the user's browser are the threat: they
    must not write (Origin), nor read through a name that resolves to this machine (Host). Another
    port of this machine is another origin: any program may serve pages there.
    """

    def __init__(self, app: ASGIApp, settings: CatalogSettings, *, keys_required: bool) -> None:
        self._app = app
        self._check_host = not keys_required
        self._hosts = set(settings.allowed_hosts)
        self._origins = set(settings.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], headers)
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.partition(b"?")[0].decode("latin-1")
        if path.startswith("/api/"):
            path = path.removesuffix("/")
        scope = {**scope, "path": path, "raw_path": path.encode("latin-1")}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        if refusal is not None:
            await problem_response(403, refusal)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: dict[bytes, str]) -> str | None:
        host = headers.get(b"host", "")
        name = _host_name(host)
        if self._check_host and name not in self._hosts and not is_loopback(name):
            return "this host name is not one of HEADWATER_CATALOG__ALLOWED_HOSTS"
        origin = headers.get(b"origin")
        if origin is None or method in _SAFE_METHODS or self._origins & {origin, "*"}:
            return None
        if origin.partition("://")[2] == host:
            return None
        return "requests of this origin are not allowed: see HEADWATER_CATALOG__CORS_ORIGINS"


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[")
    return host.partition(":")[0].lower()


class HangUpMiddleware:
    """Cancels a GET whose client has hung up: its statement is cancelled, and its slot is free.

    Other requests are completed: they change something.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        complete = False

        async def send_and_note(message: Message) -> None:
            nonlocal complete
            if message["type"] == "http.response.body" and not message.get("more_body"):
                complete = True
            await send(message)

        async def receive_without_body() -> Message:
            await asyncio.wait({hang_up})
            return {"type": "http.disconnect"}

        hang_up = asyncio.ensure_future(_hang_up(receive))
        request = asyncio.ensure_future(self._app(scope, receive_without_body, send_and_note))
        try:
            await asyncio.wait({request, hang_up}, return_when=asyncio.FIRST_COMPLETED)
            # After a complete response the server reports the end of the connection as well.
            if not request.done() and not complete:
                request.cancel()
            await asyncio.wait({request})
        finally:
            hang_up.cancel()
            request.cancel()
        if not request.cancelled():
            request.result()


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        """The body of a GET is ignored."""


class CompressionMiddleware:
    """Compresses responses to GET with gzip if the client accepts it.

    A graph of a thousand nodes shrinks to a tenth. Posted events are left out: their responses
    are empty and ingest must stay fast.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing: ASGIApp = GZipMiddleware(
            app, minimum_size=_GZIP_MIN_BYTES, compresslevel=_GZIP_LEVEL
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_get = scope["type"] == "http" and scope["method"] == "GET"
        await (self._compressing if is_get else self._app)(scope, receive, send)


class ETagMiddleware:
    """Adds an ETag to successful responses to GET, and responds 304 if it matches.

    The page polls every few seconds; unchanged responses are not sent again.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        if_none_match = dict(scope["headers"]).get(b"if-none-match", b"")
        buffered: list[Message] = []
        pass_through = False

        async def buffer(message: Message) -> None:
            nonlocal pass_through
            if message["type"] == "http.response.start" and message["status"] != 200:
                pass_through = True
            if pass_through:
                await send(message)
                return
            buffered.append(message)
            size = sum(len(each.get("body", b"")) for each in buffered)
            if message.get("more_body") and size > _ETAG_MAX_BYTES:
                pass_through = True
                for each in buffered:
                    await send(each)
            elif message["type"] == "http.response.body" and not message.get("more_body"):
                await _send_with_etag(buffered, if_none_match, send)

        await self._app(scope, receive, buffer)


async def _send_with_etag(buffered: list[Message], if_none_match: bytes, send: Send) -> None:
    start, *bodies = buffered
    body = b"".join(each.get("body", b"") for each in bodies)
    # Weak: the tag is the same with and without gzip.
    tag = b'W/"' + hashlib.blake2b(body, digest_size=16).hexdigest().encode() + b'"'
    # Caches must revalidate, and proxies must not store: responses depend on the key.
    headers = [
        (b"etag", tag),
        (b"cache-control", b"private, no-cache"),
        (b"vary", b"authorization"),
    ]
    if tag in if_none_match:
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({**start, "headers": [*start["headers"], *headers]})
    await send({"type": "http.response.body", "body": body})
