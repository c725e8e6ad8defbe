"""The interface of services, and the base class of local ones."""

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
from headwater.service.ownership import Identity, find_process, listens
from headwater.service.processes import end_of_log, stop_process
from headwater.settings import Settings

_POLL_SECONDS = 0.1


class ServiceStatus(StrEnum):
    """Status of a service, as `headwater status` shows it."""

    RUNNING = "running"
    STOPPED = "stopped"
    # The process is running but does not respond (yet).
    SILENT = "silent"
    # Not managed by Headwater: used, never started or stopped.
    EXTERNAL = "external"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class ServiceState:
    """One line of `headwater status`."""

    name: str
    state: ServiceStatus
    address: str
    pid: int | None = None
    log: str | None = None
    # Why an external service can't be used, and what to do.
    reason: str | None = None
    hint: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class ManagedService(Protocol):
    """A local service, or the external one that replaces it."""

    name: str

    def start(self, progress: Progress = no_progress) -> ServiceState:
        """Start it unless it is running, and return when it is ready."""

    def state(self) -> ServiceState:
        """Check whether it is running and responds."""

    def stop(self) -> bool:
        """Stop it if it was started from this home; returns whether it was running."""


class LocalService(ABC):
    """A service that is one process, identified by its user and a marker among its arguments.

    Attributes:
        marker: contains the path of the home.
        port: on which it listens.
    """

    name: str

    def __init__(self, settings: Settings, marker: str, port: int) -> None:
        self._settings = settings
        self._marker = marker
        self._port = port
        self._log = settings.home_dir / "logs" / f"{self.name}.log"

    @property
    @abstractmethod
    def _identity(self) -> Identity:
        """What identifies its process."""

    def process(self) -> psutil.Process | None:
        """Its running process."""
        return find_process(self._identity)

    def state(self) -> ServiceState:
        process = self.process()
        if process is None:
            return self._state(ServiceStatus.STOPPED)
        # Another process may listen on the port of the settings.
        ready = listens(process, self._port) and self._is_ready()
        status = ServiceStatus.RUNNING if ready else ServiceStatus.SILENT
        return self._state(status, process.pid)

    def stop(self) -> bool:
        process = self.process()
        if process is not None:
            self._end(process)
        return process is not None

    def _end(self, process: psutil.Process) -> None:
        stop_process(process, self._settings.services.stop_timeout_seconds)

    def _wait_until_ready(self, process: psutil.Process, log: Path) -> None:
        """Raises:
        ServiceStartError: it exited, or is not ready in time; contains the end of its log.
        """

        def is_ready() -> bool:
            return listens(process, self._port) and self._is_ready()

        wait_until_ready(self.name, process, is_ready, log, self._settings)

    def _state(self, state: ServiceStatus, pid: int | None = None) -> ServiceState:
        return ServiceState(self.name, state, self._address, pid, str(self._log))

    @property
    @abstractmethod
    def _address(self) -> str:
        """Address for clients, without secrets."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it accepts requests. Called often: must return within seconds."""


def wait_until_ready(
    name: str,
    process: psutil.Process,
    is_ready: Callable[[], bool],
    log: Path,
    settings: Settings,
) -> None:
    """Wait for a service that was just started.

    Raises:
        ServiceStartError: it exited, or is not ready in time; contains the end of its log.
    """
    seconds = settings.services.start_timeout_seconds
    deadline = time.monotonic() + seconds
    while not is_ready():
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            raise ServiceStartError(
                f"{name} exited during startup; its log {log} ends with:\n{end_of_log(log)}"
            )
        if time.monotonic() > deadline:
            raise ServiceStartError(
                f"{name} was not ready within {seconds:g} s; its log is {log}",
                hint="raise HEADWATER_SERVICES__START_TIMEOUT_SECONDS",
            )
        time.sleep(_POLL_SECONDS)
