"""Who may do what. Default-deny: a route without a rule is refused, and a test names it.

On loopback everybody on the machine is trusted unless `require_keys` is set. Anywhere else, every
request but the one for health needs an API key or an OIDC token with a role.
"""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from fastapi import Request

from headwater.catalog.api.oidc import TokenChecker
from headwater.catalog.api.problems import refused
from headwater.catalog.api.service import service_of
from headwater.catalog.store.keys import find_key
from headwater.settings.sections import CatalogSettings


class Role(IntEnum):
    """Each may do what those before it may do."""

    OPEN = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


_NS = "/api/v1/namespaces/{namespace}"
_JOB = f"{_NS}/jobs/{{job}}"
_DATASET = f"{_NS}/datasets/{{dataset}}"
_RUN = "/api/v1/jobs/runs/{id}"

RULES: Mapping[tuple[str, str], Role] = {
    ("GET", "/api/v1/health"): Role.OPEN,
    ("GET", "/api/v1/openapi.json"): Role.READ,
    ("POST", "/api/v1/lineage"): Role.WRITE,
    ("POST", "/api/v1/lineage/batch"): Role.WRITE,
    ("GET", "/api/v1/lineage"): Role.READ,
    ("GET", "/api/v1/column-lineage"): Role.READ,
    ("GET", "/api/v1/runlineage/upstream"): Role.READ,
    ("GET", "/api/v1/events/lineage"): Role.READ,
    ("GET", "/api/v1/search"): Role.READ,
    ("GET", "/api/v2beta/search/jobs"): Role.READ,
    ("GET", "/api/v2beta/search/datasets"): Role.READ,
    ("GET", "/api/v1/records/{topic}/{partition}/{offset}"): Role.READ,
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
    ("GET", f"{_JOB}/versions"): Role.READ,
    ("GET", f"{_JOB}/versions/{{version}}"): Role.READ,
    ("POST", f"{_JOB}/tags/{{tag}}"): Role.WRITE,
    ("DELETE", f"{_JOB}/tags/{{tag}}"): Role.WRITE,
    ("GET", f"{_JOB}/runs"): Role.READ,
    ("POST", f"{_JOB}/runs"): Role.WRITE,
    ("GET", "/api/v1/jobs/runs"): Role.READ,
    ("GET", _RUN): Role.READ,
    ("GET", f"{_RUN}/facets"): Role.READ,
    ("POST", f"{_RUN}/start"): Role.WRITE,
    ("POST", f"{_RUN}/complete"): Role.WRITE,
    ("POST", f"{_RUN}/fail"): Role.WRITE,
    ("POST", f"{_RUN}/abort"): Role.WRITE,
}

# Routes whose events name their namespace; the handler compares it with the key's.
_NAMED_IN_BODY = frozenset({("POST", "/api/v1/lineage"), ("POST", "/api/v1/lineage/batch")})

# A revoked key stops working after this time at the latest, on every service.
_KEY_SECONDS = 5.0
_MOST_KEYS = 10_000


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
            raise refused(403, f"this key is for namespace '{self.namespace}' only")


class Guard:
    """Finds out who asks; one per service."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self.required = settings.require_keys or not is_loopback(settings.host)
        self._tokens = TokenChecker(settings) if settings.oidc_issuer else None
        self._known: dict[bytes, tuple[float, Caller | None]] = {}

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
        async with service_of(request).pool.connection() as connection:
            key = await find_key(connection, token)
        caller = None if key is None else Caller(Role[key.role.upper()], key.namespace)
        if len(self._known) >= _MOST_KEYS:
            self._known.clear()
        self._known[digest] = (now + _KEY_SECONDS, caller)
        return caller

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
    if caller.namespace is not None and place not in _NAMED_IN_BODY:
        _stay_within(caller, request)
    return caller


_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _stay_within(caller: Caller, request: Request) -> None:
    from urllib.parse import unquote

    namespace = request.path_params.get("namespace")
    if namespace is None:
        # Lists and graphs over all namespaces would show what the key is not for.
        raise refused(403, f"this key is for namespace '{caller.namespace}' only")
    caller.require_namespace(unquote(namespace))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
