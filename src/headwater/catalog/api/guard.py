"""Authentication and authorization. Default-deny: a route without a rule is refused.

On loopback every local user is trusted unless `require_keys` is set. Elsewhere every request
except health checks needs an API key, or an OIDC token with a role.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from urllib.parse import unquote

from fastapi import Request

from headwater.catalog.api.oidc import TokenChecker
from headwater.catalog.api.problems import ApiError, refused
from headwater.catalog.api.service import service_of
from headwater.catalog.store.keys import ApiKey, find_key, looks_like_key
from headwater.errors import TooBusyError
from headwater.settings.catalog import CatalogSettings

# Lookups of keys are cached for this time, so a revoked key works at most this long.
_KEY_SECONDS = 5.0
_MAX_KEYS = 10_000
# Namespaces of a key that an error names.
_MAX_NAMED = 10
# Concurrent lookups of keys: clients with invalid keys must not use up all database connections.
_MAX_LOOKUPS = 2
_LOOKUP_SECONDS = 5.0


class Role(IntEnum):
    """Each role includes the permissions of the ones before it."""

    OPEN = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


_NS = "/api/v1/namespaces/{namespace}"
_JOB = f"{_NS}/jobs/{{job}}"
_DATASET = f"{_NS}/datasets/{{dataset}}"
_RUN = "/api/v1/jobs/runs/{id}"
_RECORD = "/api/v1/records/{topic}/{partition}/{offset}"

RULES: Mapping[tuple[str, str], Role] = {
    ("GET", "/api/v1/health"): Role.OPEN,
    ("GET", "/api/v1/health/live"): Role.OPEN,
    ("GET", "/api/v1/health/ready"): Role.OPEN,
    ("GET", "/api/v1/openapi.json"): Role.READ,
    ("POST", "/api/v1/lineage"): Role.WRITE,
    ("POST", "/api/v1/lineage/batch"): Role.WRITE,
    ("GET", "/api/v1/lineage"): Role.READ,
    ("GET", "/api/v1/graph"): Role.READ,
    ("GET", "/api/v1/column-lineage"): Role.READ,
    ("GET", "/api/v1/runlineage/upstream"): Role.READ,
    ("GET", "/api/v1/events/lineage"): Role.READ,
    ("GET", "/api/v1/search"): Role.READ,
    ("GET", "/api/v2beta/search/jobs"): Role.READ,
    ("GET", "/api/v2beta/search/datasets"): Role.READ,
    # Metrics contain names of jobs and datasets.
    ("GET", "/metrics"): Role.READ,
    ("GET", "/api/v1/metrics/now"): Role.READ,
    ("GET", "/api/v1/metrics/history"): Role.READ,
    ("GET", "/api/v1/alerts"): Role.READ,
    ("GET", "/api/v1/alerts/incidents"): Role.READ,
    ("GET", _RECORD): Role.READ,
    ("GET", f"{_RECORD}/ancestry"): Role.READ,
    ("GET", f"{_RECORD}/impact"): Role.READ,
    ("GET", f"{_RECORD}/replay"): Role.READ,
    ("GET", "/api/v1/stats/lineage-events"): Role.READ,
    ("GET", "/api/v1/stats/jobs"): Role.READ,
    ("GET", "/api/v1/stats/datasets"): Role.READ,
    ("GET", "/api/v1/stats/sources"): Role.READ,
    ("GET", "/api/v1/namespaces"): Role.READ,
    ("GET", _NS): Role.READ,
    ("PUT", _NS): Role.WRITE,
    ("DELETE", _NS): Role.ADMIN,
    ("GET", "/api/v1/sources"): Role.READ,
    ("GET", "/api/v1/sources/{source}"): Role.READ,
    ("PUT", "/api/v1/sources/{source}"): Role.WRITE,
    ("GET", "/api/v1/tags"): Role.READ,
    ("PUT", "/api/v1/tags/{name}"): Role.WRITE,
    ("GET", f"{_NS}/datasets"): Role.READ,
    ("GET", _DATASET): Role.READ,
    ("PUT", _DATASET): Role.WRITE,
    ("DELETE", _DATASET): Role.ADMIN,
    ("GET", f"{_DATASET}/versions"): Role.READ,
    ("GET", f"{_DATASET}/quality"): Role.READ,
    ("GET", f"{_DATASET}/versions/{{version}}"): Role.READ,
    ("POST", f"{_DATASET}/tags/{{tag}}"): Role.WRITE,
    ("DELETE", f"{_DATASET}/tags/{{tag}}"): Role.WRITE,
    ("POST", f"{_DATASET}/fields/{{field}}/tags/{{tag}}"): Role.WRITE,
    ("DELETE", f"{_DATASET}/fields/{{field}}/tags/{{tag}}"): Role.WRITE,
    ("GET", "/api/v1/jobs"): Role.READ,
    ("GET", f"{_NS}/jobs"): Role.READ,
    ("GET", _JOB): Role.READ,
    ("PUT", _JOB): Role.WRITE,
    ("DELETE", _JOB): Role.ADMIN,
    ("GET", f"{_JOB}/hierarchy"): Role.READ,
    ("GET", f"{_JOB}/versions"): Role.READ,
    ("GET", f"{_JOB}/versions/{{version}}"): Role.READ,
    ("POST", f"{_JOB}/tags/{{tag}}"): Role.WRITE,
    ("DELETE", f"{_JOB}/tags/{{tag}}"): Role.WRITE,
    ("GET", f"{_JOB}/runs"): Role.READ,
    ("POST", f"{_JOB}/runs"): Role.WRITE,
    ("GET", "/api/v1/jobs/runs"): Role.READ,
    ("GET", _RUN): Role.READ,
    ("GET", f"{_RUN}/facets"): Role.READ,
    ("GET", f"{_RUN}/batches"): Role.READ,
    ("GET", f"{_RUN}/hierarchy"): Role.READ,
    ("POST", f"{_RUN}/start"): Role.WRITE,
    ("POST", f"{_RUN}/complete"): Role.WRITE,
    ("POST", f"{_RUN}/fail"): Role.WRITE,
    ("POST", f"{_RUN}/abort"): Role.WRITE,
}

# Routes whose events name their namespace; the handler compares it with the key's.
_NAMESPACE_IN_BODY = frozenset({("POST", "/api/v1/lineage"), ("POST", "/api/v1/lineage/batch")})


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated client. A key may be limited to namespaces; None: all of them."""

    role: Role
    namespaces: frozenset[str] | None = None

    def require_namespace(self, namespace: str) -> None:
        """Raises:
        ApiError: 403, the key is for other namespaces.
        """
        if self.namespaces is not None and namespace not in self.namespaces:
            raise self.outside()

    def outside(self) -> ApiError:
        names = [f"'{name}'" for name in sorted(self.namespaces or ())]
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        kind = "namespace" if len(names) == 1 else "namespaces"
        listed = ", ".join(names[:_MAX_NAMED])
        return refused(403, f"this key is for {kind} {listed or 'none'}{more} only")


