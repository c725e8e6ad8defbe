"""A lineage service for tests: the real application with a separate database."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import requests
import uvicorn
from psycopg.conninfo import make_conninfo
from tests.waiting import wait_until

from headwater.catalog.store import migrate
from headwater.service.app import create_app, with_middleware
from headwater.service.http_protocol import protocol_class
from headwater.service.page import Page
from headwater.service.record_query_pool import RecordQueries
from headwater.settings import Settings
from headwater.testing.ports import free_port

PRODUCER = "https://example.com/tests"
SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/"


class Catalog:
    """A running service. Paths are relative to `/api/v1`."""

    def __init__(self, port: int, database: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.database = database
        self.headers: dict[str, str] = {}
        # Requests with a response of 400 or above, as `POST /api/v1/lineage: 422`.
        self.refused: list[str] = []

    def call(self, method: str, path: str, **named: Any) -> requests.Response:
        headers = {**self.headers, **named.pop("headers", {})}
        timeout = named.pop("timeout", 60)
        url = path if path.startswith("http") else f"{self.url}/api/v1{path}"
        return requests.request(method, url, headers=headers, timeout=timeout, **named)

    def get(self, path: str, **named: Any) -> Any:
        """The JSON of a response with status 200."""
        response = self.call("GET", path, **named)
        assert response.status_code == 200, f"{path}: {response.status_code} {response.text}"
        return response.json()

    def send(self, *events: dict[str, Any]) -> None:
        for event in events:
            response = self.call("POST", "/lineage", json=event)
            assert response.status_code == 201, response.text

    def rows(self, statement: str) -> list[Any]:
        with psycopg.connect(self.database) as connection:
            return connection.execute(statement.encode()).fetchall()


def run_event(
    event_type: str = "COMPLETE",
    *,
    job: str = "job",
    namespace: str = "tests",
    run: str = "",
    at: str = "2026-01-01T00:00:00Z",
    inputs: list[Any] | None = None,
    outputs: list[Any] | None = None,
    run_facets: dict[str, Any] | None = None,
    job_facets: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An OpenLineage run event; datasets are names in the namespace `data`, or objects."""
    return {
        "eventType": event_type,
        "eventTime": at,
        "run": {"runId": run or run_id(job), "facets": run_facets or {}},
        "job": {"namespace": namespace, "name": job, "facets": job_facets or {}},
        "inputs": [_dataset(each) for each in inputs or []],
        "outputs": [_dataset(each) for each in outputs or []],
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}RunEvent",
    }


def _dataset(each: Any) -> Any:
    return {"namespace": "data", "name": each, "facets": {}} if isinstance(each, str) else each


def dataset(name: str, *, fields: list[str] | None = None, **facets: Any) -> dict[str, Any]:
    """A dataset of the namespace `data`."""
    if fields is not None:
        facets["schema"] = {"fields": [{"name": field, "type": "STRING"} for field in fields]}
    return {"namespace": "data", "name": name, "facets": facets}


def guarded(settings: Settings, **catalog: Any) -> Settings:
    """The same settings, with API keys required."""
    changed = settings.catalog.model_copy(update={"require_keys": True, **catalog})
    return settings.model_copy(update={"catalog": changed})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def run_id(text: str) -> str:
    """The same id for the same text."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


def fresh_database(server: str) -> str:
    """The URL of a new, empty database on the server."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return make_conninfo(server, dbname=name)


@contextmanager
def running(
    settings: Settings,
    database: str,
    port: int | None = None,
    *,
    queries: RecordQueries | None = None,
    page: bool = False,
) -> Iterator[Catalog]:
    """Serve the API, and optionally the page, in a thread until the body ends.

    Args:
        port: to restart a service on the same port.
    """
    migrate(database)
    api, app = create_app(settings, database, queries)
    if page:
        app = with_middleware(Page(api), api, settings)
    port = port or free_port()
    service = Catalog(port, database)
    limits = settings.catalog
    config = uvicorn.Config(
        _recording_refusals(app, service.refused),
        port=port,
        log_config=None,
        http=protocol_class(limits.header_seconds, limits.max_connections),
        ws="none",
        limit_concurrency=limits.max_connections,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, 30, "the service to start")
    try:
        yield service
    finally:
        server.should_exit = True
        thread.join(20)


def _recording_refusals(app: Any, refused: list[str]) -> Any:
    async def recording(scope: Any, receive: Any, send: Any) -> None:
        async def send_and_record(message: Any) -> None:
            if message.get("status", 0) >= 400:
                refused.append(f"{scope['method']} {scope['path']}: {message['status']}")
            await send(message)

        await app(scope, receive, send_and_record)

    return recording
