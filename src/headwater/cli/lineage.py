"""`spool status|flush`: events that are queued for the catalog."""

from __future__ import annotations

from dataclasses import asdict

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, messages, print_json, print_table
from headwater.errors import CatalogUnavailableError, CheckFailedError
from headwater.settings import Settings


@click.group()
def lineage() -> None:
    """Lineage events of jobs."""


@lineage.group()
def spool() -> None:
    """Undelivered lineage events on this machine."""


@spool.command()
@json_option
@with_settings
def status(settings: Settings, as_json: bool) -> None:
    """Show the number of queued events by process."""
    from headwater.openlineage.spool.files import used_bytes
    from headwater.openlineage.spool.losses import lost_path, read_lost
    from headwater.openlineage.spool.orphans import count_refused, pending_events, refused_path

    root = settings.spool_dir
    pending = pending_events(root)
    refused = count_refused(root)
    lost = read_lost(root)
    if as_json:
        print_json(
            {
                "folder": str(root),
                "catalog": settings.catalog_url,
                "bytes": used_bytes(root),
                "limit_bytes": round(settings.lineage.spool_mb * 1024 * 1024),
                "events": sum(each.events for each in pending),
                "refused": refused,
                "lost": asdict(lost) if lost else None,
                "processes": [asdict(each) for each in pending],
            }
        )
        return
    click.echo(f"{sum(each.events for each in pending)} events are queued in {root}")
    if pending:
        rows = [
            (
                each.pid,
                "running" if each.alive else "ended",
                each.events,
                each.bytes,
                _age(each.age),
            )
            for each in pending
        ]
        print_table(("process", "", "events", "bytes", "since"), rows)
    for each in pending:
        if each.trouble:
            click.echo(f"some events of process {each.pid} can't be read: {each.trouble}")
    if refused:
        click.echo(f"the catalog refused {refused} events: {refused_path(root)}")
    if lost:
        click.echo(f"{lost.events} events were lost, most recently at {lost.at}: {lost.reason}")
        click.echo(f"remove {lost_path(root)} to reset this count")


@spool.command()
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to retry while the catalog is unavailable.",
)
@json_option
@with_settings
def flush(settings: Settings, timeout: float, as_json: bool) -> None:
    """Deliver the events of ended jobs; running jobs deliver their own."""
    from headwater.openlineage.spool.orphans import pending_events
    from headwater.openlineage.spool.sender import flush as deliver
    from headwater.openlineage.transport import CatalogClient

    client = CatalogClient.from_settings(settings)
    counts = deliver(client, settings.spool_dir, timeout, settings.lineage.max_attempts)
    remaining = pending_events(settings.spool_dir)
    undelivered = sum(each.events for each in remaining if not each.alive)
    if as_json:
        print_json({**asdict(counts), "waiting": undelivered})
    else:
        click.echo(f"{counts.delivered} events delivered, {counts.refused} refused")
        running = sum(each.events for each in remaining if each.alive)
        if running:
            messages.print(f"{running} more events are of running jobs", markup=False)
        if counts.torn:
            messages.print(f"skipped {counts.torn} incomplete lines (written during a crash)")
    if unread := next(
        (each.trouble for each in remaining if each.trouble and not each.alive), None
    ):
        raise CheckFailedError(
            f"some events in {settings.spool_dir} can't be read: {unread}",
            hint="check the disk; HEADWATER_LINEAGE__SPOOL sets the folder of the spool",
        )
    if undelivered:
        raise CatalogUnavailableError(
            f"{undelivered} events are not delivered: {counts.trouble}",
            hint="`headwater up catalog`, or set MARQUEZ_URL and MARQUEZ_API_KEY",
        )


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
