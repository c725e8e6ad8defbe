"""Lineage never affects the job, and no event is lost while the disk works."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.catalog_support import Catalog, bearer, fresh_database, guarded, running
from tests.fault_server import (
    Answer,
    Endless,
    drip,
    garbage,
    hang,
    serving,
    status,
)
from tests.support import Headwater
from tests.waiting import wait_until

from headwater.openlineage import Emitter, LineageRun, run_event
from headwater.openlineage.spool.orphans import pending_events, refused_path
from headwater.openlineage.validation import validate
from headwater.settings import Settings, load

OK = status(201)


def settings_for(url: str, home: Path, **lineage: Any) -> Settings:
    quick = {"max_backoff_seconds": 0.2, "request_seconds": 20.0, "close_seconds": 20.0, **lineage}
    return load(home=home, catalog={"url": url, "api_key": "hw_secretkey"}, lineage=quick)


def emitter_of(settings: Settings) -> Emitter:
    emitter = Emitter.from_settings(settings)
    assert emitter is not None
    return emitter


def event(number: int, run: str = "run") -> dict[str, Any]:
    run_id = str(uuid.uuid5(uuid.NAMESPACE_URL, run))
    state: Any = "START" if number == 0 else "RUNNING"
    return run_event(state, run_id, "tests", run, run_facets={"test_n": {"n": number}})


def numbers(events: list[dict[str, Any]], run: str = "run") -> list[int]:
    return [e["run"]["facets"]["test_n"]["n"] for e in events if e["job"]["name"] == run]


@pytest.mark.parametrize(
    "trouble",
    [
        [status(500, "broken")] * 3,
        [status(503, "", "Retry-After: 1")],
        [status(429, "", "Retry-After: 0")] * 2,
        [status(301, "", "Location: http://127.0.0.1:1/elsewhere")],
        [status(401), status(404)],
        [garbage] * 2,
        [hang],
        [drip],
    ],
    ids=["500", "503", "429", "redirect", "401-404", "garbage", "hang", "drip"],
)
def test_a_failing_catalog_neither_blocks_the_job_nor_loses_events(
    trouble: list[Answer], tmp_path: Path
) -> None:
    with serving(*trouble, OK) as server:
        seconds = 0.7 if trouble[0] in (hang, drip) else 20.0
        emitter = emitter_of(settings_for(server.url, tmp_path, request_seconds=seconds))
        for number in range(3):
            emitter.emit(event(number))
        wait_until(lambda: emitter.counts.sender.delivered == 3)
        assert emitter.close()
        # On a busy machine a successful response may be late too.
        assert emitter.counts.sender.failed_tries >= len(trouble)
    # Retried events arrive more than once, in order.
    assert list(dict.fromkeys(numbers(server.events))) == [0, 1, 2]
    assert all("Authorization: Bearer hw_secretkey" in head for head in server.heads)
    assert not list((tmp_path / "spool").glob("*/*"))


def test_only_the_beginning_of_a_long_response_is_read(tmp_path: Path) -> None:
    endless = Endless()
    with serving(endless, OK) as server:
        emitter = emitter_of(settings_for(server.url, tmp_path, request_seconds=20))
        emitter.emit(event(0))
        wait_until(lambda: emitter.counts.sender.delivered == 1)
        assert emitter.close()
    # Some megabytes fit into the buffers between the two.
    assert endless.megabytes < 64


@pytest.mark.parametrize("code", [400, 413, 422])
def test_a_refused_event_is_stored_with_the_response(code: int, tmp_path: Path) -> None:
    with serving(OK, status(code, "eventType must be known"), OK) as server:
        emitter = emitter_of(settings_for(server.url, tmp_path))
        for number in range(3):
            emitter.emit(event(number))
        assert emitter.close()
        counts = emitter.counts.sender
        assert (counts.delivered, counts.refused) == (2, 1)
    (line,) = refused_path(tmp_path / "spool").read_text().splitlines()
    note = json.loads(line)
    assert (note["status"], numbers([note["event"]])) == (code, [1])
    assert note["answer"].startswith("eventType must be")


def test_a_job_without_a_catalog_logs_one_warning_and_does_not_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    emitter = emitter_of(settings_for("http://127.0.0.1:1", tmp_path))
    began = time.monotonic()
    for number in range(5):
        emitter.emit(event(number))
    assert not emitter.close()
    assert time.monotonic() - began < 10
    (warning,) = caplog.messages
    assert warning.startswith(f"lineage events are queued in {tmp_path / 'spool'}: ")
    assert [(each.alive, each.events) for each in pending_events(tmp_path / "spool")] == [
        (False, 5)
    ]


def test_a_job_does_not_wait_for_a_catalog_that_hangs(tmp_path: Path) -> None:
    with serving(hang) as server:
        emitter = emitter_of(settings_for(server.url, tmp_path, request_seconds=25))
        began = time.monotonic()
        emitter.emit(event(0))
        wait_until(lambda: server.requests == 1)
        emitter.emit(event(1))
        assert not emitter.close(0.3)
        # The server would have blocked it for 30 s.
        assert time.monotonic() - began < 10
        assert sum(each.events for each in pending_events(tmp_path / "spool")) == 2


def test_an_outage_is_logged_once_and_its_events_arrive_in_order(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A long outage in short: 400 events of two runs while the catalog is down."""
    database = fresh_database(postgres)
    with running(headwater_settings, database) as catalog:
        settings = settings_for(catalog.url, tmp_path)
        emitter = emitter_of(settings)
        emitter.emit(event(0, "a"))
        wait_until(lambda: emitter.counts.sender.delivered == 1)
    for number in range(1, 200):
        emitter.emit(event(number, "a"))
        emitter.emit(event(number - 1, "b"))
    assert emitter.counts.sender.failed_tries > 0, "the catalog was not down"
    assert sum(each.events for each in pending_events(tmp_path / "spool")) == 398
    port = int(catalog.url.rpartition(":")[2])
    with running(headwater_settings, database, port) as again:
        wait_until(lambda: emitter.counts.sender.delivered == 399)
        assert emitter.close()
        rows = again.rows("SELECT body, received_at FROM events")
    arrived = [(json.loads(body), at) for body, at in rows]
    for run, count in (("a", 200), ("b", 199)):
        mine = [(numbers([body], run)[0], at) for body, at in arrived if numbers([body], run)]
        assert [number for number, _ in sorted(mine)] == list(range(count))
        times = [at for _, at in sorted(mine)]
        assert times == sorted(times), "events of a run arrived out of order"
    assert emitter.counts.dropped == 0
    assert [line.partition(":")[0] for line in caplog.messages] == [
        f"lineage events are queued in {tmp_path / 'spool'}",
        "lineage events are delivered again",
    ]


