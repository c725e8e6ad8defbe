"""Alerts of a real service: from an event to the messages that an incident began and ended."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.alert_support import alerting, hook, mail_server, rule, states, write_rules
from tests.catalog_support import Catalog, fresh_database, run_event, run_id, running
from tests.support import Headwater
from tests.waiting import wait_until

from headwater.settings import Settings

FAILED = "job_run.state == 'FAILED'"


def test_a_failed_run_is_notified_once_with_its_downstream_and_once_when_it_ends(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also after a restart of the service; and no password or token is shown anywhere."""
    rules = write_rules(
        tmp_path / "rules.yml",
        rule("job failed", FAILED, "[hook, mail, undefined]", severity="critical", summary="Oh no"),
        rule("no lag known", "consumer_lag > 1"),
        rule("later", "jobs >= 1", **{"for": "1h"}),
        rule("broken", "failed_runs / (jobs - jobs) > 1"),
    )
    caplog.set_level(logging.DEBUG)
    with hook() as web, mail_server() as (port, mails):
        address = f"127.0.0.1:{port}?from=a@b.example&to=c@d.example&mode=insecure"
        channels = {"hook": web.url("/s3cret"), "mail": f"mailto://me:s3cret@{address}"}
        settings = alerting(headwater_settings, rules, channels=channels)
        database = fresh_database(postgres)
        with running(settings, database) as catalog:
            catalog.send(
                run_event("COMPLETE", job="reader", inputs=["made"], outputs=["<b>report</b>"]),
                run_event("START", job="bad", outputs=["made"]),
                run_event("FAIL", job="bad", at="2026-01-01T00:01:00Z"),
            )
            (message,) = wait_until(lambda: web.got, what="a message")
            wait_until(lambda: mails, what="a mail")
            wait_until(lambda: states(catalog).get("later") == "pending")
            assert states(catalog) == {
                "job failed job:tests:bad": "firing",
                "no lag known": "no data",
                "later": "pending",
                "broken": "error",
            }
            shown = catalog.get("/alerts")["alerts"] + catalog.get("/alerts/incidents")["incidents"]
            metrics = catalog.call("GET", f"{catalog.url}/metrics").text
        assert message["state"] == "fired"
        assert message["subject"] == "job:tests:bad"
        assert message["severity"] == "critical"
        assert message["downstream"] == [
            "dataset:data:made",
            "job:tests:reader",
            "dataset:data:<b>report</b>",
        ]
        assert "Subject: [CRITICAL] job failed - job bad (tests)" in mails[0]
        assert "<b>" not in mails[0].partition("text/html")[2]
        with running(settings, database) as catalog:
            again = run_event(job="bad", run=run_id("again"), at="2026-01-01T00:02:00Z")
            catalog.send(again)
            wait_until(lambda: len(web.got) == 2, what="the message that it ended")
            wait_until(lambda: states(catalog)["job failed"] == "ok")
            (incident,) = catalog.get("/alerts/incidents")["incidents"]
            problems = catalog.rows("SELECT problem, body FROM alert_messages")
    assert [each["state"] for each in web.got] == ["fired", "ended"]
    assert {each["incident"] for each in web.got} == {incident["id"]}
    assert incident["state"] == "ended"
    assert 'headwater_alert_messages_total{outcome="sent"}' in metrics
    for text in (caplog.text, str(shown), str(problems), metrics, str(web.got)):
        assert "s3cret" not in text


def test_a_receiver_that_is_down_delays_no_other_and_gets_its_message_later(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED, "[down, slow, up]"))
    with hook() as down, hook() as slow, hook() as up:
        down.answer, slow.delay = 500, 30.0
        channels = {"down": down.url(), "slow": slow.url(), "up": up.url()}
        settings = alerting(headwater_settings, rules, channels=channels, send_seconds=3)
        database = fresh_database(postgres)
        with running(settings, database) as catalog:
            for job in ("one", "two"):
                catalog.send(run_event("FAIL", job=job, run=run_id(job)))
            wait_until(lambda: len(up.got) == 2, what="both messages to the channel that works")
            wait_until(lambda: len(down.paths) == 2, what="an attempt for the other channel")
            problem = wait_until(
                lambda: catalog.rows(
                    "SELECT problem, due_at - written_at > make_interval(secs => 5) "
                    "FROM alert_messages WHERE channel = 'down' AND tries > 0"
                )
            )
            assert problem[0] == ("channel 'down': answered 500", True)
            assert states(catalog)["job failed job:tests:one"] == "firing"
        # Messages survive a restart; the retry delay is shortened here.
        down.answer = 200
        with psycopg.connect(database) as connection:
            connection.execute("UPDATE alert_messages SET due_at = now()")
        with running(settings, database) as catalog:
            wait_until(lambda: len(down.got) == 2, what="the delayed messages")
            wait_until(
                lambda: (
                    not catalog.rows(
                        "SELECT FROM alert_messages WHERE channel = 'down' AND sent_at IS NULL"
                    )
                )
            )
    assert len({each["incident"] for each in down.got}) == 2
    assert len(up.got) == 2


