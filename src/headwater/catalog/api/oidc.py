"""OIDC bearer tokens: signed by the issuer's current keys, meant for this service, not expired."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import urllib.request
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import jwt

from headwater.errors import SettingError
from headwater.settings import default_ca_file
from headwater.settings.catalog import CatalogSettings

_LOG = logging.getLogger("headwater.catalog")

# Only signatures with a public key: with a shared secret, whoever checks could also sign.
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
_LEEWAY_SECONDS = 30
_KEYS_SECONDS = 600.0
# An issuer that is away for longer than this may have withdrawn a key meanwhile.
_MAX_KEYS_SECONDS = 24 * 3600.0
# An unknown key id asks the issuer again, but a stranger's tokens must not make us ask for ever.
_PAUSE_SECONDS = 10.0
_TIMEOUT_SECONDS = 5
_MAX_BYTES = 1024 * 1024


class TokenChecker:
    """Checks tokens of one issuer."""

    def __init__(self, settings: CatalogSettings) -> None:
        if settings.oidc_audience is None:
            raise SettingError(
                "HEADWATER_CATALOG__OIDC_ISSUER is set without an audience: tokens for any other "
                "service would be accepted",
                hint="set HEADWATER_CATALOG__OIDC_AUDIENCE",
            )
        self._issuer = settings.oidc_issuer or ""
        self._audience = settings.oidc_audience
        self._keys_url = settings.oidc_keys_url
        self._keys: dict[str, Any] = {}
        self._asked = self._read = -_MAX_KEYS_SECONDS
        self._lock = asyncio.Lock()
        for url in (self._issuer, self._keys_url or self._issuer):
            _check_url(url)

    async def claims(self, token: str) -> dict[str, Any] | None:
        """What the token says, if it is good."""
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
            # TypeError: an algorithm for another kind of key. The reason, never the token.
            _LOG.info("token refused: %s", type(error).__name__)
            return None

    async def _key(self, kid: str) -> Any:
        if self._should_ask(kid):
            async with self._lock:
                if self._should_ask(kid):
                    await self._ask()
        return self._keys.get(kid)

    def _should_ask(self, kid: str) -> bool:
        """Those with a key that is known don't wait for an issuer that strangers make us ask."""
        age = monotonic() - self._asked
        return age > (_KEYS_SECONDS if kid in self._keys else _PAUSE_SECONDS)

    async def _ask(self) -> None:
        try:
            self._keys = await asyncio.to_thread(self._fetch)
            self._read = monotonic()
        except (OSError, ValueError, TypeError, AttributeError, KeyError, jwt.PyJWTError) as error:
            # The keys that are known go on being good for a while.
            _LOG.warning("the issuer's keys can't be read: %s", type(error).__name__)
            if monotonic() - self._read > _MAX_KEYS_SECONDS:
                self._keys = {}
        self._asked = monotonic()

    def _fetch(self) -> dict[str, Any]:
        url = self._keys_url
        if url is None:
            found = _get(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
            url = str(found["jwks_uri"])
            _check_url(url)
        keys = jwt.PyJWKSet.from_dict(_get(url)).keys
        return {key.key_id or "": key.key for key in keys}


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise SettingError(
            f"OIDC's issuer and keys must be read over https, not {parts.scheme or 'nothing'}",
            hint="look at HEADWATER_CATALOG__OIDC_ISSUER and HEADWATER_CATALOG__OIDC_KEYS_URL",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Keys come from where the operator said, and from nowhere else."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def _get(url: str) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=default_ca_file())
    handler = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(_NoRedirect, handler)
    with opener.open(url, timeout=_TIMEOUT_SECONDS) as answer:
        content = answer.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError("the answer is too large")
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("the answer is no JSON object")
    return found
