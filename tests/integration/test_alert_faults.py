"""Alerts while the database, the rules file or a receiver fails."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.alert_support import alerting, evaluated, hook, rule, states, write_rules
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running
from tests.waiting import wait_until

from headwater.catalog.alerting import service_metrics
from headwater.catalog.alerting.sending import ChannelSender
from headwater.catalog.store import leader, migrate, outbox
from headwater.catalog.store.leader import Leadership
from headwater.catalog.store.pool import Pool
from headwater.settings import Settings
from headwater.testing import TcpProxy

FAILED = "job_run.state == 'FAILED'"
DOWN = rule("service down", "marquez_health_check_failed")


@contextmanager
def proxied(database: str) -> Iterator[tuple[TcpProxy, str]]:
    """A proxy in front of the database, and the connection string that uses it."""
    known = psycopg.conninfo.conninfo_to_dict(database)
    with TcpProxy(str(known["host"]), int(str(known["port"]))) as proxy:
        yield proxy, psycopg.conninfo.make_conninfo(database, host="127.0.0.1", port=proxy.port)


def with_query_seconds(settings: Settings, seconds: float) -> Settings:
    changed = settings.catalog.model_copy(update={"query_seconds": seconds})
    return settings.model_copy(update={"catalog": changed})


def incidents(catalog: Catalog) -> list[tuple[str, str]]:
    listed = catalog.get("/alerts/incidents")["incidents"]
    return [(each["alert"], each["state"]) for each in listed]


def sent(catalog: Catalog) -> list[str]:
    rows = catalog.rows("SELECT kind FROM alert_messages WHERE sent_at IS NOT NULL")
    return [kind for (kind,) in rows]


def kinds(got: list[dict[str, Any]]) -> list[str]:
    return [each["state"] for each in got]


def test_a_database_that_hangs_is_reported_like_one_that_is_unreachable(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Connections stay open without a response: only the client's timeout ends the wait."""
    rules = write_rules(tmp_path / "rules.yml", DOWN)
    database = fresh_database(postgres)
    monkeypatch.setattr(service_metrics, "_INTERVAL_SECONDS", 1.0)
    with hook() as web, proxied(database) as (proxy, through):
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(with_query_seconds(settings, 2.0), through) as catalog:
            wait_until(lambda: states(catalog) == {"service down": "ok"})
            proxy.half_open()
            wait_until(lambda: kinds(web.got) == ["fired"], what="a message")
            assert proxy.bytes_swallowed > 0
            # Old metrics are not served.
            wait_until(
                lambda: catalog.call("GET", f"{catalog.url}/metrics").status_code == 503,
                what="an error instead of old metrics",
            )
            proxy.restore()
            wait_until(
                lambda: kinds(web.got) == ["fired", "ended"], what="the message that it ended"
            )
            wait_until(
                lambda: catalog.call("GET", f"{catalog.url}/metrics").status_code == 200,
                what="new metrics",
            )
            assert incidents(catalog) == [("service down", "ended")]
    assert "never retrieved" not in caplog.text


def test_a_message_that_failed_without_the_database_is_written_and_retried(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", DOWN)
    database = fresh_database(postgres)
    with hook() as web, proxied(database) as (proxy, through):
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, through) as catalog:
            catalog.database = database
            wait_until(lambda: states(catalog) == {"service down": "ok"})
            web.answer = 500
            proxy.cut()
            wait_until(lambda: web.paths, what="an attempt")
            proxy.restore()
            waiting = "SELECT kind FROM alert_messages WHERE sent_at IS NULL ORDER BY kind DESC"
            wait_until(
                lambda: catalog.rows(waiting) == [("fired",), ("ended",)], what="both to be written"
            )
            assert web.got == []
            web.answer = 200
            with psycopg.connect(database) as connection:
                connection.execute("UPDATE alert_messages SET due_at = now()")
            wait_until(lambda: len(web.got) == 2, what="both messages")
    assert kinds(web.got) == ["fired", "ended"]
    assert len({each["incident"] for each in web.got}) == 1


