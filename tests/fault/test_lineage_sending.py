"""Lineage never costs the job, and none of it is lost while the disk lives."""

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
from headwater.openlineage.spool.orphans import refused_path, waiting
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
def test_a_catalog_in_trouble_neither_holds_up_nor_loses(
    trouble: list[Answer], tmp_path: Path
) -> None:
    with serving(*trouble, OK) as server:
        seconds = 0.7 if trouble[0] in (hang, drip) else 20.0
        emitter = emitter_of(settings_for(server.url, tmp_path, request_seconds=seconds))
        for number in range(3):
            emitter.emit(event(number))
        wait_until(lambda: emitter.counts.sender.delivered == 3)
        assert emitter.close()
        # On a busy machine a good answer may be late, too.
        assert emitter.counts.sender.failed_tries >= len(trouble)
    told = numbers(server.events)
    # What was tried again came more than once; the order is the same.
    assert list(dict.fromkeys(told)) == [0, 1, 2]
    assert all("Authorization: Bearer hw_secretkey" in head for head in server.heads)
    assert not list((tmp_path / "spool").glob("*/*"))


def test_of_a_long_answer_only_the_beginning_is_read(tmp_path: Path) -> None:
    endless = Endless()
    with serving(endless, OK) as server:
        emitter = emitter_of(settings_for(server.url, tmp_path, request_seconds=20))
        emitter.emit(event(0))
        wait_until(lambda: emitter.counts.sender.delivered == 1)
        assert emitter.close()
    # Some megabytes fit into the buffers between the two.
    assert endless.megabytes < 64


@pytest.mark.parametrize("code", [400, 413, 422])
def test_an_event_that_is_refused_is_set_aside_with_the_answer(code: int, tmp_path: Path) -> None:
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
    assert [(each.alive, each.events) for each in waiting(tmp_path / "spool")] == [(False, 5)]


def test_a_job_does_not_wait_for_a_catalog_that_hangs(tmp_path: Path) -> None:
    with serving(hang) as server:
        emitter = emitter_of(settings_for(server.url, tmp_path, request_seconds=25))
        began = time.monotonic()
        emitter.emit(event(0))
        wait_until(lambda: server.requests == 1)
        emitter.emit(event(1))
        assert not emitter.close(0.3)
        # The server would have held it up for 30 s.
        assert time.monotonic() - began < 10
        assert sum(each.events for each in waiting(tmp_path / "spool")) == 2


