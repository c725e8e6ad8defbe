"""Schema migrations: numbered SQL files, each applied once, in one transaction.

Several services may start on one database at the same time: an advisory lock lets one of them
migrate while the others wait. A schema that is newer than this code is refused: writing to it could
break what the newer version relies on. A service that is already running then only reads: each of
its transactions shares the same lock, so that a migration begins when those in flight have ended,
and later ones see the new version (see `Pool`).
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import psycopg

from headwater.catalog.identity import namespace_id
from headwater.errors import UnavailableError, UnsupportedVersionError

# A number that no other program uses on the same database; spells "headwate".
MIGRATION_LOCK = 0x6865616477617465
_LOCK_SECONDS = 60
_FILE = re.compile(r"(\d{4})_\w+\.sql")


def migrations() -> dict[int, str]:
    """The statements of each version, by number."""
    statements: dict[int, str] = {}
    for file in resources.files("headwater.catalog.store").joinpath("migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            statements[int(match[1])] = file.read_text(encoding="utf-8")
    return dict(sorted(statements.items()))


@cache
def newest() -> int:
    """The schema version of this code."""
    return max(migrations())


def migrate(url: str) -> int:
    """Apply all migrations; returns the schema version before.

    Raises:
        UnsupportedVersionError: the schema is newer than this Headwater.
        UnavailableError: another migration holds the lock too long.
    """
    with psycopg.connect(url, connect_timeout=10, autocommit=True) as connection:
        applied = _applied(connection)
        if applied >= set(migrations()):
            # Without the lock, for which the transactions of running services would have to end.
            return max(applied)
        connection.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", (MIGRATION_LOCK,))
        except psycopg.errors.LockNotAvailable:
            raise UnavailableError(
                f"the lock of the schema was not free for {_LOCK_SECONDS} s: another service "
                "migrates the database, or a transaction of one is still running",
                hint="try again",
            ) from None
        try:
            return _migrate(connection)
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", (MIGRATION_LOCK,))


def _applied(connection: psycopg.Connection[Any]) -> set[int]:
    """The versions that were applied to the database.

    Raises:
        UnsupportedVersionError: one is newer than this code.
    """
    try:
        rows = connection.execute("SELECT version FROM schema_versions").fetchall()
    except psycopg.errors.UndefinedTable:
        return set()
    applied = {version for (version,) in rows}
    current = max(applied, default=0)
    if current > newest():
        raise UnsupportedVersionError(
            f"the catalog's database has schema {current}, newer than {newest()} of this Headwater",
            hint="use the newer Headwater, or another HEADWATER_CATALOG__DATABASE_URL",
            found=current,
        )
    return applied


def _migrate(connection: psycopg.Connection[Any]) -> int:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_versions "
        "(version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    applied = _applied(connection)
    for version, statements in migrations().items():
        # Also one with a lower number than others that were applied: it came from another branch.
        if version not in applied:
            # One transaction: a migration that is killed is rolled back.
            with connection.transaction():
                text = statements.replace("{default_namespace}", str(namespace_id("default")))
                connection.execute(text.encode())
                connection.execute("INSERT INTO schema_versions VALUES (%s)", (version,))
    return max(applied, default=0)