def test_a_message_without_the_database_is_retried_until_it_is_accepted(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "retry_delay", lambda tries: 0.5)
    rules = write_rules(tmp_path / "rules.yml", DOWN)
    with hook() as web, proxied(fresh_database(postgres)) as (proxy, through):
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, through) as catalog:
            wait_until(lambda: states(catalog) == {"service down": "ok"})
            web.answer = 500
            proxy.cut()
            wait_until(lambda: len(web.paths) >= 2, what="a second attempt")
            web.answer = 200
            wait_until(lambda: web.got, what="a message")
            proxy.restore()
            wait_until(lambda: len(web.got) > 1, what="the message that it ended")
    assert kinds(web.got) == ["fired", "ended"]
    assert len(web.paths) >= 4, "two failed attempts, and one for each message"


def test_an_incident_of_a_former_leader_is_ended(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", DOWN)
    database = fresh_database(postgres)
    with hook() as web, proxied(database) as (proxy, through):
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, through) as first:
            wait_until(lambda: states(first) == {"service down": "ok"})
            with running(settings, database) as second:
                proxy.cut()
                wait_until(lambda: kinds(web.got) == ["fired"], what="a message of the first")
                holders = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted"
                wait_until(lambda: second.rows(holders), what="the second to take over")
                proxy.restore()
                wait_until(
                    lambda: kinds(web.got) == ["fired", "ended"], what="the message that it ended"
                )
                assert incidents(second) == [("service down", "ended")]
    assert len({each["incident"] for each in web.got}) == 1


def test_a_restart_with_an_invalid_rules_file_keeps_all_incidents(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    good = rules.read_text()
    database = fresh_database(postgres)
    with hook() as web:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, database) as catalog:
            catalog.send(run_event("FAIL"))
            # A message is sent again if the service stops before it knows that it was accepted.
            wait_until(lambda: sent(catalog) == ["fired"], what="a message to be recorded as sent")
            wait_until(lambda: "firing" in states(catalog).values())
        rules.write_text("alerts: [{name: job failed")
        with running(settings, database) as catalog:
            wait_until(lambda: states(catalog).get("(rules file)") == "error")
            assert states(catalog)["job failed job:tests:job"] == "firing"
            assert incidents(catalog) == [("job failed", "open")]
            assert evaluated(catalog) == 0
            rules.write_text(good)
            wait_until(lambda: states(catalog) == {"job failed job:tests:job": "firing"})
            wait_until(lambda: evaluated(catalog) > 0, what="an evaluation")
            assert incidents(catalog) == [("job failed", "open")]
    assert kinds(web.got) == ["fired"]


def test_a_service_that_stops_records_that_a_message_was_sent(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    database = fresh_database(postgres)
    with hook() as web, psycopg.connect(database) as blocker:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        web.delay = 1.0
        with running(settings, database) as catalog:
            catalog.send(run_event("FAIL"))
            wait_until(lambda: web.paths, what="an attempt")
            blocker.execute("SELECT FROM alert_messages FOR UPDATE")
            blocked = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            wait_until(lambda: catalog.rows(blocked), what="the service to record the attempt")
            release = threading.Timer(1.0, blocker.rollback)
            release.start()
        release.join()
    assert web.paths == ["/hook"]
    assert sent(catalog) == ["fired"]


def test_channels_are_notified_when_the_rule_of_an_incident_is_removed(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("one", "jobs > 0"), rule("two", "jobs > 0"))
    database = fresh_database(postgres)
    with hook() as web:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, database) as catalog:
            catalog.send(run_event())
            wait_until(lambda: len(web.got) == 2, what="both messages")
            write_rules(rules, rule("two", "jobs > 0"))
            wait_until(lambda: len(web.got) == 3, what="the end of the first")
            assert web.got[2]["alert"] == "one"
            assert web.got[2]["state"] == "ended"
            assert web.got[2]["value"] == "its rule was removed from the rules file"
        # A service without any rules notifies them as well.
        without = headwater_settings.model_copy(
            update={"alerts": settings.alerts.model_copy(update={"file": None})}
        )
        with running(without, database) as catalog:
            wait_until(lambda: len(web.got) == 4, what="the end of the second")
            assert states(catalog) == {}
    assert {each["incident"] for each in web.got[:2]} == {each["incident"] for each in web.got[2:]}