def test_queued_events_are_shown_and_flushed(
    catalog: Catalog, headwater: Headwater, tmp_path: Path
) -> None:
    away = settings_for("http://127.0.0.1:1", tmp_path)
    # Started first: otherwise it would deliver the events of the other.
    running_job = emitter_of(away)
    running_job.emit(event(0, "cli-running"))
    wait_until(lambda: running_job.counts.sender.failed_tries > 0)
    emitter = emitter_of(away)
    for number in range(3):
        emitter.emit(event(number, "cli"))
    emitter.close()

    spool: dict[str, str] = {"HEADWATER_LINEAGE__SPOOL": str(tmp_path / "spool")}
    shown = headwater("spool", "status", "--json", **spool)
    queued = json.loads(shown.stdout)
    assert (queued["events"], queued["refused"]) == (4, 0)
    assert sorted(each["alive"] for each in queued["processes"]) == [False, True]
    unreachable = headwater(
        "spool", "flush", "--timeout", "0", MARQUEZ_URL="http://127.0.0.1:1", **spool
    )
    assert unreachable.returncode == 3
    assert "3 events are not delivered: http://127.0.0.1:1 can't be reached" in unreachable.stderr
    flushed = headwater("spool", "flush", MARQUEZ_URL=catalog.url, **spool)
    assert (flushed.returncode, flushed.stdout) == (0, "3 events delivered, 0 refused\n")
    assert "1 more events are of running jobs" in flushed.stderr
    assert catalog.get("/namespaces/tests/jobs/cli")["latestRun"]["state"] == "RUNNING"
    bad = headwater("spool", "flush", MARQUEZ_URL="ftp://me:pw@host", **spool)
    assert (bad.returncode, "pw@" in bad.stderr) == (2, False)
    running_job.close()


