"""Up, status and down: the services of one home, as a set."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from headwater.errors import InputError, UnavailableError
from headwater.model.progress import Progress, no_progress
from headwater.service.broker import KafkaBroker
from headwater.service.catalog import CatalogService
from headwater.service.external import ExternalKafka, ExternalPostgres
from headwater.service.managed import Service, ServiceState
from headwater.service.postgres import PostgresServer
from headwater.service.processes import noted_processes, stop_process
from headwater.settings import Settings

# What `up` takes as a name, and the services that stand behind it.
PARTS: Mapping[str, tuple[str, ...]] = {
    "kafka": ("kafka",),
    "catalog": ("postgres", "catalog"),
}

# All that services and jobs keep in a home.
STATE = (
    "archive",
    "checkpoints",
    "demo",
    "faults.journal",
    "kafka",
    "lineage-index",
    "logs",
    "postgres",
    "redrive",
    "replays",
    "run",
    "spool",
    "tables",
    "warehouse",
)


def up(
    parts: Sequence[str], settings: Settings, progress: Progress = no_progress
) -> Iterator[ServiceState]:
    """Start the named parts (all, without names); yields each as soon as it answers.

    Raises:
        InputError: an unknown name, a taken port, data of another version.
        UnavailableError: no answer in time, or no space left.
    """
    names = _names(parts)
    with _one_at_a_time(settings):
        for service in _services(settings):
            if service.name in names:
                yield service.start(progress)


def status(settings: Settings) -> list[ServiceState]:
    """How all services stand."""
    return [service.state() for service in _services(settings)]


def down(settings: Settings, *, wipe: bool = False) -> list[str]:
    """Stop what was started from this home; returns the names of what was running.

    With `wipe` all state of the home is removed, too: topics, database, checkpoints, logs.
    """
    seconds = settings.services.stop_timeout_seconds
    stopped: list[str] = []
    for name, process in noted_processes(settings.home_dir):
        stop_process(process, seconds)
        stopped.append(name)
    # Not while somebody starts them; a home that is gone has nobody to wait for.
    with _one_at_a_time(settings) if settings.home_dir.is_dir() else nullcontext():
        for service in reversed(_services(settings)):
            if service.stop():
                stopped.append(service.name)
            if wipe:
                service.wipe()
        if wipe:
            _wipe(settings.home_dir)
    return stopped


def _wipe(home: Path) -> None:
    """Remove what Headwater keeps in a home; what else lies there is the user's."""
    for name in STATE:
        path = home / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if home.is_dir() and not any(home.iterdir()):
        home.rmdir()


def _names(parts: Sequence[str]) -> set[str]:
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"unknown service: {unknown[0]!r}", hint=f"known: {', '.join(PARTS)}")
    return {name for part in parts or PARTS for name in PARTS[part]}


def _services(settings: Settings) -> list[Service]:
    own_kafka = settings.kafka.bootstrap_servers is not None
    own_database = settings.catalog.database_url is not None
    return [
        ExternalKafka(settings) if own_kafka else KafkaBroker(settings),
        ExternalPostgres(settings) if own_database else PostgresServer(settings),
        CatalogService(settings),
    ]


@contextmanager
def _one_at_a_time(settings: Settings) -> Iterator[None]:
    """Two `up` at once would both find nothing running; the second waits for the first."""
    folder = settings.home_dir / "run"
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + settings.services.start_timeout_seconds * 2
    with (folder / "up.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        f"another `headwater up` has held {lock.name} for too long",
                        hint="look for it, or raise HEADWATER_SERVICES__START_TIMEOUT_SECONDS",
                    ) from None
                time.sleep(0.1)
        yield
