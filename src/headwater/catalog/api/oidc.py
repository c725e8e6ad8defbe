"""OIDC bearer tokens: validates signature, issuer, audience and expiry."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import jwt

from headwater.errors import SettingError
from headwater.openlineage.transport import DeadlineSocket
from headwater.settings import default_ca_file
from headwater.settings.catalog import CatalogSettings

_LOG = logging.getLogger("headwater.catalog")

# Asymmetric signatures only: with a shared secret, a service that verifies could also sign.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
_LEEWAY_SECONDS = 30
_KEYS_SECONDS = 600.0
# An issuer that has been unreachable for longer than this may have withdrawn a key meanwhile.
_MAX_KEYS_SECONDS = 24 * 3600.0
# An unknown key id triggers a refresh; the pause keeps invalid tokens from flooding the issuer.
_PAUSE_SECONDS = 10.0
# For a connection, and for a complete response, however slowly the issuer sends it.
_TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 1024 * 1024


class TokenChecker:
    """Checks tokens of one issuer."""

    def __init__(
        self,
        settings: CatalogSettings,
        *,
        clock: Callable[[], float] = monotonic,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        if settings.oidc_audience is None:
            raise SettingError(
                "HEADWATER_CATALOG__OIDC_ISSUER is set without an audience: tokens for any other "
                "service would be accepted",
                hint="set HEADWATER_CATALOG__OIDC_AUDIENCE",
            )
        self._issuer = settings.oidc_issuer or ""
        self._audience = settings.oidc_audience
        self._keys_url = settings.oidc_keys_url
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        # By key id: the key, and the algorithms that it may be used with.
        self._keys: dict[str, tuple[Any, list[str]]] = {}
        # When keys were last requested, and last received.
        self._requested = self._received = -_MAX_KEYS_SECONDS
        self._refreshing: asyncio.Task[None] | None = None
        for url in (self._issuer, self._keys_url or self._issuer):
            _check_url(url)

    async def claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token, or None if it is invalid."""
        try:
            kid = str(jwt.get_unverified_header(token).get("kid", ""))
            found = await self._key(kid)
            if found is None:
                return None
            key, algorithms = found
            return jwt.decode(
                token,
                key,
                algorithms=algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            # TypeError: the algorithm needs another type of key. Tokens are never logged.
            _LOG.info("token refused: %s", type(error).__name__)
            return None

    async def _key(self, kid: str) -> tuple[Any, list[str]] | None:
        if self._is_stale(kid):
            if self._refreshing is None or self._refreshing.done():
                self._refreshing = asyncio.create_task(self._refresh())
            # Tokens with a known key do not wait for the issuer, unless the key is too old.
            if kid not in self._keys or self._clock() - self._received > _MAX_KEYS_SECONDS:
                # The request of another token must not end with this one.
                await asyncio.shield(self._refreshing)
        return self._keys.get(kid)

    def _is_stale(self, kid: str) -> bool:
        age = self._clock() - self._requested
        return age > (_KEYS_SECONDS if kid in self._keys else _PAUSE_SECONDS)

    async def _refresh(self) -> None:
        try:
            self._keys = await asyncio.to_thread(self._fetch)
            self._received = self._clock()
        except (*_UNREADABLE, http.client.HTTPException, jwt.PyJWTError, SettingError) as error:
            # Known keys stay valid for a while.
            _LOG.warning("can't read the issuer's keys: %s", type(error).__name__)
            if self._clock() - self._received > _MAX_KEYS_SECONDS:
                self._keys = {}
        self._requested = self._clock()

    def _fetch(self) -> dict[str, tuple[Any, list[str]]]:
        url = self._keys_url
        if url is None:
            discovery = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
            configuration = _get(discovery, self._timeout_seconds)
            url = str(configuration["jwks_uri"])
            _check_url(url)
        return dict(_usable_keys(_get(url, self._timeout_seconds)["keys"]))


_UNREADABLE = (OSError, ValueError, TypeError, AttributeError, KeyError)


def _usable_keys(listed: list[dict[str, Any]]) -> Iterator[tuple[str, tuple[Any, list[str]]]]:
    """The keys of a set by id; those that this library can't use are skipped."""
    for each in listed:
        try:
            key = jwt.PyJWK.from_dict(each)
        except jwt.PyJWTError:
            continue
        # A key that names its algorithm is for no other one.
        named = each.get("alg")
        algorithms = [name for name in _ALGORITHMS if named in (None, name)]
        yield str(each.get("kid") or ""), (key.key, algorithms)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise SettingError(
            f"the OIDC issuer and its keys must use https, got {parts.scheme or 'no scheme'}",
            hint="check HEADWATER_CATALOG__OIDC_ISSUER and HEADWATER_CATALOG__OIDC_KEYS_URL",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys are read only from the configured URL."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


class _Connection(http.client.HTTPConnection):
    """A connection whose response must arrive within the timeout, however slowly it is sent."""

    def connect(self) -> None:
        super().connect()
        self.sock: Any = DeadlineSocket(self.sock)
        self.sock.set_deadline(monotonic() + (self.timeout or _TIMEOUT_SECONDS))


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    """The same with TLS."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_Connection, request)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._tls = context

    def https_open(self, request: urllib.request.Request) -> Any:
        return self.do_open(_TlsConnection, request, context=self._tls)


def _get(url: str, timeout_seconds: float) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=default_ca_file())
    opener = urllib.request.build_opener(_NoRedirect, _Http(), _Https(context=context))
    with opener.open(url, timeout=timeout_seconds) as response:
        content = response.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError("the response is too large")
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("the response is not a JSON object")
    return document
