"""`up`, `status` and `down`."""

from __future__ import annotations

import time

import click

from headwater import service as services
from headwater.cli.output import (
    download_progress,
    json_option,
    messages,
    print_json,
    print_table,
    with_settings,
)
from headwater.service import ServiceState
from headwater.settings import Settings


@click.command()
@click.argument("names", nargs=-1, metavar="[kafka] [catalog]")
@json_option
@with_settings
def up(settings: Settings, names: tuple[str, ...], as_json: bool) -> None:
    """Start local services in the background and return when they answer.

    Without names all are started. Twice is harmless. With KAFKA_BOOTSTRAP_SERVERS or
    HEADWATER_CATALOG__DATABASE_URL set, that service is used and none is started.
    """
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
    """Show how the services stand."""
    _show(services.status(settings), as_json)


@click.command()
@click.option("--wipe", is_flag=True, help="Also remove all state: topics, database, checkpoints.")
@json_option
@with_settings
def down(settings: Settings, wipe: bool, as_json: bool) -> None:
    """Stop what was started from this home, and nothing else."""
    stopped = services.down(settings, wipe=wipe)
    if as_json:
        print_json({"stopped": stopped, "wiped": wipe})
        return
    click.echo(f"stopped: {', '.join(stopped) or 'nothing was running'}")
    if wipe:
        click.echo(f"removed: {settings.home_dir}")


def _show(states: list[ServiceState], as_json: bool) -> None:
    if as_json:
        print_json([state.as_json() for state in states])
        return
    rows = [(s.name, s.state, s.address, s.pid or "", s.log or "") for s in states]
    print_table(("service", "state", "address", "pid", "log"), rows)
