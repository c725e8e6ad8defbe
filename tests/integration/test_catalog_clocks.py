"""Events with a wrong clock do not freeze a job or a dataset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.catalog_support import (
    Catalog,
    dataset,
    fresh_database,
    run_event,
    run_id,
    running,
)

from headwater.catalog.ingest import Receipt, project, read_event
from headwater.catalog.store import migrate
from headwater.catalog.store.schema import migrations
from headwater.settings import Settings

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def write(name: str, time: str, column: str, **facets: Any) -> dict[str, Any]:
    output = dataset(name, fields=[column], documentation={"description": column}, **facets)
    return run_event(job=name, run=run_id(f"{name} {column}"), at=time, outputs=[output])


@pytest.mark.parametrize("time", ["2099-01-01T00:00:00Z", "9998-12-31T00:00:00Z"])
def test_a_job_and_its_dataset_recover_from_the_future_with_the_next_event(
    catalog: Catalog, time: str
) -> None:
    name = f"ahead {time[:4]}"
    catalog.send(write(name, time, "future"))
    began = datetime.now(UTC)
    catalog.send(write(name, began.isoformat(), "present"))
    found = catalog.get(f"/namespaces/data/datasets/{name}")
    assert [field["name"] for field in found["fields"]] == ["present"]
    assert (found["description"], found["lastWrittenAt"][:4]) == ("present", str(began.year))
    job = catalog.get(f"/namespaces/tests/jobs/{name}")
    assert job["latestRun"]["id"] == run_id(f"{name} present")
    assert datetime.fromisoformat(job["updatedAt"]) - began < timedelta(minutes=1)
    # The event itself is stored as it was sent.
    (sent,) = catalog.get(f"/events/lineage?runId={run_id(f'{name} future')}")["events"]
    assert sent["eventTime"] == time


def test_a_job_and_its_dataset_recover_from_the_past(catalog: Catalog) -> None:
    catalog.send(write("past", "1970-01-01T00:00:01Z", "old"))
    catalog.send(write("past", "2026-01-01T00:00:00Z", "new"))
    found = catalog.get("/namespaces/data/datasets/past")
    assert [field["name"] for field in found["fields"]] == ["new"]
    assert catalog.get("/namespaces/tests/jobs/past")["latestRun"]["id"] == run_id("past new")


def test_a_time_within_the_limit_counts_as_it_is() -> None:
    receipt = Receipt(NOW, timedelta(seconds=300))
    for ahead, expected in ((-3600, -3600), (0, 0), (300, 300), (301, 0), (10**9, 0)):
        time = NOW + timedelta(seconds=ahead)
        event = read_event(run_event(at=time.isoformat()), receipt)
        assert (event.sent_at, event.at) == (time, NOW + timedelta(seconds=expected))
    progress = {"headwater_progress": {"lag": 1}}
    ahead_of_all = run_event("RUNNING", at="2099-01-01T00:00:00Z", run_facets=progress)
    rows = project([read_event(ahead_of_all, receipt)])
    assert [each.lag_at for each in rows.progress.values()] == [NOW]


def test_a_run_marked_in_the_future_is_marked_now(catalog: Catalog) -> None:
    catalog.send(run_event("START", job="marked"))
    marked = catalog.call(
        "POST", f"/jobs/runs/{run_id('marked')}/complete?at=2099-01-01T00:00:00Z"
    ).json()
    assert marked["endedAt"] < "2099"


def _old_database(server: str) -> str:
    """A database as the former schema has it, without the migration after it."""
    database = fresh_database(server)
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE schema_versions "
            "(version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        for version in range(1, 9):
            text = migrations()[version].replace("{default_namespace}", run_id("default"))
            connection.execute(text.encode())
            connection.execute("INSERT INTO schema_versions VALUES (%s)", (version,))
    return database


# Rows as the former schema stored them: a dataset that was written, then read with other columns,
# and a job and a dataset with events of the year 2099.
FORMER = """
INSERT INTO namespaces (id, name, created_at, updated_at) VALUES
    ('{ns}', 'data', '2026-01-01', '2026-01-01'), ('{tests}', 'tests', '2026-01-01', '2026-01-01');
INSERT INTO jobs (id, namespace_id, namespace, name, created_at, updated_at, facets, facets_at)
VALUES ('{w}', '{tests}', 'tests', 'w', '2026-01-01', '2026-01-01', '{{}}', 0),
    ('{r}', '{tests}', 'tests', 'r', '2026-01-01', '2026-01-01', '{{}}', 0),
    ('{f}', '{tests}', 'tests', 'f', '2099-01-01', '2099-01-01',
     '{{"documentation": [4070908800000000, "{{}}"]}}', 4070908800000000);
