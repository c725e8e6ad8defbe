"""Schema migrations: numbered SQL files, each applied once, in one transaction.

Several services may start on one database at the same time: an advisory lock lets one of them
migrate while the others wait. A schema that is newer than this code is refused: writing to it could
break what the newer version relies on. A service that is already running then only reads (see
`Pool`).
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
_LOCK = 0x6865616477617465
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
        connection.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        except psycopg.errors.LockNotAvailable:
            raise UnavailableError(
                f"another migration of this database has been running for {_LOCK_SECONDS} s"
            ) from None
        try:
            return _migrate(connection)
        finally:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))


def _migrate(connection: psycopg.Connection[Any]) -> int:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_versions "
        "(version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
    )
    applied = {row[0] for row in connection.execute("SELECT version FROM schema_versions")}
    current = max(applied, default=0)
    if current > newest():
        raise UnsupportedVersionError(
            f"the catalog's database has schema {current}, newer than {newest()} of this Headwater",
            hint="use the newer Headwater, or another HEADWATER_CATALOG__DATABASE_URL",
            found=current,
        )
    for version, statements in migrations().items():
        # Also one with a lower number than others that were applied: it came from another branch.
        if version not in applied:
            # One transaction: a migration that is killed is rolled back.
            with connection.transaction():
                text = statements.replace("{default_namespace}", str(namespace_id("default")))
                connection.execute(text.encode())
                connection.execute("INSERT INTO schema_versions VALUES (%s)", (version,))
    return current
