"""What happens to every request before it is routed, and to every answer."""

from __future__ import annotations

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
        # Nothing inline, nothing from elsewhere.
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
        b"form-action 'self'",
    ),
]
_SAFE = ("GET", "HEAD", "OPTIONS")


class Wire:
    """Routes by the path as it was sent, so that `%2F` inside a name does not divide it.

    On loopback without keys the browser of the machine's own user is the one stranger: a page of
    another origin must not write (Origin), nor read by a name that was made to point here (Host).
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
        refused = self._refused(scope["method"], headers)
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.partition(b"?")[0].decode("latin-1")
        if path.startswith("/api/"):
            path = path.removesuffix("/")
        scope = {**scope, "path": path, "raw_path": path.encode("latin-1")}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        if refused is not None:
            await problem_response(403, refused)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)

    def _refused(self, method: str, headers: dict[bytes, str]) -> str | None:
        host = headers.get(b"host", "")
        name = _host_name(host)
        if self._check_host and name not in self._hosts and not is_loopback(name):
            return "this host name is not one of HEADWATER_CATALOG__ALLOWED_HOSTS"
        origin = headers.get(b"origin")
        if origin is None or method in _SAFE or self._origins & {origin, "*"}:
            return None
        if origin.partition("://")[2] == host:
            return None
        # Two ports of loopback are one service: its API and its page.
        if is_loopback(_host_name(origin.partition("://")[2])) and is_loopback(name):
            return None
        return "requests of this origin are not allowed: see HEADWATER_CATALOG__CORS_ORIGINS"


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[")
    return host.partition(":")[0].lower()
