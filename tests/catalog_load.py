"""Clients that write to the lineage service during a fault, and the check that nothing was lost."""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import psycopg
import requests
from tests.catalog_support import run_event, run_id
from tests.waiting import wait_until

WRITERS = 8


class Load:
    """Writers that send numbered events, and retry each until it is acknowledged.

    With several services, each attempt goes to the next one, as with a load balancer.
    """

    def __init__(self, *urls: str) -> None:
        self._urls = [f"{url}/api/v1/lineage" for url in urls]
        self._turn = itertools.count()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._next = 0
        self.acknowledged: list[int] = []
        self.failures = 0
        # Responses with 503, and with any other error.
        self.unavailable: list[str] = []
        self.unexpected: list[str] = []
        self._threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        session = requests.Session()
        while not self._stop.is_set():
            with self._lock:
                number = self._next
                self._next += 1
            event = run_event(
                job=f"job {number % 5}",
                run=run_id(f"load {number}"),
                inputs=["shared", f"in {number % 7}"],
                outputs=["result"],
            )
            wait_until(
                functools.partial(self._is_acknowledged, session, event),
                60,
                f"the acknowledgement of event {number}",
                pause_seconds=0.1,
            )
            with self._lock:
                self.acknowledged.append(number)

    def _is_acknowledged(self, session: requests.Session, event: dict[str, Any]) -> bool:
        url = self._urls[next(self._turn) % len(self._urls)]
        try:
            answer = session.post(url, json=event, timeout=20)
        except requests.RequestException:
            answer = None
        if answer is not None and answer.status_code == 201:
            return True
        with self._lock:
            self.failures += 1
            if answer is not None:
                errors = self.unavailable if answer.status_code == 503 else self.unexpected
                errors.append(f"{answer.status_code}: {answer.text}")
        return False

    def wait_for(self, count: int) -> None:
        expected = len(self.acknowledged) + count
        wait_until(
            lambda: len(self.acknowledged) >= expected, 60, f"{count} more acknowledged events"
        )

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(70)


def check(load: Load, database: str) -> None:
    assert load.failures > 0, "the fault caused no failure: the test proves nothing"
    assert load.unexpected == []
    with psycopg.connect(database) as connection:
        runs = connection.execute("SELECT run_id FROM events").fetchall()
        projected = connection.execute("SELECT id FROM runs").fetchall()
    stored = [str(run) for (run,) in runs]
    assert len(stored) == len(set(stored)), "an event is stored twice"
    missing = {run_id(f"load {number}") for number in load.acknowledged} - set(stored)
    assert missing == set()
    # An event and its projection are committed together.
    assert {str(run) for (run,) in projected} == set(stored)
