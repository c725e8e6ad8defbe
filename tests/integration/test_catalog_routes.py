"""Routes in addition to those of Marquez, retention, migrations and settings."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from tests.catalog_support import Catalog, dataset, fresh_database, run_event, run_id, running
from tests.support import Headwater

from headwater.catalog.ingest.run_facets import OffsetRange
from headwater.catalog.store import migrate
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.retention import sweep
from headwater.catalog.store.schema import migrations, newest
from headwater.errors import DatabaseUnavailableError, SettingError, UnsupportedVersionError
from headwater.service.catalog import database_url
from headwater.settings import Settings, load
from headwater.testing.fixtures import local_settings

NDJSON = {"Content-Type": "application/x-ndjson"}
SCHEMA = "headwater/catalog/facets/OffsetRangesRunFacet.json"

# As in guides of Marquez.
LINES = """
curl http://localhost:5000/api/v1/health
curl -X PUT http://localhost:5000/api/v1/namespaces/neuronews -H "Content-Type: application/json" \
 -d '{"name": "neuronews", "description": "NeuroNews pipeline"}'
curl http://localhost:5000/api/v1/namespaces/neuronews/jobs
curl http://localhost:5000/api/v1/namespaces/neuronews/jobs/BatchWriteRawWithLineage
curl http://localhost:5000/api/v1/namespaces/neuronews/datasets/demo.news.articles_raw
curl http://localhost:5000/api/v1/namespaces/neuronews/jobs/BatchWriteRawWithLineage/runs
curl http://localhost:5000/api/v1/namespaces
curl http://localhost:5000/api/v1/jobs/runs
"""


@pytest.mark.parametrize("line", [line for line in LINES.splitlines() if line.startswith("curl")])
def test_every_curl_line_works_as_written(catalog: Catalog, line: str) -> None:
    identifier = {"namespace": "iceberg", "name": "demo.news.articles_raw", "type": "TABLE"}
    output = dataset("/warehouse/news", symlinks={"identifiers": [identifier]})
    catalog.send(run_event(job="BatchWriteRawWithLineage", namespace="neuronews", outputs=[output]))
    command = shlex.split(line.replace("http://localhost:5000", catalog.url))
    done = subprocess.run(
        [*command, "--silent", "--show-error", "--fail"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_a_batch_stores_the_valid_events_and_names_the_invalid_ones(catalog: Catalog) -> None:
    events = [run_event(job="b1"), {**run_event(job="b2"), "eventType": "X"}, run_event(job="b3")]
    for content, headers in (
        (json.dumps(events), {"Content-Type": "application/json"}),
        ("\n".join(map(json.dumps, events)), NDJSON),
    ):
        response = catalog.call("POST", "/lineage/batch", data=content, headers=headers)
        assert (response.status_code, response.json()["status"]) == (200, "partial_success")
        assert response.json()["summary"]["successful"] == 2
        (failed,) = response.json()["failed_events"]
        assert (failed["index"], failed["retriable"]) == (1, False)
        assert "eventType" in failed["reason"]
    assert catalog.get("/namespaces/tests/jobs/b3")["name"] == "b3"
    none = catalog.call("POST", "/lineage/batch", json=[{}])
    assert none.status_code == 422
    every = catalog.call("POST", "/lineage/batch", json=events[:1])
    assert (every.status_code, every.json()["status"]) == (200, "success")


def test_a_gzip_body_is_accepted_and_a_gzip_bomb_is_refused(catalog: Catalog) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    body = gzip.compress(json.dumps(run_event(job="compressed")).encode())
    assert catalog.call("POST", "/lineage", data=body, headers=headers).status_code == 201
    bomb = gzip.compress(b" " * 200 * 1024 * 1024)
    assert catalog.call("POST", "/lineage", data=bomb, headers=headers).status_code == 413
    assert catalog.call("POST", "/lineage", data=body[:30], headers=headers).status_code == 400
    large = b'{"x": "' + b"a" * 17 * 1024 * 1024 + b'"}'
    response = catalog.call(
        "POST", "/lineage", data=large, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413


def batch(job: str, number: int, read: tuple[int, int], written: tuple[int, int]) -> Any:
    def records(topic: str, span: tuple[int, int]) -> dict[str, Any]:
        partition = {"namespace": "kafka://localhost:9092", "topic": topic, "partition": 0}
        return {**partition, "first": span[0], "last": span[1]}

    topics = {"first": ("visits", "decorated"), "second": ("decorated", "reduced")}[job]
    facet = {
        "batch": number,
        "jobVersion": "v1.0.0",
        "inputs": [records(topics[0], read)],
        "outputs": [records(topics[1], written)],
    }
    return run_event(
        "RUNNING",
        job=job,
        at=f"2026-01-01T00:00:{number:02}Z",
        inputs=[{"namespace": "kafka://localhost:9092", "name": topics[0]}],
        outputs=[{"namespace": "kafka://localhost:9092", "name": topics[1]}],
        run_facets={"headwater_offsets": facet},
    )


def test_a_record_is_traced_to_its_batch_and_its_inputs(catalog: Catalog) -> None:
    catalog.send(
        batch("first", 0, (0, 9), (0, 9)),
        batch("first", 1, (10, 19), (10, 19)),
        batch("second", 0, (0, 19), (0, 19)),
    )
    found = catalog.get("/records/reduced/0/12")
    assert (found["job"]["name"], found["jobVersion"], found["batch"]) == ("second", "v1.0.0", 0)
    assert found["run"]["id"] == run_id("second")
    (read,) = found["trace"]
    assert (read["topic"], read["first"], read["last"]) == ("decorated", 0, 19)
    assert [writer["batch"] for writer in read["writtenBy"]] == [0, 1]
    assert read["writtenBy"][1]["trace"][0]["topic"] == "visits"
    assert catalog.get("/records/decorated/0/12")["batch"] == 1
    for missing in ("reduced/0/20", "reduced/1/0", "nothing/0/0", "reduced/x/0", "reduced/0/-1"):
        assert catalog.call("GET", f"/records/{missing}").status_code == 404


def test_a_trace_has_every_batch_that_wrote_the_inputs(catalog: Catalog) -> None:
    def records(topic: str, first: int, last: int) -> dict[str, Any]:
        partition = {"namespace": "kafka://many", "topic": topic, "partition": 0}
        return {**partition, "first": first, "last": last}

    for number in range(4):
        # The topics need not be inputs or outputs of the event.
        written = {"batch": number, "outputs": [records("made", 10 * number, 10 * number + 9)]}
        catalog.send(
            run_event(
                "RUNNING",
                job="many",
                at=f"2026-01-01T00:00:{number:02}Z",
                run_facets={"headwater_offsets": written},
            )
        )
    read = {
        "batch": 0,
        "inputs": [records("made", 5, 35)],
        "outputs": [records("end", 0, 3)],
    }
    catalog.send(run_event("RUNNING", job="one", run_facets={"headwater_offsets": read}))
    (trace,) = catalog.get("/records/end/0/2")["trace"]
    assert [writer["batch"] for writer in trace["writtenBy"]] == [0, 1, 2, 3]


def test_the_schema_of_the_facet_is_packaged_and_complete() -> None:
    from importlib import resources

    text = resources.files("headwater").joinpath(*SCHEMA.split("/")[1:]).read_text()
    schema = json.loads(text)
    (facet,) = schema["$defs"]["OffsetRangesRunFacet"]["allOf"][1:]
    assert set(facet["properties"]) == {"batch", "jobVersion", "inputs", "outputs"}
    fields = set(OffsetRange.__slots__) - {"output", "batch", "job_version"}
    assert set(schema["$defs"]["OffsetRange"]["properties"]) == fields


@pytest.fixture
def own(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A service with a database for one test."""
    with running(headwater_settings, fresh_database(postgres)) as service:
        yield service


