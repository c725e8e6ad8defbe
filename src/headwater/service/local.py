"""`up`, `status` and `down`: the services of one home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

from headwater.errors import InputError, UnavailableError
from headwater.model.local_files import locked, state_folder
from headwater.model.progress import Progress, no_progress
from headwater.service import wiping
from headwater.service.brokers import LocalKafka
from headwater.service.catalog import CatalogServer
from headwater.service.external import ExternalKafka, ExternalPostgres
from headwater.service.managed import ManagedService, ServiceState
from headwater.service.postgres import PostgresServer
from headwater.service.processes import pid_file_processes, stop_process
from headwater.settings import Settings

# The names that `up` accepts, and the services that each starts.
PARTS: Mapping[str, tuple[str, ...]] = {
    "kafka": ("kafka",),
    "catalog": ("postgres", "catalog"),
}


def up(
    parts: Sequence[str], settings: Settings, progress: Progress = no_progress
) -> Iterator[ServiceState]:
    """Start the named parts, or all of them; yields each as soon as it is ready.

    Raises:
        InputError: an unknown name, a port in use, data of another version.
        UnavailableError: a service did not become ready in time, or the disk is full.
    """
    names = _names(parts)
    with _exclusive(settings):
        wiping.make_private(settings.home_dir)
        for service in _services(settings):
            if service.name in names:
                yield service.start(progress)


def status(settings: Settings) -> list[ServiceState]:
    """The state of all services."""
    return [service.state() for service in _services(settings)]


def down(settings: Settings, *, wipe: bool = False, archives: bool = False) -> list[str]:
    """Stop all processes that were started from this home; returns their names.

    Args:
        wipe: also delete the state of the home: topics, database, checkpoints, logs.
        archives: with `wipe`, also delete archives, tables, the index and manifests of replays.
    """
    seconds = settings.services.stop_timeout_seconds
    stopped: list[str] = []
    for name, process in pid_file_processes(settings.home_dir):
        stop_process(process, seconds)
        stopped.append(name)
    # Waits for a running `up`. A home that does not exist has no lock, and must not be created.
    with _exclusive(settings) if settings.home_dir.is_dir() else nullcontext():
        for service in reversed(_services(settings)):
            if service.stop():
                stopped.append(service.name)
        if wipe:
            wiping.wipe(settings.home_dir, archives=archives)
    return stopped


def _names(parts: Sequence[str]) -> set[str]:
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"unknown service: {unknown[0]!r}", hint=f"known: {', '.join(PARTS)}")
    return {name for part in parts or PARTS for name in PARTS[part]}


def _services(settings: Settings) -> list[ManagedService]:
    external_kafka = settings.kafka.bootstrap_servers is not None
    external_database = settings.catalog.database_url is not None
    return [
        ExternalKafka(settings) if external_kafka else LocalKafka(settings),
        ExternalPostgres(settings) if external_database else PostgresServer(settings),
        CatalogServer(settings),
    ]


@contextmanager
def _exclusive(settings: Settings) -> Iterator[None]:
    """Two concurrent `up` would both start the services; the second waits for the first."""
    path = state_folder(settings.home_dir, "run") / "up.lock"
    seconds = settings.services.start_timeout_seconds * 2

    def busy() -> UnavailableError:
        return UnavailableError(
            f"another `headwater up` has held {path} for more than {seconds:g} s",
            hint="stop it, or raise HEADWATER_SERVICES__START_TIMEOUT_SECONDS",
        )

    with locked(path, busy, timeout_seconds=seconds, poll_seconds=0.1):
        yield
