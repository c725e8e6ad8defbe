"""Requests generated from the service's OpenAPI document: none may cause a 5xx.

`FUZZ_EXAMPLES=50 pytest tests/security/test_catalog_fuzz.py` sends more of them for each route.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from tests.catalog_support import (
    Catalog,
    bearer,
    dataset,
    fresh_database,
    guarded,
    run_event,
    running,
)

from headwater.catalog.store import migrate
from headwater.catalog.store.keys import create_key
from headwater.settings import Settings

# Paths of the health checks, which need no key.
OPEN = ("/api/v1/health", "/api/v1/health/live", "/api/v1/health/ready")
# Headers by kind of key, set by the fixture.
KEYS: dict[str, dict[str, str]] = {}


def few(examples: int) -> settings:
    """A short, deterministic run, unless FUZZ_EXAMPLES is set."""
    return settings(
        max_examples=int(os.environ.get("FUZZ_EXAMPLES", examples)),
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def service(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    database = fresh_database(postgres)
    migrate(database)
    with running(guarded(headwater_settings), database) as found:
        found.headers = bearer(create_key(database, "fuzz", "admin", None)[1])
        KEYS["read"] = bearer(create_key(database, "fuzz-read", "read", None)[1])
        KEYS["limited"] = bearer(create_key(database, "fuzz-limited", "admin", "tests")[1])
        KEYS["admin"] = found.headers
        found.send(run_event(outputs=[dataset("x", fields=["a"])]))
        yield found


def operations(service: Catalog) -> Iterator[Any]:
    schema = schemathesis.openapi.from_url(
        f"{service.url}/api/v1/openapi.json", headers=service.headers
    )
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        yield found.ok()


@pytest.mark.parametrize(("kind", "examples"), [("admin", 6), ("read", 1), ("limited", 2)])
def test_no_request_with_a_key_ends_in_a_server_error(
    service: Catalog, kind: str, examples: int
) -> None:
    count = 0
    for operation in operations(service):

        @few(examples)
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            answer = case.call(headers=KEYS[kind], timeout=30)
            assert answer.status_code < 500, f"{case.method} {case.path}: {answer.text}"

        send()
        count += 1
    assert count >= 50


def test_every_request_without_a_key_is_refused(service: Catalog) -> None:
    for operation in operations(service):

        @few(2)
        @given(case=operation.as_strategy())
        def send(case: Any) -> None:
            answer = case.call(timeout=30)
            allowed = (200,) if case.path in OPEN else (401, 404)
            assert answer.status_code in allowed, f"{case.method} {case.path}: {answer.text}"

        send()


def test_reads_still_succeed_after_the_fuzzing(service: Catalog) -> None:
    for path in ("/namespaces", "/jobs", "/sources", "/tags", "/jobs/runs", "/events/lineage"):
        answer = service.call("GET", path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        assert any(isinstance(part, list) for part in answer.json().values()), path