def test_retention_removes_old_events_and_runs_and_keeps_the_graph(own: Catalog) -> None:
    import asyncio

    for year in (2020, 2021, 2026):
        event = run_event(
            run=run_id(str(year)),
            at=f"{year}-01-01T00:00:00Z",
            inputs=[f"in_{year}"],
            outputs=[dataset("out", fields=["a"], version={"datasetVersion": str(year)})],
        )
        own.send(event)
    own.send(run_event(job="old", at="2020-01-01T00:00:00Z", inputs=["in_old"]))

    async def sweep_all() -> int:
        pool = Pool(own.database, size=2, wait_seconds=5, query_seconds=10)
        await pool.open()
        removed = await sweep(pool, datetime(2025, 1, 1, tzinfo=UTC))
        await pool.close()
        return removed

    with psycopg.connect(own.database) as connection:
        connection.execute("UPDATE documents SET sent_at = '2020-01-01'")
    assert asyncio.run(sweep_all()) > 0
    assert own.get("/events/lineage")["totalCount"] == 1
    runs = own.get("/namespaces/tests/jobs/job/runs")["runs"]
    assert [run["id"] for run in runs] == [run_id("2026")]
    # The only run of a job is kept, and so is every edge.
    assert own.get("/namespaces/tests/jobs/old/runs")["totalCount"] == 1
    graph = own.get("/lineage?nodeId=job:tests:job")["graph"]
    assert {"dataset:data:in_2020", "dataset:data:in_2026"} < {node["id"] for node in graph}
    found = own.get("/namespaces/data/datasets/out")
    assert found["facets"]["version"] == {"datasetVersion": "2026"}
    assert [field["name"] for field in found["fields"]] == ["a"]


