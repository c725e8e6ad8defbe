"""One of several services on a database evaluates alerts: the one that holds an advisory lock.

The lock belongs to a connection of its own. When that ends, with its process or without, the
database gives the lock to the next. On the same connection the others tell which runs failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from headwater.catalog.store.pool import Connection, Pool
from headwater.errors import DatabaseUnavailableError

# Spells "hw_alert".
_LOCK = 0x68775F616C657274
_TOPIC = "headwater_failed_runs"
# A payload has at most 8,000 bytes; an id takes 33.
_MOST_IDS = 200
_LISTEN_SECONDS = 5.0


class Leadership:
    """Whether this service is the one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection | None = None

    @property
    def held(self) -> bool:
        return self._connection is not None

    async def take(self) -> bool:
        """Try to become the one; whether this service is it now.

        Raises:
            DatabaseUnavailableError: the database does not answer.
        """
        if self._connection is not None:
            return True
        try:
            connection = await AsyncConnection.connect(
                self._url,
                autocommit=True,
                connect_timeout=5,
                application_name="headwater-alerts",
            )
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
            row = await cursor.fetchone()
            if row is None or not row[0]:
                await connection.close()
                return False
            await connection.execute(f"LISTEN {_TOPIC}".encode())
        except psycopg.Error as error:
            raise DatabaseUnavailableError("the catalog's database does not answer") from error
        self._connection = connection
        return True

    async def listen(self, told: Callable[[Iterable[UUID]], None]) -> None:
        """Pass on what other services tell, until the connection ends and the lock with it."""
        connection = self._connection
        if connection is None:
            return
        try:
            while True:
                async for notice in connection.notifies(timeout=_LISTEN_SECONDS):
                    told(_ids(notice.payload))
                # A server that vanished without a word is noticed here.
                await connection.execute("SELECT 1")
        except psycopg.Error:
            await self.leave()

    async def leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def tell_leader(pool: Pool, runs: Iterable[UUID]) -> None:
    """Tell the service that evaluates which runs have failed."""
    ids = [each.hex for each in runs]
    for start in range(0, len(ids), _MOST_IDS):
        async with pool.connection() as connection:
            some = ",".join(ids[start : start + _MOST_IDS])
            await connection.execute("SELECT pg_notify(%s, %s)", (_TOPIC, some))


def _ids(payload: str) -> list[UUID]:
    try:
        return [UUID(hex=each) for each in payload.split(",") if each]
    except ValueError:
        # Anybody with a login to the database may notify.
        return []
