"""Fixtures of all tests; those for Kafka and Spark are Headwater's public fixtures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as hypothesis_settings
from tests.catalog_support import Catalog, fresh_database, running
from tests.support import Headwater, environment

from headwater.jvm.installed import SHORT_LIVED
from headwater.service.postgres import PostgresServer
from headwater.service.postgres_roles import ROLE
from headwater.settings import Settings

if TYPE_CHECKING:
    from tests.secured_broker import SecuredBroker

pytest_plugins = ["headwater.testing.fixtures"]

# Spark sessions of tests run for seconds only.
os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)

# The same examples in every run, so that a failure is caused by a change and not by chance;
# `--hypothesis-profile=default` searches for new ones.
hypothesis_settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis_settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def postgres(headwater_settings: Settings) -> Iterator[str]:
    """A real PostgreSQL; yields its URL."""
    server = PostgresServer(headwater_settings)
    server.start()
    server.stop()
    # The role has no rights beyond its database. Tests create databases, and deadlocks.
    statements = (
        f"ALTER ROLE {ROLE} CREATEDB;\nGRANT SET ON PARAMETER deadlock_timeout TO {ROLE};\n"
    )
    server._run_statements(server._data, "postgres", statements)
    server.start()
    yield server.url
    server.stop()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A real broker with TLS, logins and ACLs."""
    # Imports the plugin, which pytest has to import first.
    from tests.secured_broker import secured_broker

    with secured_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(headwater_settings: Settings, postgres: str) -> Iterator[Catalog]:
    """A lineage service with an empty database, for the tests of one module."""
    with running(headwater_settings, fresh_database(postgres)) as service:
        yield service


@pytest.fixture
def headwater(headwater_settings: Settings, tmp_path: Path) -> Headwater:
    """Runs the command line in a process: `headwater("topics", "list").stdout`."""

    def run(
        *arguments: str,
        stdin: str | bytes = "",
        settings: Settings | None = None,
        timeout: float = 120,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "headwater", *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=tmp_path,
            env=environment(settings or headwater_settings, **variables),
        )
        return subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode("utf-8", "replace"),
            done.stderr.decode("utf-8", "replace"),
        )

    return run