INSERT INTO datasets (id, namespace_id, namespace, name, canonical_id, created_at, updated_at,
    current_version, current_written, current_at, fields, fields_at) VALUES
    ('{x}', '{ns}', 'data', 'x', '{x}', '2026-01-01', '2026-01-02', '{wrote}', true, '2026-01-01',
     '{wide}', '2026-01-02'),
    ('{y}', '{ns}', 'data', 'y', '{y}', '2099-01-01', '2099-01-01', '{ahead}', true, '2099-01-01',
     '{wide}', '2099-01-01');
INSERT INTO documents (dataset_id, hash, body)
SELECT d, h, '[{{"name": "' || n || '", "type": null, "description": null}}]'
FROM (VALUES ('{x}'::uuid), ('{y}')) AS d(d),
    (VALUES ('{narrow}'::uuid, 'a'), ('{wide}', 'b')) AS t(h, n);
INSERT INTO runs (id, job_id, job_at, seen_at, last_event_at, ended_at, end_state, completed) VALUES
    ('{wrun}', '{w}', '2026-01-01', '2026-01-01', '2026-01-01', '2026-01-01', 'COMPLETED', true),
    ('{rrun}', '{r}', '2026-01-02', '2026-01-02', '2026-01-02', '2026-01-02', 'COMPLETED', true),
    ('{frun}', '{f}', '2099-01-01', '2099-01-01', '2099-01-01', '2099-01-01', 'COMPLETED', true);
INSERT INTO dataset_versions (id, dataset_id, run_id, created_at, last_seen, fields, lifecycle)
VALUES ('{wrote}', '{x}', '{wrun}', '2026-01-01', '2026-01-01', '{narrow}', ''),
    ('{saw}', '{x}', NULL, '2026-01-02', '2026-01-02', '{wide}', ''),
    ('{ahead}', '{y}', '{frun}', '2099-01-01', '2099-01-01', '{wide}', '');
INSERT INTO run_datasets (run_id, dataset_id, output, at, version_id, version_at) VALUES
    ('{wrun}', '{x}', true, '2026-01-01', '{wrote}', '2026-01-01'),
    ('{rrun}', '{x}', false, '2026-01-02', '{saw}', '2026-01-02'),
    ('{frun}', '{y}', true, '2099-01-01', '{ahead}', '2099-01-01');
INSERT INTO edges VALUES ('{f}', '{y}', true, '2099-01-01', '2099-01-01');
"""


def test_rows_of_the_former_schema_are_repaired(
    headwater_settings: Settings, postgres: str
) -> None:
    from headwater.catalog.identity import dataset_id, job_id, namespace_id

    ids: dict[str, object] = {name: job_id("tests", name) for name in "wrf"}
    ids |= {name: dataset_id("data", name) for name in "xy"}
    ids |= {"ns": namespace_id("data"), "tests": namespace_id("tests")}
    named = ("wrote", "saw", "ahead", "narrow", "wide", "wrun", "rrun", "frun")
    ids |= {name: run_id(name) for name in named}
    database = _old_database(postgres)
    with psycopg.connect(database) as connection:
        connection.execute(FORMER.format(**ids).encode())
    assert migrate(database) == 8
    with running(headwater_settings, database) as catalog:
        # The reader read what was written.
        (version,) = catalog.get("/namespaces/data/datasets/x/versions")["versions"]
        assert version["version"] == ids["wrote"]
        upstream = catalog.get(f"/runlineage/upstream?runId={ids['rrun']}")["runs"]
        assert [each["run"]["id"] for each in upstream] == [ids["rrun"], ids["wrun"]]
        # The columns of the reader are replaced by those of the next write, whatever its time.
        catalog.send(
            run_event(
                job="w",
                run=run_id("again"),
                at="2026-01-01T01:00:00Z",
                outputs=[dataset("x", fields=["c"])],
            )
        )
        found = catalog.get("/namespaces/data/datasets/x")
        assert [field["name"] for field in found["fields"]] == ["c"]
        # What the year 2099 wrote counts as of the migration.
        now = datetime.now(UTC).isoformat()
        catalog.send(write("y", now, "today"))
        assert catalog.get("/namespaces/data/datasets/y")["fields"][0]["name"] == "today"
        later = run_event(job="f", run=run_id("today"), at=now)
        catalog.send(later)
        assert catalog.get("/namespaces/tests/jobs/f")["latestRun"]["id"] == run_id("today")
        assert catalog.get("/namespaces/tests/jobs/f")["updatedAt"] < "2099"
