"""`lineage spool status|flush`: events that wait for the catalog."""

from __future__ import annotations

from dataclasses import asdict

import click

from headwater.cli.output import json_option, messages, print_json, print_table, with_settings
from headwater.errors import CatalogUnavailableError, CheckFailedError
from headwater.settings import Settings


@click.group()
def lineage() -> None:
    """What jobs tell the catalog."""


@lineage.group()
def spool() -> None:
    """Events on this machine that are not delivered yet."""


@spool.command()
@json_option
@with_settings
def status(settings: Settings, as_json: bool) -> None:
    """Show how many events wait, of which processes."""
    from headwater.openlineage.spool.files import used_bytes
    from headwater.openlineage.spool.losses import lost_path, read_lost
    from headwater.openlineage.spool.orphans import count_refused, refused_path, waiting

    root = settings.spool_dir
    found = waiting(root)
    refused = count_refused(root)
    lost = read_lost(root)
    if as_json:
        print_json(
            {
                "folder": str(root),
                "catalog": settings.catalog_url,
                "bytes": used_bytes(root),
                "limit_bytes": round(settings.lineage.spool_mb * 1024 * 1024),
                "events": sum(each.events for each in found),
                "refused": refused,
                "lost": asdict(lost) if lost else None,
                "processes": [asdict(each) for each in found],
            }
        )
        return
    click.echo(f"{sum(each.events for each in found)} events wait in {root}")
    if found:
        rows = [
            (each.pid, "runs" if each.alive else "ended", each.events, each.bytes, _age(each.age))
            for each in found
        ]
        print_table(("process", "", "events", "bytes", "since"), rows)
    for each in found:
        if each.trouble:
            click.echo(f"not all of process {each.pid} can be read: {each.trouble}")
    if refused:
        click.echo(f"{refused} events were refused by the catalog: {refused_path(root)}")
    if lost:
        click.echo(f"{lost.events} events were lost, the last at {lost.at}: {lost.reason}")
        click.echo(f"counted since {lost_path(root)} was removed last")


@spool.command()
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to try while the catalog does not take them.",
)
@json_option
@with_settings
def flush(settings: Settings, timeout: float, as_json: bool) -> None:
    """Deliver what jobs that have ended have left; those that run deliver theirs themselves."""
    from headwater.openlineage.spool.orphans import waiting
    from headwater.openlineage.spool.sender import flush as deliver
    from headwater.openlineage.transport import CatalogClient

    client = CatalogClient.from_settings(settings)
    counts = deliver(client, settings.spool_dir, timeout, settings.lineage.max_attempts)
    left = waiting(settings.spool_dir)
    waits = sum(each.events for each in left if not each.alive)
    if as_json:
        print_json({**asdict(counts), "waiting": waits})
    else:
        click.echo(f"{counts.delivered} events delivered, {counts.refused} refused")
        running = sum(each.events for each in left if each.alive)
        if running:
            messages.print(f"{running} more are of jobs that run", markup=False)
        if counts.torn:
            messages.print(f"{counts.torn} lines were cut off by a crash, and skipped")
    if unread := next((each.trouble for each in left if each.trouble and not each.alive), None):
        raise CheckFailedError(
            f"what waits in {settings.spool_dir} can't all be read: {unread}",
            hint="see to the disk; HEADWATER_LINEAGE__SPOOL says where events wait",
        )
    if waits:
        raise CatalogUnavailableError(
            f"{waits} events still wait: {counts.trouble}",
            hint="`headwater up catalog`, or set MARQUEZ_URL and MARQUEZ_API_KEY",
        )


def _age(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
