"""`serve`: the lineage service in the foreground."""

from __future__ import annotations

import logging

import click

from headwater.cli.frame import with_settings
from headwater.settings import Settings


@click.command()
@click.option("--mark", hidden=True, help="By which `headwater up` knows its own process.")
@with_settings
def serve(settings: Settings, mark: str | None) -> None:
    """Run the lineage service until Ctrl-C or SIGTERM.

    It needs PostgreSQL: the one of HEADWATER_CATALOG__DATABASE_URL, or the local one that
    `headwater up catalog` starts. Neither Java nor Spark is needed.
    """
    from headwater import faultpoints
    from headwater.services.catalog import check_installed, database_url

    check_installed()
    url = database_url(settings)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", force=True
    )
    faultpoints.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")

    from headwater.catalog.api.server import serve as run
    from headwater.jobs import LOGICS
    from headwater.services.record_questions import RecordsOfKafka

    run(settings, url, RecordsOfKafka(settings, logics=LOGICS))
