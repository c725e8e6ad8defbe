"""Responses are limited in bytes and in time, and work for clients that hung up is cancelled."""
# ruff: noqa: S608 - the statements are made of constants

from __future__ import annotations

import random
import socket
import string
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.catalog_support import Catalog, dataset, fresh_database, run_event, run_id, running
from tests.waiting import wait_until

from headwater.catalog.identity import dataset_id
from headwater.settings import Settings

LIMIT = 256 * 1024
# Longer than a third of the limit, and not compressible.
LARGE = "".join(random.Random(1).choices(string.ascii_letters, k=100_000))  # noqa: S311
RUNS = 12


@pytest.fixture(scope="module")
def limited(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A service with a small limit, and runs, jobs and datasets with large facets."""
    changed = headwater_settings.catalog.model_copy(update={"max_response_mb": LIMIT / 2**20})
    settings = headwater_settings.model_copy(update={"catalog": changed})
    with running(settings, fresh_database(postgres)) as service:
        for i in range(RUNS):
            text = {"text": f"{i}{LARGE}"}
            fields = [f"c{j}" for j in range(50)]
            service.send(
                run_event(
                    job=f"job{i % 3}",
                    run=run_id(f"run{i}"),
                    at=f"2026-01-01T00:00:{i:02}Z",
                    run_facets={"large": text, "small": {"n": i}},
                    job_facets={"large": text, "documentation": {"description": LARGE}},
                    outputs=[dataset(f"out{i % 3}", fields=fields, large=text, documentation=text)],
                )
            )
        yield service


LISTS = [
    "/jobs/runs?limit=20",
    "/jobs?limit=20",
    "/namespaces/tests/jobs",
    "/namespaces/tests/jobs/job0",
    "/namespaces/tests/jobs/job0/runs",
    "/namespaces/data/datasets",
    "/namespaces/data/datasets/out0/versions",
    "/graph",
    "/events/lineage",
]


@pytest.mark.parametrize("path", LISTS)
def test_a_response_is_limited_in_bytes(limited: Catalog, path: str) -> None:
    response = limited.call("GET", path, headers={"Accept-Encoding": "identity"})
    assert response.status_code == 200
    # Facets, names and columns each have the limit; the latest run of a job is in it twice.
    assert len(response.content) < 4 * LIMIT
    assert response.json()["truncated"] is True


def test_the_smallest_facets_are_kept_and_the_others_have_a_marker(limited: Catalog) -> None:
    for run in limited.get("/jobs/runs?limit=20")["runs"]:
        assert run["facets"]["small"]["n"] in range(RUNS)
        assert run["facets"]["large"]["truncated"] is True
        assert run["facets"]["large"]["bytes"] > len(LARGE)


def test_a_single_run_with_a_facet_below_the_limit_is_complete(limited: Catalog) -> None:
    run = limited.get(f"/jobs/runs/{run_id('run1')}")
    assert run["facets"]["large"] == {"text": f"1{LARGE}"}
    assert "truncated" not in run
    facets = limited.get(f"/jobs/runs/{run_id('run1')}/facets?type=run")["facets"]
    assert facets["large"] == {"text": f"1{LARGE}"}


@pytest.mark.parametrize("kind", ["namespaces", "sources", "tags"])
def test_lists_of_long_descriptions_are_limited(limited: Catalog, kind: str) -> None:
    for i in range(6):
        body = {"description": LARGE, "type": "X", "connectionUrl": "x"}
        assert limited.call("PUT", f"/{kind}/long{i}", json=body).status_code == 200
    listed = limited.get(f"/{kind}")
    assert listed["truncated"] is True
    assert len(listed[kind]) >= 6
    texts = [each["description"] for each in listed[kind] if each["name"].startswith("long")]
    assert texts.count(None) >= 4
    assert limited.get(f"/{kind}?limit=1")[kind]


def test_small_responses_are_not_truncated(catalog: Catalog) -> None:
    catalog.send(run_event(inputs=["a"], outputs=[dataset("b", fields=["x"])]))
    for path in ("/jobs/runs", "/jobs", "/graph", "/namespaces/data/datasets"):
        assert "truncated" not in catalog.get(path), path


def add(service: Catalog, *statements: str) -> None:
    with psycopg.connect(service.database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


# Ids that follow from a number.
def key(kind: str, number: str) -> str:
    return f"md5('{kind}' || ({number}))::uuid"


def datasets(count: int) -> str:
    return f"""INSERT INTO datasets
        (id, namespace_id, namespace, name, canonical_id, created_at, updated_at)
        SELECT {key("d", "n")}, md5('many')::uuid, 'many', 'd' || n, {key("d", "n")}, now(), now()
        FROM generate_series(0, {count}) AS n"""


def runs(count: int, job: str) -> str:
    return f"""INSERT INTO runs (id, job_id, job_at, seen_at, ended_at, end_state, completed)
        SELECT {key("r", "n")}, (SELECT id FROM jobs WHERE name = '{job}'), now(), now(), now(),
            'COMPLETED', true
        FROM generate_series(0, {count}) AS n"""


@pytest.fixture
def own(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    with running(headwater_settings, fresh_database(postgres)) as service:
        service.send(run_event(job="job"))
        yield service


def seconds(service: Catalog, path: str) -> tuple[float, Any]:
    began = time.monotonic()
    response = service.get(path)
    return time.monotonic() - began, response


def test_a_job_with_60_000_outputs_is_limited_in_rows(own: Catalog) -> None:
    add(
        own,
        datasets(10_000),
        runs(5, "job"),
        f"""INSERT INTO run_datasets (run_id, dataset_id, output, at)
            SELECT {key("r", "r")}, {key("d", "d")}, true, now()
            FROM generate_series(0, 5) AS r, generate_series(1, 10000) AS d""",
    )
    took, job = seconds(own, "/namespaces/tests/jobs/job")
    assert took < 10
    assert job["truncated"] is True
    assert sum(len(run["outputDatasetVersions"]) for run in job["latestRuns"]) <= 20_000


def test_a_chain_of_3_000_columns_is_walked_at_once(own: Catalog) -> None:
    add(
        own,
        datasets(3000),
        f"""INSERT INTO column_sets SELECT {key("d", "n")}, md5('job')::uuid, md5('h')::uuid,
            now(), now() FROM generate_series(1, 3000) AS n""",
        f"""INSERT INTO column_edges SELECT {key("d", "n")}, md5('h')::uuid, 'c',
            {key("d", "n - 1")}, 'c', '[]' FROM generate_series(1, 3000) AS n""",
    )
    for number in (0, 3000):
        own_id = f"'{dataset_id('many', f'd{number}')}'"
        for column in (
            "datasets.id",
            "datasets.canonical_id",
            "column_sets.dataset_id",
            "column_edges.dataset_id",
            "column_edges.input_id",
        ):
            table, _, name = column.partition(".")
            old = key("d", str(number))
            add(own, f"UPDATE {table} SET {name} = {own_id} WHERE {name} = {old}")
    node = "nodeId=datasetField:many:d3000:c"
    took, complete = seconds(own, f"/column-lineage?{node}&depth=2147483647")
    assert took < 10
    assert len(complete["graph"]) == 3001
    assert "truncated" not in complete
    assert len(own.get(f"/column-lineage?{node}&depth=20")["graph"]) == 21
    down = "nodeId=datasetField:many:d0:c&withDownstream=true&depth=3000"
    assert len(own.get(f"/column-lineage?{down}")["graph"]) == 3001


def test_a_chain_of_3_000_runs_is_walked_at_once_and_truncated(own: Catalog) -> None:
    add(
        own,
        datasets(3000),
        runs(3000, "job"),
        f"""INSERT INTO dataset_versions (id, dataset_id, run_id, created_at, last_seen)
            SELECT {key("v", "n")}, {key("d", "n")}, {key("r", "n")}, now(), now()
            FROM generate_series(0, 3000) AS n""",
        f"""INSERT INTO run_datasets (run_id, dataset_id, output, at, version_id)
            SELECT {key("r", "n")}, {key("d", "n - 1")}, false, now(), {key("v", "n - 1")}
            FROM generate_series(1, 3000) AS n""",
    )
    ((last,),) = own.rows("SELECT md5('r3000')::uuid")
    path = f"/runlineage/upstream?runId={last}"
    took, complete = seconds(own, f"{path}&depth=2147483647")
    assert took < 10
    assert (len(complete["runs"]), complete["truncated"]) == (1000, True)
    near = own.get(f"{path}&depth=5")
    assert len(near["runs"]) == 6
    assert "truncated" not in near


def waiting(service: Catalog) -> int:
    ((count,),) = service.rows(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    return int(count)


def test_the_statements_of_clients_that_hung_up_are_cancelled(own: Catalog) -> None:
    port = int(own.url.rpartition(":")[2])
    with psycopg.connect(own.database) as other:
        other.execute("LOCK TABLE namespaces IN ACCESS EXCLUSIVE MODE")
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
        for client in clients:
            client.sendall(b"GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: waiting(own) == 8, 10, "all slots to be taken")
        for client in clients:
            client.close()
        wait_until(lambda: waiting(own) == 0, 5, "the statements to be cancelled")
        took, _ = seconds(own, "/jobs")
        assert took < 5


def test_a_service_only_reads_after_a_newer_one_has_migrated_the_database(own: Catalog) -> None:
    add(own, "INSERT INTO schema_versions VALUES (9999)")
    refused = own.call("POST", "/lineage", json=run_event(job="late"))
    assert refused.status_code == 503
    assert "has schema 9999, newer than" in refused.json()["message"]
    assert own.call("PUT", "/namespaces/new", json={}).status_code == 503
    assert own.get("/health")["status"] == "healthy"
    assert [job["name"] for job in own.get("/jobs")["jobs"]] == ["job"]
    # As after the newer one was removed again.
    add(own, "DELETE FROM schema_versions WHERE version = 9999")
    own.send(run_event(job="late"))