def test_the_leader_is_notified_of_failed_runs_by_other_services(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("job failed", FAILED))
    with hook() as web:
        # The timer is too slow for this test: only notifications are in time.
        settings = alerting(
            headwater_settings, rules, channels={"hook": web.url()}, interval_seconds=600
        )
        database = fresh_database(postgres)
        with running(settings, database) as first:
            wait_until(lambda: states(first), what="the first round")
            with running(settings, database) as second:
                second.send(run_event("FAIL"))
                wait_until(lambda: web.got, what="a message")
                assert states(second) == states(first)
                assert len(second.get("/alerts/incidents")["incidents"]) == 1
                first.send(run_event("FAIL", job="another", run=run_id("another")))
                wait_until(lambda: len(web.got) == 2, what="a message for an event of the leader")
    assert {each["subject"] for each in web.got} == {"job:tests:job", "job:tests:another"}


def test_an_unreachable_database_is_notified_without_it(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> None:
    """This alert can't be written to the database while it fires."""
    from headwater.testing import TcpProxy

    rules = write_rules(tmp_path / "rules.yml", rule("service down", "marquez_health_check_failed"))
    database = fresh_database(postgres)
    known = psycopg.conninfo.conninfo_to_dict(database)
    with hook() as web, TcpProxy(str(known["host"]), int(str(known["port"]))) as proxy:
        settings = alerting(headwater_settings, rules, channels={"hook": web.url()})
        through = psycopg.conninfo.make_conninfo(database, host="127.0.0.1", port=proxy.port)
        with running(settings, through) as catalog:
            wait_until(lambda: states(catalog) == {"service down": "ok"})
            proxy.cut()
            wait_until(lambda: web.got, what="a message")
            proxy.restore()
            wait_until(lambda: len(web.got) == 2, what="the message that it ended")
            wait_until(lambda: states(catalog) == {"service down": "ok"})
            (incident,) = catalog.get("/alerts/incidents")["incidents"]
    assert [each["state"] for each in web.got] == ["fired", "ended"]
    assert {each["incident"] for each in web.got} == {incident["id"]}


def send_runs_with_history(catalog: Catalog) -> None:
    """Five runs of a job: the last one is slow and writes few rows."""
    for minute, rows in enumerate((100, 110, 90, 100, 20)):
        at = f"2026-01-01T00:0{minute}"
        run = run_id(f"counted {minute}")
        statistics = {"outputStatistics": {"rowCount": rows}}
        counted = {"namespace": "data", "name": "counted", "outputFacets": statistics}
        seconds = 50 if minute == 4 else 10
        catalog.send(
            run_event("START", job="counts", run=run, at=f"{at}:00Z"),
            run_event(job="counts", run=run, at=f"{at}:{seconds}Z", outputs=[counted]),
        )


def send_runs_that_fire(catalog: Catalog) -> None:
    assertions = {"assertions": [{"assertion": "unique", "success": False}]}
    checked = {
        "namespace": "data",
        "name": "checked",
        "inputFacets": {"dataQualityAssertions": assertions},
    }
    progress = {"rowsIn": 10, "rowsOut": 10, "rowsWithLineage": 5}
    with psycopg.connect(catalog.database) as connection:
        connection.execute(
            "INSERT INTO metric_points (at, figures) SELECT now() - make_interval(mins => n), "
            "'{\"lag\": 7}' FROM generate_series(1, 20) n"
        )
    lagging = {"headwater_progress": {"rowsIn": 1, "rowsOut": 1, "lag": 100, "eventsLost": 2}}
    catalog.send(
        run_event("RUNNING", job="slowly", run=run_id("slowly"), run_facets=lagging),
        run_event(job="reads", inputs=[checked, "old"]),
        run_event(job="after", run=run_id("after"), inputs=["old"], outputs=["newer"]),
        # From now on it is stale.
        run_event(job="writes", outputs=["old"], run_facets={"headwater_progress": progress}),
    )


@pytest.fixture
def firing_catalog(
    headwater_settings: Settings, postgres: str, tmp_path: Path
) -> Iterator[Catalog]:
    """A service on which rules about datasets, runs and their history fire."""
    rules = write_rules(
        tmp_path / "rules.yml",
        rule("stale", "dataset.freshness_seconds > 3600 && dataset.name == 'old'"),
        rule("slow", "job_run.duration_seconds > 3.0 * job_run.typical_duration_seconds"),
        rule("few rows", "dataset.row_count < 0.5 * dataset.typical_row_count"),
        rule("bad data", "dataset.failed_assertions > 0"),
        rule("uncovered", "job_run.lineage_coverage_ratio < 0.9"),
        rule("lost", "job_run.events_lost > 0"),
        rule("lagging", "consumer_lag > 2.0 * typical_consumer_lag"),
        rule("many", "dataset.freshness_seconds > 0"),
    )
    expected = {
        "stale dataset:data:old",
        "slow job:tests:counts",
        "few rows dataset:data:counted",
        "bad data dataset:data:checked",
        "uncovered job:tests:writes",
        "lost job:tests:slowly",
        "lagging",
    }
    settings = alerting(headwater_settings, rules, max_incidents=2)
    with running(settings, fresh_database(postgres)) as catalog:
        send_runs_with_history(catalog)
        send_runs_that_fire(catalog)
        wait_until(lambda: expected <= {k for k, v in states(catalog).items() if v == "firing"})
        yield catalog


def test_conditions_on_datasets_runs_and_history_fire(firing_catalog: Catalog) -> None:
    listed = firing_catalog.get("/alerts")["alerts"]
    (stale,) = [each for each in listed if each["name"] == "stale"]
    assert stale["downstream"][:2] == ["job:tests:after", "job:tests:reads"]
    assert stale["downstreamCount"] == 3
    assert "dataset.name = old" in stale["value"]
    # A run that reports progress without `eventsLost` has lost nothing.
    assert [each["subject"] for each in listed if each["name"] == "lost" and each["subject"]] == [
        "job:tests:slowly"
    ]
    # The number of open incidents is limited; the others are pending.
    many = [each["state"] for each in listed if each["name"] == "many"]
    assert sorted(many) == ["firing", "firing", "pending"]
    assert firing_catalog.get("/alerts?limit=2")["totalCount"] > 2
    assert len(firing_catalog.get("/alerts?limit=2")["alerts"]) == 2


def test_the_incident_of_a_deleted_dataset_ends(firing_catalog: Catalog) -> None:
    deleted = firing_catalog.call("DELETE", "/namespaces/data/datasets/old")
    assert deleted.status_code == 200
    wait_until(
        lambda: (
            ("stale", "dataset:data:old", "ended")
            in [
                (each["alert"], each["subject"], each["state"])
                for each in firing_catalog.get("/alerts/incidents")["incidents"]
            ]
        )
    )


def test_rules_are_reloaded_and_an_invalid_file_changes_nothing(
    headwater_settings: Settings, postgres: str, tmp_path: Path, headwater: Headwater
) -> None:
    rules = write_rules(tmp_path / "rules.yml", rule("first", "jobs > 0"))
    settings = alerting(headwater_settings, rules)
    database = fresh_database(postgres)
    with running(settings, database) as catalog:
        catalog.send(run_event())
        wait_until(lambda: states(catalog) == {"first": "firing"})
        rules.write_text("alerts: [{name: first, condition: 'nonsense ('}]")
        wait_until(
            lambda: states(catalog) == {"first": "firing", "(rules file)": "error"},
            what="the error to be shown",
        )
        write_rules(rules, rule("second", "jobs > 100"))
        wait_until(lambda: states(catalog) == {"second": "ok"})
        # The incident of a removed rule is ended.
        (incident,) = catalog.get("/alerts/incidents")["incidents"]
        assert (incident["alert"], incident["state"]) == ("first", "ended")
        named = {"MARQUEZ_URL": catalog.url}
        assert "second" in headwater("alerts", "list", **named).stdout
        watched = headwater("alerts", "watch", "--seconds", "0", "--json", **named)
        assert '"state": "ok"' in watched.stdout
        assert "job success" in headwater("metrics", **named).stdout
    with running(headwater_settings, database) as catalog:
        wait_until(lambda: states(catalog) == {}, what="the states of earlier rules to be deleted")
