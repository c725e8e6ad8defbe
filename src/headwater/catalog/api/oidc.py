"""OIDC bearer tokens: validates signature, issuer, audience and expiry."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import urllib.request
from collections.abc import Callable
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import jwt

from headwater.errors import SettingError
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
_TIMEOUT_SECONDS = 5
_MAX_BYTES = 1024 * 1024


class TokenChecker:
    """Checks tokens of one issuer."""

    def __init__(
        self, settings: CatalogSettings, *, clock: Callable[[], float] = monotonic
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
        self._keys: dict[str, Any] = {}
        # When keys were last requested, and last received.
        self._requested = self._received = -_MAX_KEYS_SECONDS
        self._lock = asyncio.Lock()
        for url in (self._issuer, self._keys_url or self._issuer):
            _check_url(url)

    async def claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token, or None if it is invalid."""
        try:
            kid = str(jwt.get_unverified_header(token).get("kid", ""))
            key = await self._key(kid)
            if key is None:
                return None
            return jwt.decode(
                token,
                key,
                algorithms=_ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            # TypeError: the algorithm needs another type of key. Tokens are never logged.
            _LOG.info("token refused: %s", type(error).__name__)
            return None

    async def _key(self, kid: str) -> Any:
        if self._is_stale(kid):
            async with self._lock:
                if self._is_stale(kid):
                    await self._refresh()
        return self._keys.get(kid)

    def _is_stale(self, kid: str) -> bool:
        """Tokens with a known key do not wait for refreshes that unknown key ids trigger."""
        age = self._clock() - self._requested
        return age > (_KEYS_SECONDS if kid in self._keys else _PAUSE_SECONDS)

    async def _refresh(self) -> None:
        try:
            self._keys = await asyncio.to_thread(self._fetch)
            self._received = self._clock()
        except (OSError, ValueError, TypeError, AttributeError, KeyError, jwt.PyJWTError) as error:
            # Known keys stay valid for a while.
            _LOG.warning("can't read the issuer's keys: %s", type(error).__name__)
            if self._clock() - self._received > _MAX_KEYS_SECONDS:
                self._keys = {}
        self._requested = self._clock()

    def _fetch(self) -> dict[str, Any]:
        url = self._keys_url
        if url is None:
            configuration = _get(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
            url = str(configuration["jwks_uri"])
            _check_url(url)
        keys = jwt.PyJWKSet.from_dict(_get(url)).keys
        return {key.key_id or "": key.key for key in keys}


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


def _get(url: str) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=default_ca_file())
    handler = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(_NoRedirect, handler)
    with opener.open(url, timeout=_TIMEOUT_SECONDS) as response:
        content = response.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError("the response is too large")
    document = json.loads(content)
    if not isinstance(document, dict):
        raise ValueError("the response is not a JSON object")
    return document
