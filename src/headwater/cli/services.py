"""`up`, `status` and `down`."""

from __future__ import annotations

import time

import click

from headwater import service as services
from headwater.cli.app import with_settings
from headwater.cli.output import download_progress, json_option, messages, print_json, print_table
from headwater.service import ServiceState
from headwater.settings import Settings


@click.command()
@click.argument("names", nargs=-1, metavar="[kafka] [catalog]")
@json_option
@with_settings
def up(settings: Settings, names: tuple[str, ...], as_json: bool) -> None:
    """Start local services in the background and wait until they are ready.

    Without names all are started; services that are running stay as they are. With
    KAFKA_BOOTSTRAP_SERVERS or HEADWATER_CATALOG__DATABASE_URL set, that service is used instead.
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
    """Show the state of the services."""
    _show(services.status(settings), as_json)


@click.command()
@click.option("--wipe", is_flag=True, help="Also delete all state: topics, database, checkpoints.")
@json_option
@with_settings
def down(settings: Settings, wipe: bool, as_json: bool) -> None:
    """Stop the services that were started from this home."""
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