def test_concurrent_migrations_are_safe_and_a_newer_schema_is_refused(
    postgres: str,
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    database = fresh_database(postgres)
    with ThreadPoolExecutor(4) as pool:
        before = list(pool.map(migrate, [database] * 4))
    assert sorted(before) == [0, newest(), newest(), newest()]
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO schema_versions VALUES (999)")
    with pytest.raises(UnsupportedVersionError, match="999"):
        migrate(database)


def test_a_database_with_an_older_schema_is_migrated_with_its_rows(
    postgres: str,
) -> None:
    database = fresh_database(postgres)
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE schema_versions "
            "(version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        first = migrations()[1].replace("{default_namespace}", run_id("default"))
        connection.execute(first.encode())
        connection.execute("INSERT INTO schema_versions VALUES (1)")
        connection.execute(
            "INSERT INTO runs (id, job_id, job_at, seen_at) "
            "VALUES (gen_random_uuid(), gen_random_uuid(), now(), now())"
        )
    assert migrate(database) == 1
    assert migrate(database) == newest()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT job_told FROM runs").fetchall() == [(True,)]


def test_up_catalog_starts_the_service_with_its_page_and_keys(
    headwater: Headwater, tmp_path: Path
) -> None:
    home = local_settings(tmp_path / "home")
    try:
        started = headwater("up", "catalog", "--json", settings=home)
        assert started.returncode == 0, started.stderr
        names = [each["name"] for each in json.loads(started.stdout)]
        assert names == ["postgres", "catalog"]
        page = requests.get(f"http://localhost:{home.catalog.page_port}/", timeout=10)
        assert page.status_code == 200
        assert "text/html" in page.headers["content-type"]
        # The page is protected like the API: against framing, foreign scripts and DNS rebinding.
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        rebound = {"Host": "evil.example"}
        assert requests.get(page.url, headers=rebound, timeout=10).status_code == 403
        through_page = f"http://localhost:{home.catalog.page_port}/api/v1/namespaces"
        assert requests.get(through_page, timeout=10).json()["namespaces"]
        key = headwater("keys", "create", "me", "--role", "write", "--json", settings=home)
        created = json.loads(key.stdout)
        assert re.fullmatch(r"hw_[0-9a-f]{8}_\S{43}", created["key"])
        listed = headwater("keys", "list", settings=home).stdout
        assert created["id"] in listed
        assert created["key"] not in listed
        assert headwater("keys", "revoke", created["id"], settings=home).returncode == 0
        assert headwater("keys", "revoke", created["id"], settings=home).returncode == 2
    finally:
        stopped = headwater("down", "--wipe", "--json", settings=home)
    assert json.loads(stopped.stdout)["stopped"] == ["catalog", "postgres"]


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        (
            "postgresql://me:secret word@host:x/y z",
            SettingError,
            "HEADWATER_CATALOG__DATABASE_URL",
        ),
        ("postgresql://me:secret@127.0.0.1:1/x", DatabaseUnavailableError, "Connection refused"),
    ],
)
def test_a_database_error_does_not_contain_the_password(
    url: str, error: type[Exception], message: str
) -> None:
    # `serve` and `keys` call this first.
    with pytest.raises(error, match=message) as raised:
        database_url(load(catalog={"database_url": url}))
    assert "secret" not in str(raised.value)


def test_serve_without_a_database_has_a_hint(headwater: Headwater, tmp_path: Path) -> None:
    refused = headwater("serve", settings=local_settings(tmp_path / "nothing"))
    assert refused.returncode == 2
    assert "headwater up catalog" in refused.stderr


def test_runs_are_listed_and_counted_by_state_on_every_page(
    headwater_settings: Settings, postgres: str
) -> None:
    kinds = {"COMPLETE": 4, "FAIL": 3, "ABORT": 1, "START": 2}
    with running(headwater_settings, fresh_database(postgres)) as own:
        for kind, number in kinds.items():
            for n in range(number):
                at = f"2026-01-01T00:00:{n:02}Z"
                own.send(run_event(kind, job=kind, run=run_id(f"{kind} {n}"), at=at))
        created = own.call("POST", "/namespaces/tests/jobs/START/runs", json={})
        assert created.status_code == 201
        expected = {"COMPLETED": 4, "FAILED": 3, "ABORTED": 1, "RUNNING": 2, "NEW": 1}
        expected |= {"FAILED&state=ABORTED": 4, "NEW&state=RUNNING&state=FAILED": 6}
        for state, total in expected.items():
            for limit, offset in ((2, 0), (100, 0), (1, total - 1), (5, total + 3), (0, 0)):
                found = own.get(f"/jobs/runs?state={state}&limit={limit}&offset={offset}")
                assert found["totalCount"] == total, (state, limit, offset)
                assert len(found["runs"]) == max(0, min(limit, total - offset))
                assert {run["state"] for run in found["runs"]} <= set(state.split("&state="))
        assert own.get("/jobs/runs?limit=3")["totalCount"] == 11
        assert own.get("/namespaces/tests/jobs/FAIL/runs?limit=1")["totalCount"] == 3
