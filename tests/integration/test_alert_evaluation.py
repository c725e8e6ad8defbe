"""What alerts look at, in which order, and what is shown of those that are not simply ok."""

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

from headwater.catalog.alerting import scheduler as watching
from headwater.catalog.store import facts
from headwater.settings import Settings

FAILED = "job_run.state == 'FAILED'"


def test_a_failed_run_does_not_wait_for_the_end_of_a_walk(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This walk has no end before the message is there, and the next one comes in an hour."""
    told = threading.Event()
    steps: list[int] = []
    page_of = facts.page_of

    async def endless(connection: Any, table: str, after: Any, most: int) -> list[Any]:
        found = await page_of(connection, table, facts.FIRST, 1)
        steps.append(most)
        return [] if told.is_set() else found * most

    monkeypatch.setattr(facts, "page_of", endless)
    monkeypatch.setattr(watching, "_ROUND", 10**9)
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    with hook() as web:
        settings = alerting(
            headwater_settings, rules, channels={"hook": web.url()}, interval_seconds=3600
        )
        database = fresh_database(postgres)
        with running(headwater_settings, database) as catalog:
            catalog.send(run_event(job="walked over"))
        with running(settings, database) as catalog:
            wait_until(lambda: len(steps) > 3, what="the walk")
            catalog.send(run_event("FAIL"))
            try:
                wait_until(lambda: web.got, what="a message")
                assert not told.is_set(), "the walk still goes on"
            finally:
                told.set()
    assert [(each["alert"], each["state"]) for each in web.got] == [("job failed", "fired")]


def test_a_run_that_fails_after_many_later_ones_began_is_the_latest_news(
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
        # Also by the timer, which does not know what an event was about.
        for _ in range(2):
            wait_for_a_round(catalog)
        assert states(catalog) == firing
        (incident,) = catalog.get("/alerts/incidents")["incidents"]
        assert incident["state"] == "open"


def wait_for_a_round(catalog: Catalog) -> None:
    before = evaluated(catalog)
    wait_until(lambda: evaluated(catalog) > before, what="a round")


def test_time_that_a_condition_has_held_counts_over_a_restart(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(
        tmp_path / "rules.yml",
        rule("whole", "jobs > 0", **{"for": "1h"}),
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
            "whole": "firing",
            "each job:tests:job": "firing",
            "changed": "pending",
        }


# What another condition has held for says nothing of this one.
OTHER = "changed\n    condition: jobs > 0 && true"


def test_the_worst_come_first_and_all_are_counted(
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


def test_a_text_of_an_event_that_no_database_takes_stops_no_alert(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("said", "job_run.error != ''"))
    error = {"errorMessage": {"message": "a\x00b\x1b[31m", "programmingLanguage": "x"}}
    with running(alerting(headwater_settings, rules), fresh_database(postgres)) as catalog:
        catalog.send(run_event("FAIL", run_facets=error))
        wait_until(lambda: states(catalog).get("said job:tests:job") == "firing")
        (shown,) = catalog.get("/alerts")["alerts"]
        assert shown["value"] == "job_run.error = a b [31m"
