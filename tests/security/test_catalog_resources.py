"""Clients that ask for too much: the memory of the service is bounded, and health responds."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psutil
import pytest
import requests
from tests.catalog_support import Catalog, dataset, run_event, run_id

from headwater.service import down, up
from headwater.service.catalog import CatalogServer
from headwater.testing.fixtures import local_settings

MAX_MEMORY = 400 << 20
FACET = "x" * (8 << 20)
# Bounds a health check that hangs.
HEALTH_SECONDS = 10
# Nearly all checks: single ones also wait for the machine's other processes.
SOON_SECONDS, SOON_SHARE = 1, 0.95


class Watched:
    """A service in its own process. Its memory and its health are sampled until the test ends."""

    def __init__(self, url: str, process: int) -> None:
        self.catalog = Catalog(int(url.rpartition(":")[2]), "")
        self.memory = 0
        self.health_seconds: list[float] = []
        self._process = psutil.Process(process)
        self._stop = threading.Event()

    @contextmanager
    def sampled(self) -> Iterator[None]:
        with ThreadPoolExecutor(2) as pool:
            samplers = [pool.submit(self._repeat, each) for each in (self._measure, self._check)]
            try:
                yield
            finally:
                self._stop.set()
            for sampler in samplers:
                sampler.result(HEALTH_SECONDS * 2)

    def _repeat(self, sample: Callable[[], None]) -> None:
        while not self._stop.wait(0.05):
            sample()

    def _measure(self) -> None:
        processes = [self._process, *self._process.children(recursive=True)]
        self.memory = max(self.memory, sum(each.memory_info().rss for each in processes))

    def _check(self) -> None:
        began = time.monotonic()
        url = f"{self.catalog.url}/api/v1/health"
        assert requests.get(url, timeout=HEALTH_SECONDS).status_code == 200
        self.health_seconds.append(time.monotonic() - began)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    settings = local_settings(tmp_path_factory.mktemp("resources") / "home")
    try:
        for _ in up(["catalog"], settings):
            pass
        process = CatalogServer(settings).state().pid
        assert process is not None
        yield f"http://127.0.0.1:{settings.catalog.port}", process
    finally:
        down(settings, wipe=True)


@pytest.fixture
def service(started: tuple[str, int]) -> Iterator[Watched]:
    watched = Watched(*started)
    with watched.sampled():
        yield watched
    seconds = sorted(watched.health_seconds)
    soon = sum(each < SOON_SECONDS for each in seconds)
    report = (
        f"memory at most {watched.memory >> 20} MiB, {soon} of {len(seconds)} health checks within "
        f"{SOON_SECONDS} s, median {seconds[len(seconds) // 2]:.3f} s, slowest {seconds[-1]:.2f} s"
    )
    print(report)
    assert watched.memory < MAX_MEMORY, report
    assert soon >= SOON_SHARE * len(seconds), report


def get_at_once(service: Watched, paths: list[str]) -> list[int]:
    with ThreadPoolExecutor(len(paths)) as pool:
        return [
            each.status_code for each in pool.map(lambda p: service.catalog.call("GET", p), paths)
        ]


def test_lists_and_graphs_of_runs_with_large_facets(service: Watched) -> None:
    for number in range(20):
        facets = {"large": {"text": FACET, "_producer": "p", "_schemaURL": "s"}}
        run = run_id(f"large {number}")
        service.catalog.send(run_event(namespace="big", run=run, run_facets=facets, outputs=["o"]))
    paths = ["/jobs/runs?limit=20", "/jobs?limit=20", "/graph?namespace=big", "/events/lineage"]
    # Refused for a moment is fine: the next test of the same service shows that it still responds.
    assert set(get_at_once(service, paths * 2)) <= {200, 429}
    assert set(get_at_once(service, paths[:1])) == {200}


def test_column_lineage_of_a_long_chain_for_clients_that_hang_up(service: Watched) -> None:
    for number in range(300):
        inputs = [{"namespace": "data", "name": f"c{number}", "field": "c"}]
        columns = {"fields": {"c": {"inputFields": inputs}}, "_producer": "p", "_schemaURL": "s"}
        output = dataset(f"c{number + 1}", fields=["c"], columnLineage=columns)
        service.catalog.send(run_event(job=f"chain {number}", outputs=[output]))
    path = "/column-lineage?nodeId=datasetField:data:c300:c&depth=2147483647"
    port = int(service.catalog.url.rpartition(":")[2])
    for _ in range(40):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(f"GET /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert set(get_at_once(service, [path] * 8)) <= {200, 429}
    assert len(service.catalog.get(path)["graph"]) == 301


def test_more_silent_connections_than_allowed(service: Watched) -> None:
    port = int(service.catalog.url.rpartition(":")[2])
    with ExitStack() as stack:
        for _ in range(1001):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        checked = len(service.health_seconds)
        time.sleep(3)
        assert len(service.health_seconds) > checked
