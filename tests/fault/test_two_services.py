"""Two services on one database: one is killed, or a newer one migrates the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.alert_support import Hook, alerting, hook, rule, states, write_rules
from tests.catalog_load import Load, check
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running
from tests.served import Served, served
from tests.waiting import wait_until

from headwater.catalog.store import migrate, schema
from headwater.catalog.store.leader import Leadership
from headwater.settings import Settings

FAILED = "job_run.state == 'FAILED'"
LEADER = "this service evaluates the rules"


def kill(service: Served) -> None:
    service.process.kill()
    assert service.process.wait(20) == -9


def fail(service: Served, job: str) -> None:
    service.send(run_event("FAIL", job=job, run=run_id(f"failed {job}")))


def sent_messages(service: Served) -> int:
    """Messages whose delivery is recorded."""
    ((count,),) = service.rows("SELECT count(*) FROM alert_messages WHERE sent_at IS NOT NULL")
    return int(count)


def alert_variables(folder: Path, web: Hook) -> dict[str, str]:
    rules = write_rules(folder / "rules.yml", rule("job failed", FAILED))
    return {
        "HEADWATER_ALERTS__FILE": str(rules),
        "HEADWATER_ALERTS__ALLOW_PRIVATE": '["127.0.0.1/32"]',
        "HEADWATER_ALERTS__INTERVAL_SECONDS": "0.5",
        "HEADWATER_ALERTS__CHANNELS__HOOK": web.url(),
    }


@contextmanager
def two(folder: Path, database: str, variables: dict[str, str]) -> Iterator[tuple[Served, Served]]:
    """The leader, and the other service."""
    with served(folder / "a", database, **variables) as first:
        wait_until(lambda: LEADER in first.log.read_text(), 20, "a leader")
        with served(folder / "b", database, **variables) as second:
            assert LEADER not in second.log.read_text()
            yield first, second


@pytest.mark.parametrize("victim", ["leader", "other"])
def test_a_service_killed_under_load_loses_and_duplicates_neither_events_nor_alerts(
    postgres: str, tmp_path: Path, victim: str
) -> None:
    database = fresh_database(postgres)
    with (
        hook() as web,
        two(tmp_path, database, variables := alert_variables(tmp_path, web)) as (leader, other),
    ):
        load = Load(leader.url, other.url)
        killed, survivor = (leader, other) if victim == "leader" else (other, leader)
        try:
            load.wait_for(50)
            fail(killed, "before")
            wait_until(lambda: sent_messages(survivor) == 1, 30, "the first message")
            kill(killed)
            load.wait_for(50)
            fail(survivor, "after")
            wait_until(lambda: sent_messages(survivor) == 2, 60, "the second message")
            assert LEADER in survivor.log.read_text()
            with served(tmp_path / "c", database, **variables) as restarted:
                load.wait_for(50)
                fail(restarted, "again")
                wait_until(lambda: sent_messages(survivor) == 3, 30, "the third message")
        finally:
            load.stop()
    check(load, database)
    # The start of a service does not interrupt the writes of others.
    assert load.unavailable == []
    subjects = [message["subject"] for message in web.got]
    assert subjects == [f"job:tests:{job}" for job in ("before", "after", "again")]


def migrate_to_a_newer_schema(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let `migrate` be that of a newer version; services keep the version of this code."""
    version = schema.newest() + 1
    # Records what was committed before the migration.
    statement = "CREATE TABLE seen AS SELECT count(*) AS events FROM events"
    migrations = {**schema.migrations(), version: statement}
    monkeypatch.setattr(schema, "migrations", lambda: migrations)
    return version


def wait_for_blocked(catalog: Catalog, kind: str) -> None:
    statement = f"SELECT FROM pg_locks WHERE NOT granted AND locktype = '{kind}'"
    wait_until(lambda: catalog.rows(statement), 20, f"a transaction that waits for a {kind} lock")


def test_a_migration_waits_for_writes_in_flight_and_refuses_later_ones(
    headwater_settings: Settings, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = fresh_database(postgres)
    with running(headwater_settings, database) as older, ThreadPoolExecutor(2) as pool:
        version = migrate_to_a_newer_schema(monkeypatch)
        with psycopg.connect(database) as other:
            other.execute("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")
            sent = pool.submit(older.call, "POST", "/lineage", json=run_event(job="in flight"))
            wait_for_blocked(older, "relation")
            migrating = pool.submit(migrate, database)
            wait_for_blocked(older, "advisory")
            refused = older.call("PUT", "/namespaces/late", json={})
            assert refused.status_code == 503
            assert "is being migrated" in refused.json()["message"]
            assert older.get("/namespaces")["namespaces"]
            assert older.call("GET", "/health/ready").status_code == 200
            assert not migrating.done()
            other.rollback()
        assert sent.result(20).status_code == 201
        assert migrating.result(20) == version - 1
        assert older.rows("SELECT events FROM seen") == [(1,)]
        late = older.call("POST", "/lineage", json=run_event(job="late"))
        assert late.status_code == 503
        assert f"has schema {version}, newer than {version - 1}" in late.json()["message"]
        assert [job["name"] for job in older.get("/jobs")["jobs"]] == ["in flight"]


def test_an_older_leader_resigns_after_a_migration_and_reports_no_outage(
    headwater_settings: Settings, postgres: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("service down", "marquez_health_check_failed"))
    database = fresh_database(postgres)

    async def take_over() -> None:
        newer = Leadership(database)
        try:
            async with asyncio.timeout(20):
                while not await newer.acquire():
                    await asyncio.sleep(0.1)
            # The older one stands by.
            await asyncio.sleep(3)
            assert newer.held
        finally:
            await newer.release()

    with hook() as web:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, database) as older:
            wait_until(lambda: states(older) == {"service down": "ok"})
            migrate_to_a_newer_schema(monkeypatch)
            migrate(database)
            asyncio.run(take_over())
            assert older.get("/alerts/incidents")["incidents"] == []
    assert web.got == []
