"""Liveness and readiness: what the probes of a load balancer see, also while the service stops."""

from __future__ import annotations

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import requests
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.catalog_support import Catalog, fresh_database, guarded, run_event, running
from tests.served import Served, served
from tests.waiting import wait_until

from headwater.catalog.store import migrate
from headwater.catalog.store.schema import newest
from headwater.settings import Settings
from headwater.testing import TcpProxy


def probe(catalog: Catalog, name: str) -> tuple[int, str]:
    """The status, and what the response states."""
    answer = catalog.call("GET", f"/health/{name}")
    body = answer.json()
    return answer.status_code, body.get("status") or body["message"]


def test_without_the_database_the_service_is_alive_but_not_ready(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    known = conninfo_to_dict(database)
    with TcpProxy(str(known["host"]), int(str(known["port"]))) as proxy:
        through = make_conninfo(database, host="127.0.0.1", port=proxy.port)
        with running(headwater_settings, through) as catalog:
            assert probe(catalog, "ready") == (200, "ready")
            for fault in (proxy.cut, proxy.half_open):
                fault()
                began = time.monotonic()
                assert probe(catalog, "ready") == (503, "the catalog's database does not respond")
                assert probe(catalog, "live") == (200, "alive")
                assert time.monotonic() - began < 3, "a probe gives up before the response"
                proxy.restore()
                wait_until(lambda: probe(catalog, "ready")[0] == 200, 40, "readiness")


@pytest.mark.parametrize(("version", "order"), [(9999, "newer"), (1, "older")])
def test_a_service_with_another_schema_is_not_ready_and_does_not_write(
    headwater_settings: Settings, postgres: str, version: int, order: str
) -> None:
    database = fresh_database(postgres)
    with running(headwater_settings, database) as catalog, psycopg.connect(database) as connection:
        connection.execute("DELETE FROM schema_versions WHERE %s = 1 AND version > 1", (version,))
        connection.execute(
            "INSERT INTO schema_versions VALUES (%s) ON CONFLICT DO NOTHING", (version,)
        )
        connection.commit()
        expected = f"has schema {version}, {order} than {newest()} of this service"
        status, reason = probe(catalog, "ready")
        assert status == 503
        assert expected in reason
        refused = catalog.call("POST", "/lineage", json=run_event())
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        assert expected in refused.json()["message"]
        assert probe(catalog, "live")[0] == 200
        assert catalog.get("/jobs")["totalCount"] == 0
        assert "headwater_ready 0.0" in catalog.call("GET", f"{catalog.url}/metrics").text


def test_probes_need_no_key_and_show_only_the_version(
    headwater_settings: Settings, postgres: str
) -> None:
    with running(guarded(headwater_settings), fresh_database(postgres)) as catalog:
        for name in ("live", "ready"):
            answer = catalog.call("GET", f"/health/{name}")
            assert answer.status_code == 200
            assert set(answer.json()) == {"status", "version"}
        assert catalog.call("GET", f"{catalog.url}/metrics").status_code == 401


def test_a_service_that_stops_is_first_not_ready_and_completes_its_requests(
    postgres: str, tmp_path: Path
) -> None:
    database = fresh_database(postgres)
    migrate(database)
    variables = {"HEADWATER_CATALOG__DRAIN_SECONDS": "3", "HEADWATER_CATALOG__QUERY_SECONDS": "30"}
    with (
        served(tmp_path / "a", database, **variables) as service,
        psycopg.connect(database) as other,
        ThreadPoolExecutor(1) as pool,
        requests.Session() as session,
    ):
        url = f"{service.url}/api/v1/health/live"
        assert "Connection" not in session.get(url, timeout=5).headers
        other.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
        sent = pool.submit(service.call, "POST", "/lineage", json=run_event(job="in flight"))
        wait_until(lambda: blocked(other), 20, "the event to wait for the lock")
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: probe(service, "ready") == (503, "the service is stopping"), 5)
        # Clients with an open connection are sent to another service.
        assert session.get(url, timeout=5).headers["Connection"] == "close"
        wait_until(lambda: service.probe("live") == 0, 10, "the ports to be closed")
        other.rollback()
        assert sent.result(20).status_code == 201
        assert service.process.wait(20) == 0
    assert stored_jobs(service) == ["in flight"]


def blocked(connection: psycopg.Connection) -> bool:
    found = connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall()
    return bool(found)


def stored_jobs(service: Served) -> list[str]:
    return [name for (name,) in service.rows("SELECT name FROM jobs ORDER BY name")]


WITHOUT_BODY = (
    "POST /api/v1/lineage HTTP/1.1\r\nHost: localhost\r\n"
    "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
)


def test_a_request_that_never_ends_does_not_keep_the_service_from_stopping(
    postgres: str, tmp_path: Path
) -> None:
    with served(tmp_path / "a", fresh_database(postgres)) as service:
        port = int(service.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(WITHOUT_BODY.encode())
            assert service.probe("ready") == 200
            began = time.monotonic()
            service.process.terminate()
            assert service.process.wait(25) == 0
            assert time.monotonic() - began > 5, "the request did not delay the end"


def test_a_second_signal_ends_the_drain(postgres: str, tmp_path: Path) -> None:
    with served(
        tmp_path / "a", fresh_database(postgres), HEADWATER_CATALOG__DRAIN_SECONDS="600"
    ) as service:
        service.process.terminate()
        wait_until(lambda: service.probe("ready") == 503, 5, "the drain")
        service.process.terminate()
        assert service.process.wait(20) == 0
