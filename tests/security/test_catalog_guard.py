"""Authorization: default-deny, exact routes, keys, origins."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from fastapi.routing import APIRoute
from tests.catalog_support import Catalog, bearer, fresh_database, guarded, run_event, running
from tests.waiting import wait_until

from headwater.catalog.api.guard import RULES, Guard, Role
from headwater.catalog.store import migrate
from headwater.catalog.store.keys import create_key, revoke_key
from headwater.errors import SettingError
from headwater.service.app import create_api
from headwater.service.server import serve
from headwater.settings import Settings, load

OPEN = {("GET", f"/api/v1/health{path}") for path in ("", "/live", "/ready")}


@pytest.fixture(scope="module")
def database(postgres: str) -> str:
    found = fresh_database(postgres)
    migrate(found)
    return found


@pytest.fixture(scope="module")
def keys(database: str) -> dict[str, str]:
    return {role: create_key(database, role, role, None)[1] for role in ("read", "write", "admin")}


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, database: str) -> Iterator[Catalog]:
    with running(guarded(headwater_settings), database) as found:
        yield found


def routes(settings: Settings) -> set[tuple[str, str]]:
    api = create_api(settings, "postgresql://user@127.0.0.1:1/none")
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
    assert {route for route, role in RULES.items() if role is Role.OPEN} == OPEN


@pytest.mark.parametrize(("method", "path"), sorted(set(RULES) - OPEN))
def test_no_route_is_accessible_without_a_valid_key(
    service: Catalog, method: str, path: str
) -> None:
    url = service.url + re.sub(r"\{\w+\}", "1", path)
    for headers in ({}, bearer("hw_00000000_x"), bearer("x"), {"Authorization": "Basic eDp5"}):
        answer = service.call(method, url, headers=headers)
        assert answer.status_code == 401, f"{method} {path} {headers}"
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.json().keys() == {"code", "message"}


def test_a_role_allows_its_routes_and_no_others(service: Catalog, keys: dict[str, str]) -> None:
    ranks = {"read": Role.READ, "write": Role.WRITE, "admin": Role.ADMIN}
    for (method, path), required in RULES.items():
        url = service.url + re.sub(r"\{\w+\}", "1", path)
        for name, rank in ranks.items():
            answer = service.call(method, url, headers=bearer(keys[name]))
            refused = answer.status_code in (401, 403)
            assert refused is (rank < required), f"{name}: {method} {path}: {answer.status_code}"


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
def test_manipulated_paths_give_no_access(service: Catalog, path: str) -> None:
    import http.client

    # http.client sends the path unchanged; other clients normalize it.
    connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status in (401, 403, 404)
    assert b"namespaces" not in answer.read()
    connection.close()


def test_a_revoked_key_stops_working_within_seconds(
    service: Catalog, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.catalog.api.guard._KEY_SECONDS", 0.5)
    key, token = create_key(database, "short", "read", None)
    assert service.call("GET", "/namespaces", headers=bearer(token)).status_code == 200
    assert revoke_key(database, key.id)
    wait_until(
        lambda: service.call("GET", "/namespaces", headers=bearer(token)).status_code == 401,
        20,
        "the rejection of the key",
        pause_seconds=0.1,
    )


def test_only_hashes_of_keys_are_stored(service: Catalog, keys: dict[str, str]) -> None:
    stored = str(service.rows("SELECT * FROM api_keys"))
    assert all(key.split("_", 2)[2] not in stored for key in keys.values())


@pytest.mark.parametrize(
    ("host", "required"),
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("0.0.0.0", True), ("::", True)],
)
def test_keys_are_required_unless_the_service_listens_on_loopback(
    host: str, required: bool
) -> None:
    assert Guard(load(catalog={"host": host}).catalog).required is required


def test_on_loopback_pages_of_other_origins_can_neither_write_nor_read(catalog: Catalog) -> None:
    event = run_event(job="of a page")
    refused = catalog.call(
        "POST", "/lineage", json=event, headers={"Origin": "https://evil.example"}
    )
    assert refused.status_code == 403
    rebound = catalog.call("GET", "/namespaces", headers={"Host": "evil.example"})
    assert rebound.status_code == 403
    for origin in ("http://localhost:8888", "http://127.0.0.1", "http://localhost", "null"):
        other = catalog.call("POST", "/lineage", json=event, headers={"Origin": origin})
        assert other.status_code == 403, f"{origin}: another port is another origin"
        untyped = catalog.call("POST", "/jobs/runs/x/start", headers={"Origin": origin})
        assert untyped.status_code == 403, origin
    own = catalog.call("POST", "/lineage", json=event, headers={"Origin": catalog.url})
    assert own.status_code == 201
    # By default no CORS header allows another origin to read.
    answer = catalog.call("GET", "/namespaces", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "header",
    ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP"],
)
def test_clients_of_a_proxy_are_not_trusted_without_keys(catalog: Catalog, header: str) -> None:
    for method, path in (("GET", "/namespaces"), ("POST", "/lineage"), ("GET", "/events/lineage")):
        answer = catalog.call(method, path, headers={header: "for=192.0.2.1"}, json=run_event())
        assert answer.status_code == 403
        assert "HEADWATER_CATALOG__REQUIRE_KEYS" in answer.json()["message"]
    health = catalog.call("GET", "/health", headers={header: "for=192.0.2.1"})
    assert health.status_code == 200


def test_clients_of_a_proxy_can_use_keys(service: Catalog, keys: dict[str, str]) -> None:
    headers = {**bearer(keys["read"]), "X-Forwarded-For": "192.0.2.1"}
    assert service.call("GET", "/namespaces", headers=headers).status_code == 200


def test_an_invalid_certificate_is_reported_as_a_setting_error(tmp_path: Path) -> None:
    path = tmp_path / "certificate.pem"
    path.write_text("not a certificate")
    files = {"tls_certificate": path, "tls_key": path}
    with pytest.raises(SettingError, match=r"can't be used for TLS") as raised:
        serve(load(catalog=files), "postgresql://user@127.0.0.1:1/none")
    assert raised.value.hint


def test_configured_origins_are_allowed(headwater_settings: Settings, database: str) -> None:
    origin = "https://lineage.example"
    settings = guarded(headwater_settings, cors_origins=(origin,))
    with running(settings, database) as found:
        written = found.call("POST", "/lineage", json={}, headers={"Origin": origin})
        assert written.status_code == 401, "the origin is accepted, the key is missing"
        other = found.call("POST", "/lineage", json={}, headers={"Origin": f"{origin}.evil"})
        assert other.status_code == 403
        answer = requests.options(
            f"{found.url}/api/v1/namespaces",
            headers={
                "Origin": "https://lineage.example",
                "Access-Control-Request-Method": "GET",
            },
            timeout=10,
        )
    assert answer.headers["access-control-allow-origin"] == "https://lineage.example"


def test_any_origin_is_allowed_if_configured(headwater_settings: Settings, database: str) -> None:
    settings = guarded(headwater_settings, cors_origins=("*",))
    with running(settings, database) as found:
        headers = {"Origin": "https://any.example"}
        written = found.call("POST", "/lineage", json={}, headers=headers)
        assert written.status_code == 401, "the origin is accepted, the key is missing"


def test_invalid_keys_do_not_use_up_all_connections(
    service: Catalog, database: str, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.catalog.api.guard._LOOKUP_SECONDS", 0.5)
    monkeypatch.setattr("headwater.catalog.api.guard._KEY_SECONDS", 60.0)
    # A cached key needs no lookup.
    cached = create_key(database, "cached", "read", None)[1]
    assert service.call("GET", "/namespaces", headers=bearer(cached)).status_code == 200
    kind, number, secret = keys["read"].split("_", 2)
    with psycopg.connect(database) as other, ThreadPoolExecutor(20) as pool:
        other.execute("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE")
        invalid = [
            pool.submit(
                service.call, "GET", "/namespaces", headers=bearer(f"{kind}_{number}_{i}{secret}")
            )
            for i in range(20)
        ]
        time.sleep(1.5)
        waiting = [each for each in invalid if not each.done()]
        assert 0 < len(waiting) <= 2
        assert service.call("GET", "/namespaces", headers=bearer(cached)).status_code == 200
        other.rollback()
        answers = [each.result().status_code for each in invalid]
    assert set(answers) == {401, 429}


def test_secrets_are_neither_in_the_log_nor_in_responses(
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
