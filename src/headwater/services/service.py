"""What a local service is: something that can be started, asked and stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import psutil

from headwater.errors import ServiceStartError
from headwater.jvm.jars import Watcher
from headwater.services.processes import end_of_log
from headwater.settings import Settings

_POLL_SECONDS = 0.1


class State(StrEnum):
    """How a service stands."""

    RUNNING = "running"
    STOPPED = "stopped"
    # Our process is there and does not answer (yet).
    SILENT = "silent"
    # The user's own service, which Headwater uses and never starts or stops.
    EXTERNAL = "external"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class ServiceState:
    """One line of `headwater status`."""

    name: str
    state: State
    address: str
    pid: int | None = None
    log: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Service(Protocol):
    """A local service, or the user's own in its place."""

    name: str

    def start(self, watch: Watcher) -> ServiceState:
        """Start it unless it runs, and return when it answers."""

    def state(self) -> ServiceState:
        """Ask how it stands."""

    def stop(self) -> bool:
        """Stop it if it was started from this home; tells whether there was something to stop."""

    def wipe(self) -> None:
        """Remove all of its data."""


def wait_until_it_answers(
    name: str,
    process: psutil.Process,
    answers: Callable[[], bool],
    log: Path,
    settings: Settings,
) -> None:
    """Wait for a service that was just started.

    Raises:
        ServiceStartError: it ended, or stayed silent; holds the end of its log.
    """
    seconds = settings.services.start_timeout_seconds
    deadline = time.monotonic() + seconds
    while not answers():
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            raise ServiceStartError(
                f"{name} ended while it was starting; its log {log} ends with:\n{end_of_log(log)}"
            )
        if time.monotonic() > deadline:
            raise ServiceStartError(
                f"{name} did not answer within {seconds:g} s; its log is {log}",
                hint="raise HEADWATER_SERVICES__START_TIMEOUT_SECONDS",
            )
        time.sleep(_POLL_SECONDS)
