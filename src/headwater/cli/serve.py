"""`serve`: the lineage service in the foreground."""

from __future__ import annotations

import logging

import click

from headwater.cli.output import with_settings
from headwater.settings import Settings


@click.command()
@click.option("--mark", hidden=True, help="By which `headwater up` knows its own process.")
@with_settings
def serve(settings: Settings, mark: str | None) -> None:
    """Run the lineage service until Ctrl-C or SIGTERM.

    It needs PostgreSQL: the one of HEADWATER_CATALOG__DATABASE_URL, or the local one that
    `headwater up catalog` starts. Neither Java nor Spark is needed.
    """
    from headwater.service.catalog import check_installed, database_url
    from headwater.settings import fault_points

    check_installed()
    url = database_url(settings)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
    fault_points.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")

    from headwater.jobs import LOGICS
    from headwater.service.record_queries import RecordsOfKafka
    from headwater.service.server import serve as run

    run(settings, url, RecordsOfKafka(settings, logics=LOGICS))
