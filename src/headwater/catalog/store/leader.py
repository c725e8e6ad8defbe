"""Leader election: of several services on one database, the holder of an advisory lock evaluates
alerts.

The lock belongs to a separate connection and is released when the connection ends. TCP keepalives
and `idle_session_timeout` make the database end the session of a leader that crashed, hangs or is
unreachable. On the same connection the other services notify the leader of failed runs.
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
_CHANNEL = "headwater_failed_runs"
# A payload has at most 8,000 bytes; an id takes 33.
_MAX_IDS = 200
_LISTEN_SECONDS = 5.0
_REPLY_SECONDS = 5.0
# The idle timeout is several times the longest pause between two statements of a live leader.
_SESSION_SETTINGS = (
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
    "SET tcp_user_timeout = '15s'",
    "SET idle_session_timeout = '30s'",
    f"SET statement_timeout = '{_REPLY_SECONDS:g}s'",
)


class Leadership:
    """Whether this service is the leader."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: BoundedConnection | None = None

    @property
    def held(self) -> bool:
        return self._connection is not None

    async def acquire(self) -> bool:
        """Try to become the leader; returns whether this service is the leader now.

        Raises:
            DatabaseUnavailableError: the database does not respond.
        """
        if self._connection is not None:
            return True
        try:
            connection = await BoundedConnection.connect(
                self._url, autocommit=True, **connection_options(self._url, "headwater-alerts")
            )
            self._connection = await self._with_lock(connection)
        except psycopg.Error as error:
            raise DatabaseUnavailableError("the catalog's database does not respond") from error
        return self.held

    async def _with_lock(self, connection: BoundedConnection) -> BoundedConnection | None:
        """The connection with the lock; None, and closed, if another service holds the lock."""
        locked = False
        try:
            # `listen` waits for notifications this long without a reply.
            connection.reply_timeout = _LISTEN_SECONDS + _REPLY_SECONDS
            # Before the lock: the timeouts must apply from the moment it is held.
            for statement in _SESSION_SETTINGS:
                await connection.execute(statement.encode())
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,))
            row = await cursor.fetchone()
            if row is not None and row[0]:
                await connection.execute(f"LISTEN {_CHANNEL}".encode())
                locked = True
        finally:
            # Also on cancellation: an open connection would keep the lock.
            if not locked:
                await connection.close()
        return connection if locked else None

    async def listen(self, on_failed_runs: Callable[[Iterable[UUID]], None]) -> None:
        """Pass on the notifications of other services until the connection ends."""
        connection = self._connection
        if connection is None:
            return
        try:
            while True:
                async for notification in connection.notifies(timeout=_LISTEN_SECONDS):
                    on_failed_runs(_ids(notification.payload))
                # Detects a lost server, and resets the idle timeout of the session.
                await connection.execute("SELECT 1")
        except psycopg.Error:
            await self.release()

    async def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


async def notify_leader(pool: Pool, runs: Iterable[UUID]) -> None:
    """Notify the leader of failed runs."""
    ids = [each.hex for each in runs]
    for start in range(0, len(ids), _MAX_IDS):
        async with pool.connection() as connection:
            payload = ",".join(ids[start : start + _MAX_IDS])
            await connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, payload))


def _ids(payload: str) -> list[UUID]:
    try:
        return [UUID(hex=each) for each in payload.split(",") if each]
    except ValueError:
        # Any database user can notify the channel.
        return []