def test_checks_report_why_lineage_does_not_arrive(
    headwater_settings: Settings, catalog: Catalog, postgres: str, tmp_path: Path
) -> None:
    new = settings_for(catalog.url, tmp_path, namespace="not-used-yet")
    checks = {each.name: each for each in validate(new)}
    assert [each.ok for each in checks.values()] == [True] * 4
    assert "does not exist yet" in checks["namespace"].text
    # Two checks leave one job with one run.
    assert all(each.ok for each in validate(settings_for(catalog.url, tmp_path)))
    assert catalog.get("/namespaces/headwater-checks/jobs")["totalCount"] == 1
    assert catalog.get("/namespaces/headwater-checks/jobs/lineage_arrives/runs")["totalCount"] == 1

    (transport, _) = validate(settings_for("http://127.0.0.1:1", tmp_path))
    assert (transport.ok, "MARQUEZ_URL" in str(transport.hint)) == (False, True)
    with running(guarded(headwater_settings), fresh_database(postgres)) as closed:
        closed.headers = bearer("nothing")
        (refused, _) = validate(settings_for(closed.url, tmp_path))
        assert (refused.ok, refused.hint) == (False, "check MARQUEZ_API_KEY")
    (off,) = validate(settings_for(catalog.url, tmp_path, enabled=False))
    assert (off.ok, off.text) == (True, "switched off (lineage.enabled)")
    (unusable,) = validate(settings_for("host:5000", tmp_path))
    assert not unusable.ok


_ENDING = """
import atexit, sys, threading, uuid
from headwater.openlineage import Emitter, LineageRun
from headwater.settings import load

url, home, started = sys.argv[1:]
emitter = Emitter.from_settings(load(home=home, catalog={"url": url}))
run = LineageRun(emitter.emit, "tests", "job", str(uuid.uuid4()))

def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")

def end():
    # As Python 3.12 does during interpreter shutdown.
    threading.Thread.start = refuse
    run.complete()
    print(emitter.close(20))

atexit.register(end)
if started == "started":
    run.start()
"""


@pytest.mark.parametrize("started", ["started", "not started"])
def test_the_end_of_a_run_is_delivered_while_no_thread_can_be_started(
    started: str, tmp_path: Path
) -> None:
    with serving(OK) as server:
        done = subprocess.run(
            [sys.executable, "-c", _ENDING, server.url, str(tmp_path), started],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert server.events[-1]["eventType"] == "COMPLETE"
    assert [each["eventType"] for each in server.events].count("START") == (started == "started")


def test_without_threads_a_hanging_catalog_does_not_block_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    # Accepts connections and never responds.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        emitter = emitter_of(settings_for(url, tmp_path, request_seconds=120))
        monkeypatch.setattr(threading.Thread, "start", refuse)
        began = time.monotonic()
        emitter.emit(event(0))
        assert not emitter.close(0.3)
        assert time.monotonic() - began < 60
    assert sum(each.events for each in pending_events(tmp_path / "spool")) == 1


def test_the_arrival_check_needs_the_event_that_was_sent(tmp_path: Path) -> None:
    """The run of an earlier check is not enough."""
    old = json.dumps({"state": "COMPLETED", "endedAt": "2026-01-01T00:00:00Z"})
    with serving(status(200, "{}"), status(404), OK, status(200, old)) as server:
        checks = {each.name: each for each in validate(settings_for(server.url, tmp_path))}
    assert (checks["namespace"].ok, checks["events"].ok) == (True, False)
    assert "another end: 2026-01-01T00:00:00Z" in checks["events"].text


@pytest.mark.parametrize(
    ("answer", "text"),
    [(status(500), "responds with 500 to"), (status(401), "responds with 401"), (hang, "")],
)
def test_only_a_missing_namespace_is_accepted(answer: Answer, text: str, tmp_path: Path) -> None:
    with serving(status(200, "{}"), answer) as server:
        settings = settings_for(server.url, tmp_path, request_seconds=0.3)
        checks = {each.name: each for each in validate(settings, send=False)}
    assert not checks["namespace"].ok
    assert text in checks["namespace"].text


def test_a_run_continues_when_its_facets_can_not_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(OK) as server:
        emitter = emitter_of(settings_for(server.url, tmp_path))
        run = LineageRun(emitter.emit, "tests", "job", str(uuid.uuid4()))
        run.add_run_facet("acme_odd", {"value": object()})
        run.start()
        run.add_run_facet("acme_odd", {"value": 1})
        run.complete()
        assert emitter.close()
    assert [each["eventType"] for each in server.events] == ["COMPLETE"]
    assert emitter.counts.dropped == 1
    assert caplog.messages[0].startswith("lineage events are dropped: TypeError")
