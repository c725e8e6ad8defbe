"""Alerts when something is wrong with what they rest on: the database, the rules, a receiver."""

from __future__ import annotations

import asyncio
import gc
import math
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

from headwater.catalog.alerting import service_metrics as figures
from headwater.catalog.alerting.sending import Sender
from headwater.catalog.store import leader, migrate, outbox
from headwater.catalog.store.leader import Leadership
from headwater.catalog.store.pool import Pool
from headwater.settings import Settings
from headwater.testing import TcpProxy

FAILED = "job_run.state == 'FAILED'"
DOWN = rule("service down", "marquez_health_check_failed")


@contextmanager
def proxied(database: str) -> Iterator[tuple[TcpProxy, str]]:
    """A way to the database that can be broken, and the address of that way."""
    known = psycopg.conninfo.conninfo_to_dict(database)
    with TcpProxy(str(known["host"]), int(str(known["port"]))) as proxy:
        yield proxy, psycopg.conninfo.make_conninfo(database, host="127.0.0.1", port=proxy.port)


def with_query_seconds(settings: Settings, seconds: float) -> Settings:
    changed = settings.catalog.model_copy(update={"query_seconds": seconds})
    return settings.model_copy(update={"catalog": changed})


def incidents(catalog: Catalog) -> list[tuple[str, str]]:
    listed = catalog.get("/alerts/incidents")["incidents"]
    return [(each["alert"], each["state"]) for each in listed]


def kinds(got: list[dict[str, Any]]) -> list[str]:
    return [each["state"] for each in got]


