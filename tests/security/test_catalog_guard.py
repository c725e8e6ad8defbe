"""Who may do what: default-deny, exact routes, keys, tokens, origins."""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi.routing import APIRoute
from tests.catalog_support import Catalog, fresh_database, run_event, running

from headwater.catalog.api.app import create_api
from headwater.catalog.api.guard import Guard
from headwater.catalog.api.rules import RULES, Role
from headwater.catalog.store import migrate
from headwater.catalog.store.keys import create_key, revoke_key
from headwater.errors import SettingError
from headwater.settings import Settings, load

OPEN = {("GET", "/api/v1/health")}


def guarded(settings: Settings, **catalog: Any) -> Settings:
    changed = settings.catalog.model_copy(update={"require_keys": True, **catalog})
    return settings.model_copy(update={"catalog": changed})


@pytest.fixture(scope="module")
def database(postgres: str) -> str:
    found = fresh_database(postgres)
    migrate(found)
    return found


@pytest.fixture(scope="module")
def keys(database: str) -> dict[str, str]:
    roles = {role: create_key(database, role, role, None)[1] for role in ("read", "write", "admin")}
    return {**roles, "limited": create_key(database, "limited", "admin", "mine")[1]}


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, database: str) -> Iterator[Catalog]:
    with running(guarded(headwater_settings), database) as found:
        yield found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def routes(settings: Settings) -> set[tuple[str, str]]:
    api = create_api(settings, "postgresql://nobody@127.0.0.1:1/nothing")
    found: set[tuple[str, str]] = set()
    pending: list[Any] = list(api.router.routes)
    while pending:
        route = pending.pop()
        if hasattr(route, "original_router"):  # a router that was included
            pending += route.original_router.routes
        elif isinstance(route, APIRoute):
            found |= {(method, route.path) for method in route.methods or ()}
        else:
            found.add(("?", str(route)))
    return found


def test_every_route_has_a_rule_and_every_rule_a_route(headwater_settings: Settings) -> None:
    assert routes(headwater_settings) == set(RULES)
    assert len(RULES) >= 48


def test_only_health_is_open() -> None:
    assert {place for place, role in RULES.items() if role is Role.OPEN} == OPEN


@pytest.mark.parametrize(("method", "path"), sorted(set(RULES) - OPEN))
def test_no_route_answers_without_a_key_or_with_a_wrong_one(
    service: Catalog, method: str, path: str
) -> None:
    place = service.url + re.sub(r"\{\w+\}", "1", path)
    for headers in ({}, bearer("hw_00000000_x"), bearer("x"), {"Authorization": "Basic eDp5"}):
        answer = service.call(method, place, headers=headers)
        assert answer.status_code == 401, f"{method} {path} {headers}"
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json().keys() == {"code", "message"}


def test_a_role_opens_what_it_is_for_and_no_more(service: Catalog, keys: dict[str, str]) -> None:
    ranks = {"read": Role.READ, "write": Role.WRITE, "admin": Role.ADMIN}
    for (method, path), needed in RULES.items():
        place = service.url + re.sub(r"\{\w+\}", "1", path)
        for name, rank in ranks.items():
            answer = service.call(method, place, headers=bearer(keys[name]))
            refused = answer.status_code in (401, 403)
            assert refused is (rank < needed), f"{name}: {method} {path}: {answer.status_code}"


def test_a_limited_key_touches_its_own_namespace_only(
    service: Catalog, keys: dict[str, str]
) -> None:
    headers = bearer(keys["limited"])
    mine, other = run_event(namespace="mine"), run_event(namespace="other")
    assert service.call("POST", "/lineage", json=mine, headers=headers).status_code == 201
    assert service.call("POST", "/lineage", json=other, headers=headers).status_code == 403
    both = service.call("POST", "/lineage/batch", json=[mine, other], headers=headers)
    assert both.json()["summary"]["failed"] == 1
    assert service.call("GET", "/namespaces/mine/jobs", headers=headers).status_code == 200
    for path in (
        "/namespaces/other/jobs",
        "/namespaces/%6d%69ne%2f/jobs",
        "/namespaces",
        "/jobs",
        "/search?q=a",
        "/lineage?nodeId=job:other:job",
        "/events/lineage",
    ):
        assert service.call("GET", path, headers=headers).status_code == 403, path


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/health/../namespaces",
        "/api/v1/health%2f..%2fnamespaces",
        "/api/v1/health;/../namespaces",
        "//api/v1/namespaces",
        "/api/v1//namespaces",
        "/api/v1/namespaces.",
        "/api/v1/%6eamespaces",
        "/api/v1/healthx",
        "/api/v1/health/x",
        "/API/V1/NAMESPACES",
    ],
)
def test_tricks_with_the_path_open_nothing(service: Catalog, path: str) -> None:
    import http.client

    # As it stands: other clients would tidy the path up.
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status in (401, 403, 404)
    assert b"namespaces" not in answer.read()
    connection.close()


def test_a_revoked_key_stops_working_within_seconds(service: Catalog, database: str) -> None:
    made, token = create_key(database, "short", "read", None)
    assert service.call("GET", "/namespaces", headers=bearer(token)).status_code == 200
    assert revoke_key(database, made.id)
    deadline = time.monotonic() + 20
    while service.call("GET", "/namespaces", headers=bearer(token)).status_code != 401:
        assert time.monotonic() < deadline, "still accepted"
        time.sleep(0.5)


