"""`serve`: the lineage service in the foreground; `probe`: its health, for containers."""

from __future__ import annotations

import click

from headwater.cli.app import with_settings
from headwater.errors import ServiceResponseError
from headwater.process import configure_logging
from headwater.settings import Settings


@click.command()
@click.option("--mark", hidden=True, help="Identifies the process that `headwater up` started.")
@click.pass_context
@with_settings
def serve(settings: Settings, ctx: click.Context, mark: str | None) -> None:
    """Run the lineage service until Ctrl-C or SIGTERM.

    Requires PostgreSQL: either HEADWATER_CATALOG__DATABASE_URL, or the local one that
    `headwater up catalog` starts. Neither Java nor Spark is needed.
    """
    from headwater.service.catalog import check_installed, database_url
    from headwater.service.log_file import LogFileLimit
    from headwater.settings import arm_fault_points

    check_installed()
    url = database_url(settings)
    root = ctx.find_root().obj or {}
    handler = configure_logging(
        root.get("log_level", "info"), root.get("log_format", "text"), service=True
    )
    if mark is not None:
        # Started by `headwater up`, with its output in this file.
        handler.addFilter(LogFileLimit(settings.home_dir / "logs" / "catalog.log"))
    arm_fault_points(settings)

    from headwater.jobs import TRANSFORMS
    from headwater.service.record_queries import KafkaRecordQueries
    from headwater.service.server import serve as run

    run(settings, url, KafkaRecordQueries(settings, transforms=TRANSFORMS))


@click.command()
@click.argument("kind", type=click.Choice(["live", "ready"]), default="ready")
@with_settings
def probe(settings: Settings, kind: str) -> None:
    """Check the lineage service of this machine or container: exits with 0, or with 3.

    `live`: its process responds. `ready` (default): it can store events; its database responds and
    has the schema of this version, and the service is not stopping.
    """
    from headwater.service.catalog import healthy

    if not healthy(settings, kind):
        raise ServiceResponseError(
            f"the lineage service on port {settings.catalog.port} is not {kind}",
            hint=f"GET /api/v1/health/{kind} has the reason",
        )
