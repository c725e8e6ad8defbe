"""The lineage service in a separate process, as an operator runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from tests.catalog_support import Catalog
from tests.support import environment
from tests.waiting import wait_until

from headwater.settings import Settings
from headwater.testing.fixtures import local_settings


class Served(Catalog):
    """A running `headwater serve`."""

    def __init__(self, settings: Settings, database: str, log: Path, **variables: str) -> None:
        super().__init__(settings.catalog.port, database)
        self.settings = settings
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headwater", "serve"],
                stdout=output,
                stderr=output,
                cwd=log.parent,
                env=environment(settings, HEADWATER_CATALOG__DATABASE_URL=database, **variables),
            )

    def probe(self, name: str) -> int:
        """The status of a probe, 0 if there is no response."""
        try:
            return self.call("GET", f"/health/{name}", timeout=5).status_code
        except requests.ConnectionError:
            return 0

    def wait_until_ready(self) -> None:
        wait_until(
            lambda: self.probe("ready") == 200 or self.process.poll() is not None,
            60,
            "the service to be ready",
            self.log.read_text,
            pause_seconds=0.1,
        )
        assert self.process.poll() is None, self.log.read_text()


@contextmanager
def served(folder: Path, database: str, **variables: str) -> Iterator[Served]:
    """Run a service on free ports, with its home in `folder`, until the body ends."""
    folder.mkdir(exist_ok=True)
    service = Served(local_settings(folder / "home"), database, folder / "log", **variables)
    try:
        service.wait_until_ready()
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
        service.process.wait(20)
