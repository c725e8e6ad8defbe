"""The database's schema: numbered SQL files, each applied once, in one transaction.

Several services may start at once on one database: an advisory lock lets one of them migrate and
the others wait. A schema that is newer than this code is refused: writing to it could lose what
the newer version relies on.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import psycopg

from headwater.catalog.identity import namespace_id
from headwater.errors import UnavailableError, UnsupportedVersionError

# Any number that no other program takes on the same database; this one spells "headwate".
_LOCK = 0x6865616477617465
_LOCK_SECONDS = 60
_FILE = re.compile(r"(\d{4})_\w+\.sql")


def migrations() -> dict[int, str]:
    """The statements of each version, by number."""
    found: dict[int, str] = {}
    for file in resources.files("headwater.catalog.store").joinpath("migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            found[int(match[1])] = file.read_text(encoding="utf-8")
    return dict(sorted(found.items()))


def newest() -> int:
    """The version that this code works with."""
    return max(migrations())


def migrate(url: str) -> int:
    """Bring the database up to date; returns the version that it had before.

    Raises:
        UnsupportedVersionError: the database belongs to a newer Headwater.
        UnavailableError: another migration holds the lock for too long.
    """
    with psycopg.connect(url, connect_timeout=10, autocommit=True) as connection:
        connection.execute(f"SET lock_timeout = '{_LOCK_SECONDS}s'")
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        except psycopg.errors.LockNotAvailable:
            raise UnavailableError(
                f"another migration of this database has run for more than {_LOCK_SECONDS} s"
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
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_versions").fetchone()
    found = int(row[0]) if row else 0
    if found > newest():
        raise UnsupportedVersionError(
            f"the catalog's database has schema {found}; this Headwater knows up to {newest()}",
            hint="use the newer Headwater, or another HEADWATER_CATALOG__DATABASE_URL",
            found=found,
        )
    for version, statements in migrations().items():
        if version > found:
            # One transaction: a migration that is killed half-way leaves nothing behind.
            with connection.transaction():
                text = statements.replace("{default_namespace}", str(namespace_id("default")))
                connection.execute(text.encode())
                connection.execute("INSERT INTO schema_versions VALUES (%s)", (version,))
    return found
