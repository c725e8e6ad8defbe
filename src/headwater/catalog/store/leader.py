"""One of several services on a database evaluates alerts: the one that holds an advisory lock.

The lock belongs to a connection of its own. When that ends, with its process or without, the
database gives the lock to the next. It must not keep a lock for one that is gone without a word, or
stands still: so it looks after the connection, and ends a session that has not asked for a while.
On the same connection the others tell which runs failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

import psycopg

from headwater.catalog.store.bounded import BoundedConnection, connection_options
from headwater.catalog.store.pool import Pool
from headwater.errors import DatabaseUnavailableError

# Spells "hw_alert".
_LOCK = 0x68775F616C657274
_TOPIC = "headwater_failed_runs"
# A payload has at most 8,000 bytes; an id takes 33.
_MAX_IDS = 200
_LISTEN_SECONDS = 5.0
_ANSWER_SECONDS = 5.0
# The database's own look at the connection, and how long it keeps the lock for one that says
# nothing: several times as long as one that lives is ever silent.
_LOOKED_AFTER = (
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = '15s'",
    "SET idle_session_timeout = '30s'",
    f"SET statement_timeout = '{_ANSWER_SECONDS:g}s'",
)


class Leadership:
    """Whether this service is the one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: BoundedConnection | None = None

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
            connection = await BoundedConnection.connect(
                self._url, autocommit=True, **connection_options(self._url, "headwater-alerts")
            )
            self._connection = await self._with_lock(connection)
        except psycopg.Error as error:
            raise DatabaseUnavailableError("the catalog's database does not answer") from error
        return self.held

    async def _with_lock(self, connection: BoundedConnection) -> BoundedConnection | None:
        """The same connection; closed, and None, if another one has the lock."""
        taken = False
        try:
            # Notices are waited for as long as `listen` says, and an answer comes meanwhile.
            connection.patience = _LISTEN_SECONDS + _ANSWER_SECONDS
            # Before the lock: nobody may hold it unlooked after.
            for statement in _LOOKED_AFTER:
                await connection.execute(statement.encode())
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
            row = await cursor.fetchone()
            if row is not None and row[0]:
                await connection.execute(f"LISTEN {_TOPIC}".encode())
                taken = True
        finally:
            # Also when it is stopped meanwhile: what nobody closes keeps the lock.
            if not taken:
                await connection.close()
        return connection if taken else None

    async def listen(self, told: Callable[[Iterable[UUID]], None]) -> None:
        """Pass on what other services tell, until the connection ends and the lock with it."""
        connection = self._connection
        if connection is None:
            return
        try:
            while True:
                async for notice in connection.notifies(timeout=_LISTEN_SECONDS):
                    told(_ids(notice.payload))
                # A server that vanished without a word is noticed here, and it notices us.
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
    for start in range(0, len(ids), _MAX_IDS):
        async with pool.connection() as connection:
            some = ",".join(ids[start : start + _MAX_IDS])
            await connection.execute("SELECT pg_notify(%s, %s)", (_TOPIC, some))


def _ids(payload: str) -> list[UUID]:
    try:
        return [UUID(hex=each) for each in payload.split(",") if each]
    except ValueError:
        # Anybody with a login to the database may notify.
        return []