def test_only_hashes_of_keys_are_stored(service: Catalog, keys: dict[str, str]) -> None:
    stored = str(service.rows("SELECT * FROM api_keys"))
    assert all(key.split("_", 2)[2] not in stored for key in keys.values())


@pytest.mark.parametrize(
    ("host", "required"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("::", True)],
)
def test_beyond_loopback_keys_are_required(host: str, required: bool) -> None:
    assert Guard(load(catalog={"host": host}).catalog).required is required


class Issuer:
    """A local OIDC issuer: one signing key, published as a key set."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        document = {"keys": [{**jwk, "kid": "k1", "use": "sig", "alg": "RS256"}]}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                configuration = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                body = json.dumps(document if self.path == "/keys" else configuration).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def token(self, **changes: Any) -> str:
        claims = {
            "iss": self.url,
            "aud": "headwater",
            "exp": int(time.time()) + 60,
            "roles": ["write"],
            **changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": "k1"})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    found = Issuer()
    yield found
    found.close()


@pytest.fixture(scope="module")
def with_tokens(headwater_settings: Settings, database: str, issuer: Issuer) -> Iterator[Catalog]:
    settings = guarded(headwater_settings, oidc_issuer=issuer.url, oidc_audience="headwater")
    with running(settings, database) as found:
        yield found


def test_a_token_of_the_issuer_opens_what_its_roles_are_for(
    with_tokens: Catalog, issuer: Issuer, keys: dict[str, str]
) -> None:
    headers = bearer(issuer.token())
    event = run_event(job="by token")
    assert with_tokens.call("POST", "/lineage", json=event, headers=headers).status_code == 201
    assert with_tokens.call("DELETE", "/namespaces/tests", headers=headers).status_code == 403
    # Keys go on working beside tokens.
    assert with_tokens.call("GET", "/tags", headers=bearer(keys["read"])).status_code == 200


def test_a_token_that_is_not_quite_right_opens_nothing(
    with_tokens: Catalog, issuer: Issuer
) -> None:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    wrong = {
        "expired": issuer.token(exp=int(time.time()) - 3600),
        "no expiry": issuer.token(exp=None),
        "another audience": issuer.token(aud="other"),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://example.com"),
        "another key": jwt.encode(claims, stranger, algorithm="RS256", headers={"kid": "k1"}),
        "unknown key": jwt.encode(claims, stranger, algorithm="RS256", headers={"kid": "k2"}),
        "unsigned": jwt.encode(claims, "", algorithm="none", headers={"kid": "k1"}),
        "cut off": issuer.token()[:-20],
    }
    for reason, token in wrong.items():
        answer = with_tokens.call("GET", "/namespaces", headers=bearer(token))
        assert answer.status_code == 401, reason
    for roles in ([], ["nothing"], None, {"read": True}):
        answer = with_tokens.call("GET", "/tags", headers=bearer(issuer.token(roles=roles)))
        assert answer.status_code == 403, roles


@pytest.mark.parametrize(
    "catalog",
    [
        {"oidc_issuer": "https://example.com"},
        {"oidc_issuer": "http://example.com", "oidc_audience": "x"},
    ],
)
def test_an_issuer_without_audience_or_tls_is_refused(catalog: dict[str, str]) -> None:
    with pytest.raises(SettingError, match="OIDC"):
        Guard(load(catalog=catalog).catalog)


def test_on_loopback_pages_of_other_origins_can_neither_write_nor_read(catalog: Catalog) -> None:
    event = run_event(job="of a page")
    refused = catalog.call(
        "POST", "/lineage", json=event, headers={"Origin": "https://evil.example"}
    )
    assert refused.status_code == 403
    rebound = catalog.call("GET", "/namespaces", headers={"Host": "evil.example"})
    assert rebound.status_code == 403
    own = catalog.call("POST", "/lineage", json=event, headers={"Origin": "http://localhost:3000"})
    assert own.status_code == 201
    # None by default: no header says that another origin may read.
    answer = catalog.call("GET", "/namespaces", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_origins_that_are_set_may_call(headwater_settings: Settings, database: str) -> None:
    settings = guarded(headwater_settings, cors_origins=("https://lineage.example",))
    with running(settings, database) as found:
        answer = requests.options(
            f"{found.url}/api/v1/namespaces",
            headers={
                "Origin": "https://lineage.example",
                "Access-Control-Request-Method": "GET",
            },
            timeout=10,
        )
    assert answer.headers["access-control-allow-origin"] == "https://lineage.example"


def test_secrets_are_neither_in_the_log_nor_in_answers(
    service: Catalog, keys: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    password = re.search(r"password=(\S+)", service.database)
    caplog.set_level(logging.DEBUG)
    texts = [
        service.call(method, path, headers=bearer(keys["admin"])).text
        for method, path in (("GET", "/health"), ("GET", "/nothing"), ("PUT", "/tags/x"))
    ]
    shown = caplog.text + "".join(texts)
    for secret in (keys["admin"].split("_", 2)[2], password[1] if password else "?"):
        assert secret not in shown