def test_a_database_that_hangs_is_told_like_one_that_is_gone(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody refuses anything, and no answer comes: only a bound of one's own ends the wait."""
    rules = write_rules(tmp_path / "rules.yml", DOWN)
    database = fresh_database(postgres)
    monkeypatch.setattr(figures, "_SECONDS", 1.0)
    with hook() as web, proxied(database) as (proxy, through):
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(with_query_seconds(settings, 2.0), through) as catalog:
            wait_until(lambda: states(catalog) == {"service down": "ok"})
            proxy.half_open()
            wait_until(lambda: kinds(web.got) == ["fired"], what="a message")
            assert proxy.bytes_swallowed > 0
            # Figures of before are not shown as if they were of now.
            wait_until(
                lambda: catalog.call("GET", f"{catalog.url}/metrics").status_code == 503,
                what="an end of old figures",
            )
            proxy.restore()
            wait_until(lambda: kinds(web.got) == ["fired", "ended"], what="the end")
            wait_until(
                lambda: catalog.call("GET", f"{catalog.url}/metrics").status_code == 200,
                what="new figures",
            )
            assert incidents(catalog) == [("service down", "ended")]
    assert "never retrieved" not in caplog.text


def test_a_message_that_nobody_took_while_the_database_was_gone_is_written_and_tried_on(
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
            wait_until(lambda: web.paths, what="a try")
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


def test_a_message_without_a_database_is_tried_again_until_it_is_taken(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "pause", lambda tries: 0.5)
    rules = write_rules(tmp_path / "rules.yml", DOWN)
    with hook() as web, proxied(fresh_database(postgres)) as (proxy, through):
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, through) as catalog:
            wait_until(lambda: states(catalog) == {"service down": "ok"})
            web.answer = 500
            proxy.cut()
            wait_until(lambda: len(web.paths) >= 2, what="a second try")
            web.answer = 200
            wait_until(lambda: web.got, what="a message, at last")
            proxy.restore()
            wait_until(lambda: len(web.got) > 1, what="the end")
    assert kinds(web.got) == ["fired", "ended"]
    assert len(web.paths) >= 4, "two tries that failed, and one for each message"


def test_what_a_service_told_before_another_took_over_is_told_to_be_over(
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
                wait_until(lambda: kinds(web.got) == ["fired", "ended"], what="the end")
                assert incidents(second) == [("service down", "ended")]
    assert len({each["incident"] for each in web.got}) == 1


def test_a_restart_with_a_bad_rules_file_leaves_every_incident_as_it_is(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    good = rules.read_text()
    database = fresh_database(postgres)
    with hook() as web:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, database) as catalog:
            catalog.send(run_event("FAIL"))
            wait_until(lambda: kinds(web.got) == ["fired"], what="a message")
            wait_until(lambda: "firing" in states(catalog).values())
        rules.write_text("alerts: [{name: job failed")
        with running(settings, database) as catalog:
            wait_until(lambda: states(catalog).get("(rules file)") == "error")
            assert states(catalog)["job failed job:tests:job"] == "firing"
            assert incidents(catalog) == [("job failed", "open")]
            assert evaluated(catalog) == 0
            rules.write_text(good)
            wait_until(lambda: states(catalog) == {"job failed job:tests:job": "firing"})
            wait_until(lambda: evaluated(catalog) > 0, what="evaluation")
            assert incidents(catalog) == [("job failed", "open")]
    assert kinds(web.got) == ["fired"]


def test_who_was_told_of_an_incident_is_told_when_its_rule_is_taken_away(
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
            assert web.got[2]["value"] == "its rule was taken out of the rules file"
        # Neither does a service without any rules leave anybody waiting.
        without = headwater_settings.model_copy(
            update={"alerts": settings.alerts.model_copy(update={"file": None})}
        )
        with running(without, database) as catalog:
            wait_until(lambda: len(web.got) == 4, what="the end of the second")
            assert states(catalog) == {}
    assert {each["incident"] for each in web.got[:2]} == {each["incident"] for each in web.got[2:]}


def test_rules_that_appear_while_the_service_runs_are_found(
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


def test_a_channel_whose_process_did_not_start_at_once_still_sends(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(self: Sender) -> None:
        warmed.append(self.channel.name)
        raise OSError(11, "Resource temporarily unavailable")

    warmed: list[str] = []
    monkeypatch.setattr(Sender, "warm", fails)
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    with hook() as web:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        with running(settings, fresh_database(postgres)) as catalog:
            wait_until(lambda: warmed == ["hook"])
            catalog.send(run_event("FAIL"))
            wait_until(lambda: web.got, what="a message")
    assert warmed == ["hook"], "its process was not to be had at once"
    assert kinds(web.got) == ["fired"]


def test_a_message_is_given_to_one_of_those_who_ask_at_once(postgres: str) -> None:
    database = fresh_database(postgres)
    migrate(database)
    with psycopg.connect(database) as connection:
        for n in range(3):
            connection.execute(
                "INSERT INTO alert_messages (incident_id, kind, channel, body) "
                "VALUES (%s, 'fired', 'hook', %s)",
                (run_id(f"message {n}"), Jsonb({})),
            )

    async def ask() -> list[Any]:
        pool = Pool(database, size=4, wait_seconds=5, query_seconds=10)
        await pool.open()

        async def claim() -> Any:
            async with pool.connection() as connection:
                row = await outbox.claim(connection, "hook", 60)
                # The others ask before this one has committed.
                await asyncio.sleep(0.2)
            return row and row["incident_id"]

        try:
            together = await asyncio.gather(*(claim() for _ in range(4)))
            return [*together, await claim()]
        finally:
            await pool.close()

    got = asyncio.run(ask())
    assert sorted(str(each) for each in got if each) == sorted(
        run_id(f"message {n}") for n in range(3)
    )


def test_a_lock_of_a_service_that_stands_still_goes_to_the_next(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorter = [each.replace("'30s'", "'1s'") for each in leader._LOOKED_AFTER]
    assert shorter != list(leader._LOOKED_AFTER)
    monkeypatch.setattr(leader, "_LOOKED_AFTER", shorter)
    database = fresh_database(postgres)

    async def pass_on() -> None:
        still, following = Leadership(database), Leadership(database)
        try:
            assert await still.take()
            assert not await following.take()
            # It does not listen: as if it had been stopped, or its machine were gone.
            async with asyncio.timeout(20):
                while not await following.take():
                    await asyncio.sleep(0.1)
            # And notices that as soon as it goes on.
            async with asyncio.timeout(20):
                await still.listen(lambda runs: None)
            assert not still.held
        finally:
            await still.leave()
            await following.leave()

    asyncio.run(pass_on())


def test_a_service_that_is_closed_while_it_takes_the_lock_leaves_it_free(postgres: str) -> None:
    database = fresh_database(postgres)

    async def stop_after(seconds: float) -> None:
        taking = asyncio.create_task((closed := Leadership(database)).take())
        await asyncio.sleep(seconds)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await closed.leave()
        following = Leadership(database)
        try:
            # The database gives it back when it sees the connection end.
            async with asyncio.timeout(5):
                while not await following.take():
                    await asyncio.sleep(0.02)
        finally:
            await following.leave()

    async def stop_at_every_moment() -> None:
        whole = Leadership(database)
        began = time.monotonic()
        assert await whole.take()
        seconds = time.monotonic() - began
        await whole.leave()
        for part in range(40):
            await stop_after(seconds * part / 40)

    # What nobody holds any more is collected, and its connection ends: not so in a service, where
    # something may hold it for long.
    gc.disable()
    try:
        asyncio.run(stop_at_every_moment())
    finally:
        gc.enable()


def test_who_is_stopped_while_the_database_hangs_stops(postgres: str) -> None:
    database = fresh_database(postgres)

    async def stop(proxy: TcpProxy, through: str) -> bool:
        pool = Pool(through, size=2, wait_seconds=5, query_seconds=1)
        await pool.open()

        async def ask() -> None:
            async with pool.connection() as connection:
                proxy.half_open()
                await connection.execute("SELECT 1")

        asking = asyncio.create_task(ask())
        while not proxy.bytes_swallowed:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.wait([asking])
        proxy.restore()
        await pool.close()
        return asking.cancelled()

    with proxied(database) as (proxy, through):
        assert asyncio.run(stop(proxy, through))
