"""What a local service is: something that can be started, asked and stopped."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import psutil

from headwater.errors import ServiceStartError
from headwater.model.progress import Progress, no_progress
from headwater.service.processes import end_of_log, find_process, stop_process
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

    def start(self, progress: Progress = no_progress) -> ServiceState:
        """Start it unless it runs, and return when it answers."""

    def state(self) -> ServiceState:
        """Ask how it stands."""

    def stop(self) -> bool:
        """Stop it if it was started from this home; tells whether there was something to stop."""

    def wipe(self) -> None:
        """Remove all of its data."""


class LocalService(ABC):
    """A service that is one process, started from a home and found by its command line."""

    name: str

    def __init__(self, settings: Settings, marker: str) -> None:
        self._settings = settings
        self._marker = marker
        self._log = settings.home_dir / "logs" / f"{self.name}.log"

    def state(self) -> ServiceState:
        process = find_process(self._marker)
        if process is None:
            return self._state(State.STOPPED)
        return self._state(State.RUNNING if self._answers() else State.SILENT, process.pid)

    def stop(self) -> bool:
        process = find_process(self._marker)
        if process is not None:
            self._end(process)
        return process is not None

    def _end(self, process: psutil.Process) -> None:
        stop_process(process, self._settings.services.stop_timeout_seconds)

    def _state(self, state: State, pid: int | None = None) -> ServiceState:
        return ServiceState(self.name, state, self._address, pid, str(self._log))

    @property
    @abstractmethod
    def _address(self) -> str:
        """Where it is reached, without secrets."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it serves; asked often, and bounded."""


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
