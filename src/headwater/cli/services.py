"""`up`, `status` and `down`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from headwater import service as services
from headwater.cli.app import with_settings
from headwater.cli.output import download_progress, json_option, messages, print_json, print_table
from headwater.errors import InputError
from headwater.service import ServiceState
from headwater.service.wiping import archives_of, remaining
from headwater.settings import Settings


@click.command()
@click.argument("names", nargs=-1, metavar="[kafka] [catalog]")
@click.option(
    "--brokers",
    type=click.IntRange(1, 9),
    help="Number of Kafka brokers; with three, topics have three replicas. Default: as many as "
    "the home has, or 1.",
)
@json_option
@with_settings
def up(settings: Settings, names: tuple[str, ...], brokers: int | None, as_json: bool) -> None:
    """Start local services in the background and wait until they are ready.

    Without names all are started; services that are running stay as they are. With
    KAFKA_BOOTSTRAP_SERVERS or HEADWATER_CATALOG__DATABASE_URL set, that service is used instead.
    """
    if brokers is not None:
        kafka = settings.kafka.model_copy(update={"brokers": brokers})
        settings = settings.model_copy(update={"kafka": kafka})
    states: list[ServiceState] = []
    began = time.monotonic()
    messages.print(f"starting {', '.join(names) or 'all services'}", markup=False)
    with download_progress() as progress:
        for state in services.up(names, settings, progress):
            states.append(state)
            seconds = time.monotonic() - began
            messages.print(f"{state.name}: {state.state} ({seconds:.1f} s)", markup=False)
    _show(states, as_json)


@click.command()
@json_option
@with_settings
def status(settings: Settings, as_json: bool) -> None:
    """Show the state of the services."""
    _show(services.status(settings), as_json)


@click.command()
@click.option(
    "--wipe",
    is_flag=True,
    help="Also delete the state that Headwater has written to the home: topics, database, "
    "checkpoints, logs. Asks before it deletes archives, tables and manifests.",
)
@click.option(
    "--archives/--keep-archives",
    default=None,
    help="With --wipe: delete or keep archives, tables, the lineage index and the manifests of "
    "replays, without asking. Default: ask on a terminal, otherwise keep.",
)
@json_option
@with_settings
def down(settings: Settings, wipe: bool, archives: bool | None, as_json: bool) -> None:
    """Stop the services that were started from this home."""
    if archives is not None and not wipe:
        raise InputError("--archives and --keep-archives require --wipe")
    if wipe and archives is None:
        archives = _ask(archives_of(settings.home_dir))
    stopped = services.down(settings, wipe=wipe, archives=bool(archives))
    kept = remaining(settings.home_dir) if wipe else []
    if as_json:
        print_json({"stopped": stopped, "wiped": wipe, "kept": [str(path) for path in kept]})
        return
    click.echo(f"stopped: {', '.join(stopped) or 'nothing was running'}")
    if wipe:
        click.echo(f"removed: Headwater's state in {settings.home_dir}")
    for path in kept:
        click.echo(f"kept: {path} ({_reason(path, settings)})")


def _ask(archives: list[Path]) -> bool:
    """Whether archives may be deleted; without a terminal they are kept."""
    if not archives or not sys.stdin.isatty():
        return False
    names = ", ".join(map(str, archives))
    return click.confirm(f"Also delete {names}?", default=False, err=True)


def _reason(path: Path, settings: Settings) -> str:
    if path in archives_of(settings.home_dir):
        return "--archives deletes it"
    return "not made by Headwater, or by an earlier version: delete it yourself if it is not needed"


def _show(states: list[ServiceState], as_json: bool) -> None:
    if as_json:
        print_json([state.as_json() for state in states])
        return
    rows = [(s.name, s.state, s.address, s.pid or "", s.log or "") for s in states]
    print_table(("service", "state", "address", "pid", "log"), rows)
