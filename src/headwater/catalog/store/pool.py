"""The connection pool of the catalog's database. Maps driver errors to Headwater's."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import psycopg
from psycopg import AsyncConnection
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from headwater.catalog.store.bounded import BoundedConnection, connection_options
from headwater.errors import DatabaseUnavailableError, QueryTimeoutError, TooBusyError

# Errors of a transaction that conflicts with another one; a retry may succeed.
CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)

# For modules that must not import psycopg.
Connection = AsyncConnection[Any]

_LOG = logging.getLogger("headwater.catalog")

# Added to `statement_timeout`: the error of the database is more precise than a closed socket.
_GRACE_SECONDS = 5.0
# Timeout of the check before a connection is used.
_CHECK_SECONDS = 2.0


class Pool:
    """A pool that reconnects after the database was unavailable."""

    def __init__(self, url: str, *, size: int, wait_seconds: float, query_seconds: float) -> None:
        self._query_seconds = query_seconds
        self._pool: AsyncConnectionPool[BoundedConnection] = AsyncConnectionPool(
            url,
            connection_class=BoundedConnection,
            min_size=2,
            max_size=size,
            timeout=wait_seconds,
            # Longer than a restart of PostgreSQL takes, and short enough to wait for.
            reconnect_timeout=30,
            configure=self._configure,
            # Costs 0.1 ms and saves the client the error of a broken connection.
            check=self._check,
            open=False,
            kwargs=connection_options(url, "headwater-catalog"),
        )

    async def open(self) -> None:
        await self._pool.open(wait=True, timeout=30)

    async def close(self) -> None:
        await self._pool.close(timeout=5)

    @asynccontextmanager
    async def connection(
        self, conflicts_as: type[TooBusyError] | None = TooBusyError
    ) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection in a transaction, committed at the end of the body.

        Raises:
            DatabaseUnavailableError: the database is not reachable or does not respond.
            QueryTimeoutError: a statement took longer than the setting allows.
            TooBusyError: the transaction conflicts with another one. With `conflicts_as=None` the
                driver's error is raised, for callers that retry.
        """
        try:
            async with self._pool.connection() as connection:
                yield connection
        except CONFLICTS:
            if conflicts_as is None:
                raise
            raise conflicts_as("the transaction conflicts with another one") from None
        except psycopg.errors.QueryCanceled:
            raise QueryTimeoutError(
                f"a query took longer than {self._query_seconds:g} s",
                hint="request less, or increase HEADWATER_CATALOG__QUERY_SECONDS",
            ) from None
        except (PoolTimeout, psycopg.OperationalError, psycopg.InterfaceError) as error:
            # Not the driver's message: it may name the host and the user.
            _LOG.warning("database: %s", type(error).__name__)
            raise DatabaseUnavailableError(
                "the catalog's database does not respond", hint="see the service's log"
            ) from error

    async def _check(self, connection: BoundedConnection) -> None:
        connection.reply_timeout = _CHECK_SECONDS
        await AsyncConnectionPool.check_connection(connection)
        connection.reply_timeout = self._query_seconds + _GRACE_SECONDS

    async def _configure(self, connection: BoundedConnection) -> None:
        set_json_loads(orjson.loads, connection)
        milliseconds = int(self._query_seconds * 1000)
        await connection.execute(f"SET statement_timeout = {milliseconds}")
        # A transaction of a lost client must not keep its locks.
        await connection.execute("SET idle_in_transaction_session_timeout = '60s'")
        await connection.execute("SET timezone = 'UTC'")
        # Compiling short statements costs more than it saves.
        await connection.execute("SET jit = off")
        await connection.commit()


async def ping(connection: Connection) -> None:
    """Check that the database responds."""
    await connection.execute("SELECT 1")
