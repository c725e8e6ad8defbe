"""The lineage service under load: writing events, reading graphs and lists.

Typical events (two inputs, one output, 20 columns each with schema and column lineage), each
durable before it is acknowledged. Service and PostgreSQL are started in a temporary folder, and
share the machine's cores with the clients.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from socket import socket

import psutil

from headwater.bench.http_load import percentile, post, send_all, time_requests
from headwater.bench.result import BenchResult, Measurement, load_now, machine_now
from headwater.model.progress import no_progress
from headwater.service import down, up
from headwater.settings import Settings

_CLIENTS = 16
_EVENTS = 100_000
_MEASURED = 10_000
_PIPELINES = 200
_CHAIN = 10_000
_STAR = 1_000
_JOBS = 12_400
_MIB = 1024 * 1024


def measure(settings: Settings, events: int = _EVENTS) -> BenchResult:
    """Rates, latencies, CPU and memory, with targets."""
    load = load_now()
    result = BenchResult("catalog", 1)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        isolated = _isolated(settings, Path(folder))
        try:
            states = {s.name: s for s in up(["catalog"], isolated, no_progress)}
            processes = _Processes(states["catalog"].pid or 0, states["postgres"].pid or 0)
            result.measurements += _post(isolated.catalog.port, processes, min(events, _MEASURED))
            result.measurements += _queries(isolated.catalog.port)
            result.measurements += _memory(isolated.catalog.port, processes, events)
        finally:
            down(isolated, wipe=True)
    result.machine = machine_now(load)
    return result


def _isolated(settings: Settings, folder: Path) -> Settings:
    ports = [_free_port() for _ in range(3)]
    catalog = {"database_url": None, "host": "127.0.0.1", "port": ports[1], "page_port": ports[2]}
    return settings.model_copy(
        update={
            "home": folder,
            "postgres": settings.postgres.model_copy(update={"port": ports[0]}),
            "catalog": settings.catalog.model_copy(update=catalog),
        }
    )


def _free_port() -> int:
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Processes:
    """The service, and PostgreSQL with its child processes."""

    def __init__(self, service: int, postgres: int) -> None:
        self.service = psutil.Process(service)
        self._postgres = psutil.Process(postgres)

    def cpu_seconds(self) -> float:
        total = 0.0
        for process in (self.service, self._postgres, *self._postgres.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
        ended = self._postgres.cpu_times()
        return total + float(ended.children_user + ended.children_system)

    def memory_mib(self) -> float:
        return round(float(self.service.memory_info().rss) / _MIB, 1)


def _post(port: int, processes: _Processes, count: int) -> list[Measurement]:
    # Built before the clock starts: clients usually run on other machines.
    requests = iter([post("/api/v1/lineage", body) for body in _typical(count)])
    cpu, began = processes.cpu_seconds(), time.perf_counter()
    seconds, refused = asyncio.run(send_all(port, requests, _CLIENTS))
    elapsed = time.perf_counter() - began
    each = (processes.cpu_seconds() - cpu) / count * 1000
    return [
        Measurement("POST, 16 clients", round(count / elapsed), "events/s", at_least=400),
        Measurement("POST, median", percentile(seconds, 0.5), "ms"),
        Measurement("POST, p99", percentile(seconds, 0.99), "ms", at_most=100),
        Measurement("POST, refused", refused, "events", at_most=0),
        Measurement("CPU, service and database", round(each, 2), "ms/event", at_most=5),
    ]


def _queries(port: int) -> list[Measurement]:
    rest = _JOBS - _PIPELINES - _CHAIN - _STAR
    asyncio.run(send_all(port, _batches([*_chain(), *_star(), *_others(rest)]), 2))
    chain = f"/api/v1/lineage?nodeId=job:bench:chain_{_CHAIN // 2}&depth=20"
    star = "/api/v1/lineage?nodeId=dataset:bench:hub&depth=0"
    jobs = "/api/v1/namespaces/bench/jobs?limit=100"
    measurements = []
    for name, path, times, target in (
        ("GET lineage, depth 20, chain of 10,000, p95", chain, 60, 50),
        ("GET lineage, 1,000 jobs on one dataset, p95", star, 20, 300),
        ("GET jobs, 100 of 12,400, p95", jobs, 60, 50),
    ):
        asyncio.run(time_requests(port, path, 3))
        seconds = asyncio.run(time_requests(port, path, times))
        measurements.append(Measurement(name, percentile(seconds, 0.95), "ms", at_most=target))
    return measurements


def _memory(port: int, processes: _Processes, count: int) -> list[Measurement]:
    """Memory after a tenth of the events, and after all of them."""
    first = max(count // 10, 1)
    requests = (post("/api/v1/lineage", body) for body in _typical(count, start=10**7))
    asyncio.run(send_all(port, islice(requests, first), _CLIENTS))
    early = processes.memory_mib()
    asyncio.run(send_all(port, requests, _CLIENTS))
    late = processes.memory_mib()
    return [
        Measurement(f"memory after {first:,} events", early, "MiB"),
        Measurement(f"memory after {count:,} events", late, "MiB", at_most=300),
        Measurement("growth in between", round(late - early, 1), "MiB", at_most=30),
    ]


def _typical(count: int, start: int = 0) -> Iterator[bytes]:
    """START and COMPLETE events of runs of 200 pipelines, alternating."""
    for number in range(start, start + count):
        pipeline = number // 2 % _PIPELINES
        kind = ("START", "COMPLETE")[number % 2]
        names = [f"in_{pipeline}_a", f"in_{pipeline}_b"]
        inputs = [_dataset(name) for name in names]
        output = _dataset(f"out_{pipeline}", columns_from=names)
        yield _event(f"pipeline_{pipeline}", kind, number // 2, inputs, [output])


def _chain() -> Iterator[bytes]:
    for number in range(_CHAIN):
        source, target = _plain(f"link_{number}"), _plain(f"link_{number + 1}")
        yield _event(f"chain_{number}", "COMPLETE", 2 * 10**9 + number, [source], [target])


def _star() -> Iterator[bytes]:
    for number in range(_STAR):
        output = _plain(f"ray_{number}")
        yield _event(f"star_{number}", "COMPLETE", 3 * 10**9 + number, [_plain("hub")], [output])


def _others(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield _event(f"other_{number}", "COMPLETE", 4 * 10**9 + number, [], [])


def _batches(events: list[bytes]) -> Iterator[bytes]:
    for start in range(0, len(events), 200):
        body = b"\n".join(events[start : start + 200])
        yield post("/api/v1/lineage/batch", body, "application/x-ndjson")


def _event(job: str, kind: str, number: int, inputs: list[object], outputs: list[object]) -> bytes:
    run = uuid.uuid5(uuid.NAMESPACE_URL, f"bench {job} {number}")
    seconds = number % 86_400
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    event = {
        "eventType": kind,
        "eventTime": f"2026-01-{1 + number // 86_400 % 28:02}T{clock}Z",
        "run": {"runId": str(run), "facets": {}},
        "job": {"namespace": "bench", "name": job, "facets": {}},
        "inputs": inputs,
        "outputs": outputs,
        "producer": "https://example.com/bench",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
    }
    return json.dumps(event).encode()


def _plain(name: str) -> object:
    return {"namespace": "bench", "name": name}


def _dataset(name: str, columns_from: list[str] | None = None) -> object:
    columns = [f"column_{i}" for i in range(20)]
    facets: dict[str, object] = {
        "schema": {"fields": [{"name": c, "type": "VARCHAR"} for c in columns]},
        "dataSource": {"name": "bench", "uri": "bench://localhost"},
    }
    if columns_from:
        facets["columnLineage"] = {
            "fields": {
                column: {
                    "inputFields": [
                        {"namespace": "bench", "name": source, "field": column}
                        for source in columns_from
                    ]
                }
                for column in columns
            }
        }
    return {"namespace": "bench", "name": name, "facets": facets}
