"""The evaluation of alerts: order, restarts, and the states that are shown."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.alert_support import alerting, evaluated, hook, rule, states, write_rules
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running
from tests.support import Headwater
from tests.waiting import wait_until

from headwater.catalog.alerting import scheduler
from headwater.catalog.store import facts
from headwater.settings import Settings

FAILED = "job_run.state == 'FAILED'"


def test_a_failed_run_does_not_wait_for_the_end_of_a_scan(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scan does not end before the message arrives, and the next one is in an hour."""
    received = threading.Event()
    pages: list[int] = []
    ids_after = facts.ids_after

    async def endless(connection: Any, table: str, after: Any, limit: int) -> list[Any]:
        ids = await ids_after(connection, table, facts.FIRST, 1)
        pages.append(limit)
        return [] if received.is_set() else ids * limit

    monkeypatch.setattr(facts, "ids_after", endless)
    monkeypatch.setattr(scheduler, "_ROUND_SIZE", 10**9)
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    with hook() as web:
        settings = alerting(
            headwater_settings, rules, channels={"hook": web.url()}, interval_seconds=3600
        )
        database = fresh_database(postgres)
        with running(headwater_settings, database) as catalog:
            catalog.send(run_event(job="scanned"))
        with running(settings, database) as catalog:
            wait_until(lambda: len(pages) > 3, what="the scan")
            catalog.send(run_event("FAIL"))
            try:
                wait_until(lambda: web.got, what="a message")
                assert not received.is_set(), "the scan has not ended"
            finally:
                received.set()
    assert [(each["alert"], each["state"]) for each in web.got] == [("job failed", "fired")]


def test_the_run_with_the_latest_event_counts_even_if_later_runs_started(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    database = fresh_database(postgres)
    with running(alerting(headwater_settings, rules), database) as catalog:
        catalog.send(run_event("START", run=run_id("long")))
        for n in range(25):
            at = f"2026-01-01T00:{n + 1:02}:00Z"
            catalog.send(run_event(run=run_id(f"short {n}"), at=at))
        catalog.send(run_event("FAIL", run=run_id("long"), at="2026-01-01T01:00:00Z"))
        firing = {"job failed job:tests:job": "firing"}
        wait_until(lambda: states(catalog) == firing)
        # Also by the timer, which does not know the events.
        for _ in range(2):
            wait_for_a_round(catalog)
        assert states(catalog) == firing
        (incident,) = catalog.get("/alerts/incidents")["incidents"]
        assert incident["state"] == "open"


def wait_for_a_round(catalog: Catalog) -> None:
    before = evaluated(catalog)
    wait_until(lambda: evaluated(catalog) > before, what="a round")


def test_the_hold_time_continues_after_a_restart(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(
        tmp_path / "rules.yml",
        rule("service", "jobs > 0", **{"for": "1h"}),
        rule("each", FAILED, **{"for": "1h"}),
        rule("changed", "jobs > 0", **{"for": "1h"}),
    )
    settings = alerting(headwater_settings, rules)
    database = fresh_database(postgres)
    with running(settings, database) as catalog:
        catalog.send(run_event("FAIL"))
        wait_until(lambda: set(states(catalog).values()) == {"pending"})
        wait_until(lambda: "each job:tests:job" in states(catalog))
    # As if two hours had passed.
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE alert_states SET since = since - interval '2 hours'")
    rules.write_text(rules.read_text().replace("changed\n    condition: jobs > 0", OTHER))
    with running(settings, database) as catalog:
        wait_until(lambda: list(states(catalog).values()).count("firing") == 2)
        assert states(catalog) == {
            "service": "firing",
            "each job:tests:job": "firing",
            "changed": "pending",
        }


# The hold time of another condition does not count.
OTHER = "changed\n    condition: jobs > 0 && true"


def test_alerts_are_sorted_by_severity_of_state_and_counted(
    headwater_settings: Settings, postgres: str, tmp_path: Path, headwater: Headwater
) -> None:
    rules = write_rules(
        tmp_path / "rules.yml",
        rule("a fine", "jobs < 0"),
        rule("b unknown", "job_run.lag > 10"),
        rule("c partly", "job_run.name == 'one' && job_run.lag > 10"),
        rule("d broken", "failed_runs / (jobs - jobs) > 1"),
        rule("e later", "jobs >= 0", **{"for": "1h"}),
        rule("f many", "job_run.name != ''"),
    )
    settings = alerting(headwater_settings, rules, max_incidents=1)
    with running(settings, fresh_database(postgres)) as catalog:
        for job in ("one", "two", "three"):
            catalog.send(run_event(job=job, run=run_id(job)))
        expected = {"firing": 1, "pending": 3, "error": 1, "no data": 1, "ok": 2}
        found = wait_until(
            lambda: (
                answer
                if (answer := catalog.get("/alerts"))["states"] == expected
                and all(each["heldBack"] == 2 for each in answer["alerts"][:1])
                else None
            ),
            what="all states",
        )
        assert found["totalCount"] == 8
        assert [each["name"][0] for each in found["alerts"]] == list("feffdbac")
        by_name = {each["name"][0]: each for each in found["alerts"]}
        assert by_name["b"]["withoutData"] == 3
        assert by_name["c"]["withoutData"] == 1
        assert by_name["a"]["withoutData"] == by_name["a"]["heldBack"] == 0
        cut = catalog.get("/alerts?limit=1")
        assert [each["state"] for each in cut["alerts"]] == ["firing"]
        assert cut["states"] == expected
        printed = headwater("alerts", "list", MARQUEZ_URL=catalog.url).stdout
        assert "3 without data" in printed
        assert "2 held back" in printed
        assert "divide by zero" in printed


def test_a_string_that_postgresql_rejects_does_not_stop_alerts(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("error", "job_run.error != ''"))
    error = {"errorMessage": {"message": "a\x00b\x1b[31m", "programmingLanguage": "x"}}
    with running(alerting(headwater_settings, rules), fresh_database(postgres)) as catalog:
        catalog.send(run_event("FAIL", run_facets=error))
        wait_until(lambda: states(catalog).get("error job:tests:job") == "firing")
        (shown,) = catalog.get("/alerts")["alerts"]
        assert shown["value"] == "job_run.error = a b [31m"
