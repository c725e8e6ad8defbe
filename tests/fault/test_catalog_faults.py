"""The service and its database die in the middle of writing: nothing acknowledged is lost, nothing
is there twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import requests
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running

from headwater.catalog.identity import job_id
from headwater.catalog.store import migrate
from headwater.services import down, up
from headwater.services.catalog import CatalogService
from headwater.services.postgres import PostgresServer
from headwater.settings import Settings
from headwater.testing.fixtures import local_settings

WRITERS = 8


def unwatched(group: str) -> Any:
    return lambda done, total: None


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Settings]:
    settings = local_settings(tmp_path / "home")
    yield settings
    down(settings, wipe=True)


class Load:
    """Writers that send numbered events, and send one again until it is acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/api/v1/lineage"
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._next = 0
        self.acknowledged: list[int] = []
        self.failures = 0
        self.unexpected: list[str] = []
        self._threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        session = requests.Session()
        while not self._stop.is_set():
            with self._lock:
                number = self._next
                self._next += 1
            event = run_event(
                job=f"job {number % 5}",
                run=run_id(f"load {number}"),
                inputs=["shared", f"in {number % 7}"],
                outputs=["result"],
            )
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    answer = session.post(self._url, json=event, timeout=20)
                except requests.RequestException:
                    status = 0
                else:
                    status = answer.status_code
                if status == 201:
                    with self._lock:
                        self.acknowledged.append(number)
                    break
                with self._lock:
                    self.failures += 1
                    if status not in (0, 503):
                        self.unexpected.append(f"{status}: {answer.text}")
                time.sleep(0.1)

    def wait_for(self, count: int) -> None:
        wanted = len(self.acknowledged) + count
        deadline = time.monotonic() + 60
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, "events are not acknowledged any more"
            time.sleep(0.05)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(70)


def check(load: Load, database: str) -> None:
    assert load.failures > 0, "the fault was not noticed: it proves nothing"
    assert load.unexpected == []
    with psycopg.connect(database) as connection:
        runs = connection.execute("SELECT run_id FROM events").fetchall()
        projected = connection.execute("SELECT id FROM runs").fetchall()
    stored = [str(run) for (run,) in runs]
    assert len(stored) == len(set(stored)), "an event is there twice"
    missing = {run_id(f"load {number}") for number in load.acknowledged} - set(stored)
    assert missing == set()
    # Event and projection are one: neither without the other.
    assert {str(run) for (run,) in projected} == set(stored)


def test_postgres_restarted_under_load_loses_no_acknowledged_event(home: Settings) -> None:
    list(up(["catalog"], home, unwatched))
    server = PostgresServer(home)
    load = Load(f"http://127.0.0.1:{home.catalog.port}")
    try:
        load.wait_for(50)
        server.stop()
        time.sleep(1)
        server.start(unwatched)
        load.wait_for(50)
        process = psutil.Process(server.state().pid or 0)
        process.kill()
        psutil.wait_procs([process], timeout=20)
        server.start(unwatched)
        load.wait_for(50)
    finally:
        load.stop()
    check(load, server.url)


@pytest.mark.parametrize("point", ["before_catalog_commit", "after_catalog_commit"])
def test_the_service_killed_around_its_commit_loses_and_doubles_nothing(
    home: Settings, point: str
) -> None:
    faulty = home.model_copy(
        update={"testing": home.testing.model_copy(update={"fault_points": f"{point}=kill@20"})}
    )
    list(up(["catalog"], faulty, unwatched))
    load = Load(f"http://127.0.0.1:{home.catalog.port}")
    try:
        deadline = time.monotonic() + 60
        while CatalogService(home).state().pid is not None:
            assert time.monotonic() < deadline, "the fault did not happen"
            time.sleep(0.1)
        list(up(["catalog"], home, unwatched))
        load.wait_for(50)
    finally:
        load.stop()
    journal = (home.home_dir / "faults.journal").read_text()
    assert f"{point} kill 20" in journal
    check(load, PostgresServer(home).url)


def test_fifty_writers_that_name_the_same_datasets_in_opposite_order_get_no_error(
    headwater_settings: Settings, postgres: str
) -> None:
    # Two services on one database: inside one, all that waits is written together.
    database = fresh_database(postgres)
    migrate(database)
    names = [f"contended {i}" for i in range(20)]
    with (
        running(headwater_settings, database) as one,
        running(headwater_settings, database) as other,
    ):

        def write(number: int) -> list[int]:
            found = []
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
                found.append(service.call("POST", "/lineage", json=event).status_code)
            return found

        with ThreadPoolExecutor(50) as pool:
            answers = [status for listed in pool.map(write, range(50)) for status in listed]
        assert set(answers) == {201}
        assert one.get("/jobs/runs")["totalCount"] == 300


def test_a_huge_graph_is_answered_within_bounds(
    headwater_settings: Settings, postgres: str
) -> None:
    database = fresh_database(postgres)
    migrate(database)
    # Straight into the tables: a chain of 50,000 jobs and as many datasets, closed to a ring.
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