def test_an_outage_is_told_once_and_its_events_arrive_in_order(
    headwater_settings: Settings,
    postgres: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An hour of outage, compressed: 400 events of two runs while nobody listens."""
    database = fresh_database(postgres)
    with running(headwater_settings, database) as catalog:
        settings = settings_for(catalog.url, tmp_path)
        emitter = emitter_of(settings)
        emitter.emit(event(0, "a"))
        wait_until(lambda: emitter.counts.sender.delivered == 1)
    for number in range(1, 200):
        emitter.emit(event(number, "a"))
        emitter.emit(event(number - 1, "b"))
    assert emitter.counts.sender.failed_tries > 0, "the catalog was there all the time"
    assert sum(each.events for each in waiting(tmp_path / "spool")) == 398
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
        assert times == sorted(times), "an event has overtaken another one of its run"
    assert emitter.counts.dropped == 0
    assert [line.partition(":")[0] for line in caplog.messages] == [
        f"lineage events are queued in {tmp_path / 'spool'}",
        "lineage events are delivered again",
    ]


def test_people_see_what_waits_and_send_it(
    catalog: Catalog, headwater: Headwater, tmp_path: Path
) -> None:
    away = settings_for("http://127.0.0.1:1", tmp_path)
    # Started first: it would take over what the other leaves.
    running_job = emitter_of(away)
    running_job.emit(event(0, "cli-running"))
    wait_until(lambda: running_job.counts.sender.failed_tries > 0)
    emitter = emitter_of(away)
    for number in range(3):
        emitter.emit(event(number, "cli"))
    emitter.close()

    there: dict[str, str] = {"HEADWATER_LINEAGE__SPOOL": str(tmp_path / "spool")}
    shown = headwater("lineage", "spool", "status", "--json", **there)
    found = json.loads(shown.stdout)
    assert (found["events"], found["refused"]) == (4, 0)
    assert sorted(each["alive"] for each in found["processes"]) == [False, True]
    nowhere = headwater(
        "lineage", "spool", "flush", "--timeout", "0", MARQUEZ_URL="http://127.0.0.1:1", **there
    )
    assert nowhere.returncode == 3
    assert "3 events still wait: http://127.0.0.1:1 can't be reached" in nowhere.stderr
    sent = headwater("lineage", "spool", "flush", MARQUEZ_URL=catalog.url, **there)
    assert (sent.returncode, sent.stdout) == (0, "3 events delivered, 0 refused\n")
    assert "1 more are of jobs that run" in sent.stderr
    assert catalog.get("/namespaces/tests/jobs/cli")["latestRun"]["state"] == "RUNNING"
    bad = headwater("lineage", "spool", "flush", MARQUEZ_URL="ftp://me:pw@host", **there)
    assert (bad.returncode, "pw@" in bad.stderr) == (2, False)
    running_job.close()


def test_a_check_tells_what_keeps_lineage_from_arriving(
    headwater_settings: Settings, catalog: Catalog, postgres: str, tmp_path: Path
) -> None:
    checks = {each.name: each for each in validate(settings_for(catalog.url, tmp_path))}
    assert [each.ok for each in checks.values()] == [True] * 4
    assert "is not there yet" in checks["namespace"].text
    # Asked twice, it leaves one job with one run.
    assert all(each.ok for each in validate(settings_for(catalog.url, tmp_path)))
    assert catalog.get("/namespaces/headwater-checks/jobs")["totalCount"] == 1
    assert catalog.get("/namespaces/headwater-checks/jobs/lineage_arrives/runs")["totalCount"] == 1

    (transport, _) = validate(settings_for("http://127.0.0.1:1", tmp_path))
    assert (transport.ok, "MARQUEZ_URL" in str(transport.hint)) == (False, True)
    with running(guarded(headwater_settings), fresh_database(postgres)) as closed:
        closed.headers = bearer("nothing")
        (refused, _) = validate(settings_for(closed.url, tmp_path))
        assert (refused.ok, refused.hint) == (False, "look at MARQUEZ_API_KEY")
    (off,) = validate(settings_for(catalog.url, tmp_path, enabled=False))
    assert (off.ok, off.text) == (True, "switched off (lineage.enabled)")
    (unusable,) = validate(settings_for("host:5000", tmp_path))
    assert not unusable.ok


_ENDING = """
import atexit, sys, threading, uuid
from headwater.openlineage import Emitter, LineageRun
from headwater.settings import load

url, home, begun = sys.argv[1:]
emitter = Emitter.from_settings(load(home=home, catalog={"url": url}))
run = LineageRun(emitter.emit, "tests", "job", str(uuid.uuid4()))

def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")

def end():
    # What Python 3.12 does while the interpreter ends.
    threading.Thread.start = refuse
    run.complete()
    print(emitter.close(20))

atexit.register(end)
if begun == "begun":
    run.start()
"""


@pytest.mark.parametrize("begun", ["begun", "not begun"])
def test_the_end_of_a_run_is_delivered_while_no_thread_can_be_started(
    begun: str, tmp_path: Path
) -> None:
    with serving(OK) as server:
        done = subprocess.run(
            [sys.executable, "-c", _ENDING, server.url, str(tmp_path), begun],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert server.events[-1]["eventType"] == "COMPLETE"
    assert [each["eventType"] for each in server.events].count("START") == (begun == "begun")


def test_without_threads_a_catalog_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    # Takes connections, and nobody answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        emitter = emitter_of(settings_for(url, tmp_path, request_seconds=120))
        monkeypatch.setattr(threading.Thread, "start", refuse)
        began = time.monotonic()
        emitter.emit(event(0))
        assert not emitter.close(0.3)
        assert time.monotonic() - began < 60
    assert sum(each.events for each in waiting(tmp_path / "spool")) == 1


def test_an_arrival_is_of_the_event_that_was_sent(tmp_path: Path) -> None:
    """A run that is there since the last check proves nothing."""
    old = json.dumps({"state": "COMPLETED", "endedAt": "2026-01-01T00:00:00Z"})
    with serving(status(200, "{}"), status(404), OK, status(200, old)) as server:
        checks = {each.name: each for each in validate(settings_for(server.url, tmp_path))}
    assert (checks["namespace"].ok, checks["events"].ok) == (True, False)
    assert "another end: 2026-01-01T00:00:00Z" in checks["events"].text


@pytest.mark.parametrize(
    ("answer", "told"), [(status(500), "answers 500 to"), (status(401), "answers 401"), (hang, "")]
)
def test_only_a_namespace_that_is_not_there_is_no_fault(
    answer: Answer, told: str, tmp_path: Path
) -> None:
    with serving(status(200, "{}"), answer) as server:
        settings = settings_for(server.url, tmp_path, request_seconds=0.3)
        checks = {each.name: each for each in validate(settings, send=False)}
    assert not checks["namespace"].ok
    assert told in checks["namespace"].text


def test_a_run_goes_on_when_its_facets_can_not_be_written(
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
