"""Who may do what. Default-deny: a route without a rule is refused, and a test names it.

On loopback everybody on the machine is trusted unless `require_keys` is set. Anywhere else, every
request but the one for health needs an API key or an OIDC token with a role.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from fastapi import Request

from headwater.catalog.api.oidc import TokenChecker
from headwater.catalog.api.permissions import NAMED_IN_BODY, RULES, Role
from headwater.catalog.api.problems import ApiError, refused
from headwater.catalog.api.service import service_of
from headwater.catalog.store.keys import ApiKey, find_key, looks_like_key
from headwater.errors import TooBusyError
from headwater.settings.catalog import CatalogSettings

# A revoked key stops working after this time at the latest, on every service.
_KEY_SECONDS = 5.0
_MAX_KEYS = 10_000
# Looks at keys in the database at once: strangers with made-up keys must not hold all connections.
_LOOKS = 2
_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. A limit is the one namespace that a key may touch."""

    role: Role
    namespace: str | None = None

    def require_namespace(self, namespace: str) -> None:
        """Raises:
        ApiError: 403, the key is for another namespace.
        """
        if self.namespace is not None and namespace != self.namespace:
            raise self.outside()

    def outside(self) -> ApiError:
        return refused(403, f"this key is for namespace '{self.namespace}' only")


class Guard:
    """Finds out who asks; one per service."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self.required = settings.require_keys or not is_loopback(settings.host)
        self._tokens = TokenChecker(settings) if settings.oidc_issuer else None
        self._known: dict[bytes, tuple[float, Caller | None]] = {}
        self._looks = asyncio.Semaphore(_LOOKS)

    async def caller(self, request: Request) -> Caller | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return None
        if self._tokens is not None and not token.startswith("hw_"):
            claims = await self._tokens.claims(token)
            return None if claims is None else Caller(self._role_of(claims))
        return await self._key(request, token)

    async def _key(self, request: Request, token: str) -> Caller | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        now = time.monotonic()
        known = self._known.get(digest)
        if known is not None and known[0] > now:
            return known[1]
        key = await self._look(request, token) if looks_like_key(token) else None
        caller = None if key is None else Caller(Role[key.role.upper()], key.namespace)
        if len(self._known) >= _MAX_KEYS:
            self._known.clear()
        self._known[digest] = (now + _KEY_SECONDS, caller)
        return caller

    async def _look(self, request: Request, token: str) -> ApiKey | None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._looks.acquire()
        except TimeoutError:
            raise TooBusyError("too many unknown keys are being looked up") from None
        try:
            async with service_of(request).pool.connection() as connection:
                return await find_key(connection, token)
        finally:
            self._looks.release()

    def _role_of(self, claims: dict[str, Any]) -> Role:
        said = claims.get(self._settings.oidc_roles_claim)
        words = said.split() if isinstance(said, str) else said if isinstance(said, list) else []
        roles = [Role[word.upper()] for word in words if word in ("read", "write", "admin")]
        return max(roles, default=Role.OPEN)


async def authorise(request: Request) -> Caller:
    """The dependency of every route.

    Raises:
        ApiError: 401 without a valid key or token, 403 without the role.
    """
    caller = request.state.caller = await _caller(request)
    return caller


def caller_of(request: Request) -> Caller:
    """Who asks, once the request was let in."""
    found = request.state.caller
    assert isinstance(found, Caller)  # noqa: S101 - set by authorise
    return found


async def _caller(request: Request) -> Caller:
    guard: Guard = request.app.state.guard
    place = (request.method, request.scope["route"].path)
    rule = RULES.get(place)
    if rule is None:
        raise refused(403, "no rule allows this")
    if rule is Role.OPEN:
        return Caller(Role.OPEN)
    if not guard.required:
        return Caller(Role.ADMIN)
    caller = await guard.caller(request)
    if caller is None:
        raise refused(401, "a valid API key or token is needed", headers=_CHALLENGE)
    if caller.role < rule:
        raise refused(403, f"this needs the role {rule.name.lower()}")
    if caller.namespace is not None and place not in NAMED_IN_BODY:
        _stay_within(caller, request)
    return caller


_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _stay_within(caller: Caller, request: Request) -> None:
    namespace = request.path_params.get("namespace")
    if namespace is None:
        # Lists and graphs over all namespaces would show what the key is not for.
        raise caller.outside()
    caller.require_namespace(unquote(namespace))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
