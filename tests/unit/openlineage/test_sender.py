"""Delivery continues after disk errors and after events that make the catalog fail."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.fault_server import FaultServer, serving, status
from tests.waiting import wait_until

from headwater.openlineage import Emitter
from headwater.openlineage.spool.files import Spool
from headwater.openlineage.spool.losses import read_lost
from headwater.openlineage.spool.orphans import Backlog, pending_events, refused_path
from headwater.openlineage.spool.sender import EventSender, flush
from headwater.openlineage.transport import CatalogClient

OK = status(201)


def event(number: int, run: str = "run") -> dict[str, Any]:
    return {"run": {"runId": run}, "n": number}


def orphaned_spool(root: Path, *events: dict[str, Any]) -> Spool:
    """The spool of a dead process."""
    spool = Spool(root)
    for each in events:
        assert spool.append(each)
    spool.close()
    return spool


def emitter_of(root: Path, url: str, **options: Any) -> Emitter:
    spool = Spool(root)
    client = CatalogClient(url)
    sender = EventSender(client, spool, max_pause_seconds=0.05, **options)
    return Emitter(spool, sender, close_seconds=20)


def failing_at(*runs: str) -> FaultServer:
    """A catalog that responds with 500 to all events of these runs."""

    def respond(connection: socket.socket) -> None:
        poison = server.events[-1]["run"]["runId"] in runs
        (status(500, "division by zero") if poison else OK)(connection)

    server = FaultServer(respond)
    return server


def received(server: FaultServer, run: str) -> list[int]:
    """Events of a run in the order of arrival, without duplicates."""
    numbers = [each["n"] for each in server.events if each["run"]["runId"] == run]
    return list(dict.fromkeys(numbers))


def test_the_sender_continues_when_the_disk_is_readable_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = Backlog.peek
    broken = [True]

    def peek(backlog: Backlog) -> Any:
        if broken:
            raise OSError(5, "Input/output error", str(backlog.folder))
        return real(backlog)

    monkeypatch.setattr(Backlog, "peek", peek)
    with serving(OK) as server:
        emitter = emitter_of(tmp_path, server.url)
        emitter.emit(event(0))
        wait_until(lambda: emitter.counts.sender.failed_tries > 1)
        broken.clear()
        wait_until(lambda: emitter.counts.sender.delivered == 1)
        wait_until(lambda: len(caplog.messages) == 2)
        broken.append(True)
        assert emitter.close() is False, "an unreadable spool may have events"
        assert [each.alive for each in pending_events(tmp_path)] == [False], (
            "the next process may deliver it"
        )
    outage, recovery, _ = caplog.messages
    assert outage.startswith(f"lineage events are queued in {tmp_path}: the spool can't be read: ")
    assert "Input/output" in outage
    assert recovery == "lineage events are delivered again"


def test_a_logging_filter_that_raises_stops_neither_the_sender_nor_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_filter(record: logging.LogRecord) -> bool:
        raise ValueError(record.msg)

    for module in ("emitter", "spool.sender"):
        log = logging.getLogger(f"headwater.openlineage.{module}")
        monkeypatch.setattr(log, "filters", [broken_filter])
    with serving(status(503), OK) as server:
        emitter = emitter_of(tmp_path, server.url)
        emitter.emit(event(0))
        wait_until(lambda: emitter.counts.sender.delivered == 1)
        assert emitter.counts.sender.failed_tries == 1
        assert emitter.close()
    emitter.emit(event(1))
    assert emitter.counts.dropped == 1


def test_unreadable_events_of_a_dead_process_do_not_block_delivery(tmp_path: Path) -> None:
    dead = orphaned_spool(tmp_path, event(0, "dead"))
    segment = dead.folder / "000001.events"
    segment.rename(tmp_path / "kept")
    segment.mkdir()
    with serving(OK) as server:
        emitter = emitter_of(tmp_path, server.url)
        emitter.emit(event(0))
        assert emitter.close()
        assert "Is a directory" in str(emitter.counts.sender.trouble)
        # It is left to the next process, which can read it.
        segment.rmdir()
        (tmp_path / "kept").rename(segment)
        assert flush(CatalogClient(server.url), tmp_path, 0).delivered == 1
    assert [each["run"]["runId"] for each in server.events] == ["run", "dead"]


def test_an_event_that_makes_the_catalog_fail_is_refused_and_the_others_arrive(
    tmp_path: Path,
) -> None:
    orphaned_spool(tmp_path, event(0, "bad"), event(0, "a"), event(1, "bad"), event(1, "a"))
    server = failing_at("bad")
    emitter = emitter_of(tmp_path, server.url, max_attempts=3)
    emitter.emit(event(0, "b"))
    wait_until(lambda: emitter.counts.sender.delivered == 3)
    assert emitter.close()
    server.close()
    assert emitter.counts.sender.refused == 2
    assert (received(server, "a"), received(server, "b")) == ([0, 1], [0])
    notes = [json.loads(line) for line in refused_path(tmp_path).read_text().splitlines()]
    assert [(each["status"], each["answer"], each["event"]["n"]) for each in notes] == [
        (500, "division by zero", 0),
        (500, "division by zero", 1),
    ]
    tries = [each["n"] for each in server.events if each["run"]["runId"] == "bad"]
    # Three attempts and one after the probe; the next event of the run is refused sooner.
    assert tries == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("code", [500, 503, 401])
def test_no_event_is_refused_in_an_outage(code: int, tmp_path: Path) -> None:
    orphaned_spool(tmp_path, *(event(0, f"run-{number}") for number in range(5)))
    with serving(*[status(code)] * 40, OK) as server:
        emitter = emitter_of(tmp_path, server.url, max_attempts=2)
        emitter.emit(event(0))
        wait_until(lambda: emitter.counts.sender.delivered == 6)
        assert emitter.close()
    assert emitter.counts.sender.refused == 0
    assert not refused_path(tmp_path).exists()


def test_a_catalog_that_recovers_at_the_probe_gets_the_event_as_well(tmp_path: Path) -> None:
    orphaned_spool(tmp_path, event(0, "a"), event(0, "b"))
    with serving(status(500), status(500), OK) as server:
        counts = flush(CatalogClient(server.url), tmp_path, 20, max_attempts=2)
    assert (counts.delivered, counts.refused) == (2, 0)
    assert [each["run"]["runId"] for each in server.events] == ["a", "a", "b", "a", "b"]


def test_events_of_a_single_run_stay_queued_without_a_probe(
    tmp_path: Path,
) -> None:
    orphaned_spool(tmp_path, event(0, "bad"), event(1, "bad"))
    server = failing_at("bad")
    emitter = emitter_of(tmp_path, server.url, max_attempts=2)
    emitter.emit(event(2, "bad"))
    wait_until(lambda: emitter.counts.sender.failed_tries > 5)
    assert not emitter.close()
    server.close()
    assert emitter.counts.sender.refused == 0
    assert sum(each.events for each in pending_events(tmp_path)) == 3


def test_a_refused_event_that_can_not_be_stored_is_counted_as_lost(tmp_path: Path) -> None:
    orphaned_spool(tmp_path, event(1), event(2))
    # As on a full disk: the file for refused events can't be written.
    refused_path(tmp_path).mkdir()
    with serving(status(422, "no such type")) as server:
        counts = flush(CatalogClient(server.url), tmp_path, 5)
    assert counts.refused == 2
    lost = read_lost(tmp_path)
    assert lost is not None
    assert (lost.events, "refused" in lost.reason) == (2, True)


def of_namespace(number: int, run: str, namespace: str) -> dict[str, Any]:
    return {**event(number, run), "job": {"namespace": namespace, "name": "job"}}


def limited_to(*namespaces: str) -> FaultServer:
    """A catalog whose key is for these namespaces; the run `taken` belongs to another one."""

    def respond(connection: socket.socket) -> None:
        last = server.events[-1]
        if last["job"]["namespace"] not in namespaces:
            status(403, "this key is for other namespaces")(connection)
        else:
            status(409, "taken")(connection) if last["run"]["runId"] == "taken" else OK(connection)

    server = FaultServer(respond)
    return server


def test_an_event_with_the_run_id_of_another_namespace_is_refused_and_the_others_arrive(
    tmp_path: Path,
) -> None:
    server = limited_to("own")
    orphaned_spool(tmp_path, of_namespace(0, "taken", "own"), of_namespace(1, "a", "own"))
    counts = flush(CatalogClient(server.url), tmp_path, 20)
    server.close()
    assert (counts.delivered, counts.refused, counts.trouble) == (1, 1, None)
    (note,) = [json.loads(line) for line in refused_path(tmp_path).read_text().splitlines()]
    assert (note["status"], note["event"]["run"]["runId"]) == (409, "taken")


def test_events_that_the_key_may_not_send_do_not_block_those_of_other_namespaces(
    tmp_path: Path,
) -> None:
    server = limited_to("own")
    foreign = [of_namespace(number, f"run-{number}", "other") for number in range(5)]
    orphaned_spool(tmp_path, *foreign, of_namespace(9, "a", "own"), of_namespace(10, "b", "own"))
    counts = flush(CatalogClient(server.url), tmp_path, 20, max_attempts=2)
    server.close()
    assert (counts.delivered, counts.refused, counts.trouble) == (2, 5, None)
    notes = [json.loads(line) for line in refused_path(tmp_path).read_text().splitlines()]
    assert [each["status"] for each in notes] == [403] * 5


def test_with_a_key_that_may_send_nothing_all_events_stay_queued(tmp_path: Path) -> None:
    server = limited_to()
    orphaned_spool(tmp_path, *(of_namespace(n, f"run-{n}", f"team-{n}") for n in range(5)))
    counts = flush(CatalogClient(server.url), tmp_path, 2, max_attempts=2)
    server.close()
    assert (counts.delivered, counts.refused) == (0, 0)
    assert "403" in str(counts.trouble)
    assert not refused_path(tmp_path).exists()
