"""Connections to the catalog's database, and what their failures mean."""

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

# What ends one of two transactions that lock the same rows; the same again may work.
CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)

# For those who only hand one on.
Connection = AsyncConnection[Any]

_LOG = logging.getLogger("headwater.catalog")

# Beyond the time that the database gives a statement: it should speak first, it knows more.
_GRACE_SECONDS = 5.0
# How long a connection may take to say that it is there.
_CHECK_SECONDS = 2.0


class Pool:
    """A pool that heals by itself after the database was gone."""

    def __init__(self, url: str, *, size: int, wait_seconds: float, query_seconds: float) -> None:
        self._query_seconds = query_seconds
        self._pool: AsyncConnectionPool[BoundedConnection] = AsyncConnectionPool(
            url,
            connection_class=BoundedConnection,
            min_size=2,
            max_size=size,
            timeout=wait_seconds,
            # Longer than a restart of PostgreSQL takes, shorter than a person's patience.
            reconnect_timeout=30,
            configure=self._configure,
            # A broken connection would cost a client an error: each is asked first, for 0.1 ms.
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
            DatabaseUnavailableError: the database is not there, went away, or hangs.
            QueryTimeoutError: a statement took longer than the setting allows.
            TooBusyError: two writers were in each other's way; with `conflicts_as=None` the
                driver's own error, for a caller that tries again.
        """
        try:
            async with self._pool.connection() as connection:
                yield connection
        except CONFLICTS:
            if conflicts_as is None:
                raise
            raise conflicts_as("two writers were in each other's way") from None
        except psycopg.errors.QueryCanceled:
            raise QueryTimeoutError(
                f"a query took longer than {self._query_seconds:g} s",
                hint="ask for less, or raise HEADWATER_CATALOG__QUERY_SECONDS",
            ) from None
        except (PoolTimeout, psycopg.OperationalError, psycopg.InterfaceError) as error:
            # The driver's text may hold host and user, which are no business of a client.
            _LOG.warning("database: %s", type(error).__name__)
            raise DatabaseUnavailableError(
                "the catalog's database does not answer", hint="look at the service's log"
            ) from error

    async def _check(self, connection: BoundedConnection) -> None:
        connection.patience = _CHECK_SECONDS
        await AsyncConnectionPool.check_connection(connection)
        connection.patience = self._query_seconds + _GRACE_SECONDS

    async def _configure(self, connection: BoundedConnection) -> None:
        set_json_loads(orjson.loads, connection)
        milliseconds = int(self._query_seconds * 1000)
        await connection.execute(f"SET statement_timeout = {milliseconds}")
        # A client that vanished in the middle must not hold locks.
        await connection.execute("SET idle_in_transaction_session_timeout = '60s'")
        await connection.execute("SET timezone = 'UTC'")
        # Short statements with JSON rows: compiling them costs more than it saves.
        await connection.execute("SET jit = off")
        await connection.commit()