def test_a_rules_file_that_is_created_later_is_loaded(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert headwater_settings.alerts.file is None
    with running(headwater_settings, fresh_database(postgres)) as catalog:
        assert math.isnan(evaluated(catalog))
        write_rules(tmp_path / "headwater-alerts.yml", rule("late", "jobs >= 0"))
        wait_until(lambda: states(catalog) == {"late": "firing"})


def test_a_channel_sends_even_if_its_process_could_not_be_started_in_advance(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(self: ChannelSender) -> None:
        warmed.append(self.channel.name)
        raise OSError(11, "Resource temporarily unavailable")

    warmed: list[str] = []
    monkeypatch.setattr(ChannelSender, "warm", fails)
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    with hook() as web:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, fresh_database(postgres)) as catalog:
            wait_until(lambda: warmed == ["hook"])
            catalog.send(run_event("FAIL"))
            wait_until(lambda: web.got, what="a message")
    assert warmed == ["hook"], "the process was not started in advance"
    assert kinds(web.got) == ["fired"]


def test_concurrent_claims_get_different_messages(postgres: str) -> None:
    database = fresh_database(postgres)
    migrate(database)
    with psycopg.connect(database) as connection:
        for n in range(3):
            connection.execute(
                "INSERT INTO alert_messages (incident_id, kind, channel, body) "
                "VALUES (%s, 'fired', 'hook', %s)",
                (run_id(f"message {n}"), Jsonb({})),
            )

    async def claim_all() -> list[Any]:
        pool = Pool(database, size=4, wait_seconds=5, query_seconds=10)
        await pool.open()

        async def claim() -> Any:
            async with pool.connection() as connection:
                row = await outbox.claim(connection, "hook", 60)
                # The other claims run before this one has committed.
                await asyncio.sleep(0.2)
            return row and row["incident_id"]

        try:
            together = await asyncio.gather(*(claim() for _ in range(4)))
            return [*together, await claim()]
        finally:
            await pool.close()

    claimed = asyncio.run(claim_all())
    assert sorted(str(each) for each in claimed if each) == sorted(
        run_id(f"message {n}") for n in range(3)
    )


def test_the_lock_of_a_stalled_service_is_released(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorter = [each.replace("'30s'", "'1s'") for each in leader._SESSION_SETTINGS]
    assert shorter != list(leader._SESSION_SETTINGS)
    monkeypatch.setattr(leader, "_SESSION_SETTINGS", shorter)
    database = fresh_database(postgres)

    async def take_over() -> None:
        stalled, following = Leadership(database), Leadership(database)
        try:
            assert await stalled.acquire()
            assert not await following.acquire()
            # It does not listen, like a process that was stopped or whose machine failed.
            async with asyncio.timeout(20):
                while not await following.acquire():
                    await asyncio.sleep(0.1)
            # It detects the loss as soon as it continues.
            async with asyncio.timeout(20):
                await stalled.listen(lambda runs: None)
            assert not stalled.held
        finally:
            await stalled.release()
            await following.release()

    asyncio.run(take_over())


def test_a_service_that_is_closed_while_it_acquires_the_lock_releases_it(postgres: str) -> None:
    database = fresh_database(postgres)

    async def stop_after(seconds: float) -> None:
        taking = asyncio.create_task((closed := Leadership(database)).acquire())
        await asyncio.sleep(seconds)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await closed.release()
        following = Leadership(database)
        try:
            # The database releases it when the connection ends.
            async with asyncio.timeout(5):
                while not await following.acquire():
                    await asyncio.sleep(0.02)
        finally:
            await following.release()

    async def stop_at_every_step() -> None:
        measured = Leadership(database)
        began = time.monotonic()
        assert await measured.acquire()
        seconds = time.monotonic() - began
        await measured.release()
        for part in range(40):
            await stop_after(seconds * part / 40)

    # Garbage collection would close a leaked connection; in a service, references may keep it open.
    gc.disable()
    try:
        asyncio.run(stop_at_every_step())
    finally:
        gc.enable()


def test_a_task_can_be_cancelled_while_the_database_hangs(postgres: str) -> None:
    database = fresh_database(postgres)

    async def stop(proxy: TcpProxy, through: str) -> bool:
        pool = Pool(through, size=2, wait_seconds=5, query_seconds=1)
        await pool.open()

        async def query() -> None:
            async with pool.connection() as connection:
                proxy.half_open()
                await connection.execute("SELECT 1")

        task = asyncio.create_task(query())
        while not proxy.bytes_swallowed:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        proxy.restore()
        await pool.close()
        return task.cancelled()

    with proxied(database) as (proxy, through):
        assert asyncio.run(stop(proxy, through))