class Guard:
    """Authenticates requests. One instance per service."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self.required = settings.require_keys or not is_loopback(settings.host)
        self._tokens = TokenChecker(settings) if settings.oidc_issuer else None
        # Expiry and caller by digest of the key.
        self._cache: dict[bytes, tuple[float, Caller | None]] = {}
        self._lookups = asyncio.Semaphore(_MAX_LOOKUPS)

    async def caller(self, request: Request) -> Caller | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return None
        if self._tokens is not None and not token.startswith("hw_"):
            claims = await self._tokens.claims(token)
            return None if claims is None else self._caller_of_token(claims)
        return await self._caller_of_key(request, token)

    async def _caller_of_key(self, request: Request, token: str) -> Caller | None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        now = time.monotonic()
        cached = self._cache.get(digest)
        if cached is not None and cached[0] > now:
            return cached[1]
        key = await self._look_up(request, token) if looks_like_key(token) else None
        caller = None if key is None else Caller(Role[key.role.upper()], _granted(key))
        if len(self._cache) >= _MAX_KEYS:
            self._cache.clear()
        self._cache[digest] = (now + _KEY_SECONDS, caller)
        return caller

    async def _look_up(self, request: Request, token: str) -> ApiKey | None:
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                await self._lookups.acquire()
        except TimeoutError:
            raise TooBusyError("too many unknown keys are being looked up") from None
        try:
            async with service_of(request).pool.connection() as connection:
                return await find_key(connection, token)
        finally:
            self._lookups.release()

    def _caller_of_token(self, claims: dict[str, Any]) -> Caller:
        names = _names(claims.get(self._settings.oidc_roles_claim))
        roles = [Role[name.upper()] for name in names if name in ("read", "write", "admin")]
        role = max(roles, default=Role.OPEN)
        claim = self._settings.oidc_namespaces_claim
        if claim is None:
            return Caller(role)
        # A token without the claim has no namespace, and so can read and write nothing.
        namespaces = frozenset(_names(claims.get(claim)))
        return Caller(role, None if _ALL_NAMESPACES in namespaces else namespaces)


# In the claim of a token: not limited.
_ALL_NAMESPACES = "*"


def _names(claim: Any) -> list[str]:
    """The names in a claim: a list, or a text with spaces."""
    listed = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return [name for name in listed if isinstance(name, str)]


def _granted(key: ApiKey) -> frozenset[str] | None:
    return None if key.namespaces is None else frozenset(key.namespaces)


async def authorise(request: Request) -> Caller:
    """Authenticate and authorize a request: a dependency of every route.

    Raises:
        ApiError: 401 without a valid key or token, 403 without the role.
    """
    caller = request.state.caller = await _caller(request)
    return caller


def caller_of(request: Request) -> Caller:
    """The client of an authorized request."""
    caller = request.state.caller
    assert isinstance(caller, Caller)  # noqa: S101 - set by authorise
    return caller


async def _caller(request: Request) -> Caller:
    guard: Guard = request.app.state.guard
    route = (request.method, request.scope["route"].path)
    rule = RULES.get(route)
    if rule is None:
        raise refused(403, "no rule allows this route")
    if rule is Role.OPEN:
        return Caller(Role.OPEN)
    if not guard.required:
        _check_not_forwarded(request)
        return Caller(Role.ADMIN)
    caller = await guard.caller(request)
    if caller is None:
        raise refused(401, "a valid API key or token is required", headers=_CHALLENGE)
    if caller.role < rule:
        raise refused(403, f"this requires the role {rule.name.lower()}")
    if caller.namespaces is not None and route not in _NAMESPACE_IN_BODY:
        _check_namespace(caller, request)
    return caller


_CHALLENGE = {"WWW-Authenticate": "Bearer"}


# Headers that proxies add.
_PROXY_HEADERS = ("forwarded", "via", "x-real-ip")


def _check_not_forwarded(request: Request) -> None:
    """Without keys every client of this machine is trusted; the clients of a proxy are others.

    Raises:
        ApiError: 403, the request came through a proxy.
    """
    for name in request.headers:
        if name in _PROXY_HEADERS or name.startswith("x-forwarded-"):
            raise refused(
                403,
                f"the request came through a proxy (header {name}), whose clients are not "
                "authenticated: set HEADWATER_CATALOG__REQUIRE_KEYS=true, and send a key",
            )


def _check_namespace(caller: Caller, request: Request) -> None:
    namespace = request.path_params.get("namespace")
    if namespace is None:
        # Lists and graphs of all namespaces would reveal the others.
        raise caller.outside()
    caller.require_namespace(unquote(namespace))


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
