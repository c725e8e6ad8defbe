"""The connection pool of the catalog's database. Maps driver errors to Headwater's."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import psycopg
from psycopg import AsyncConnection
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from headwater.catalog.store.bounded import BoundedConnection, connection_options
from headwater.catalog.store.schema import newest
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

    def __init__(
        self,
        url: str,
        *,
        size: int,
        wait_seconds: float,
        query_seconds: float,
        response_bytes: int = BoundedConnection.response_bytes,
    ) -> None:
        self._query_seconds = query_seconds
        self._response_bytes = response_bytes
        # The version of the database's schema when a connection was last used.
        self._schema = 0
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
            DatabaseUnavailableError: the database is not reachable or does not respond, or a
                newer service has migrated it and the body writes.
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
        except psycopg.errors.ReadOnlySqlTransaction:
            raise DatabaseUnavailableError(
                f"the catalog's database has schema {self._schema}, newer than {newest()} of this "
                "service, which therefore does not write",
                hint="update this service, or stop it: a newer one uses the same database",
            ) from None
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
        """Check that the connection works, and that the schema is not newer than this code.

        A newer service may migrate the database while this one is running. It can still be read,
        but what this one would write might be incomplete.
        """
        connection.reply_timeout = _CHECK_SECONDS
        await connection.set_autocommit(True)
        try:
            cursor = await connection.execute("SELECT max(version) FROM schema_versions")
            row = await cursor.fetchone()
        except psycopg.errors.UndefinedTable:
            row = (0,)
        finally:
            # Without replacing the exception of a closed connection.
            with suppress(psycopg.Error):
                await connection.set_autocommit(False)
        self._schema = row[0] if row else 0
        await connection.set_read_only(True if self._schema > newest() else None)
        connection.reply_timeout = self._query_seconds + _GRACE_SECONDS

    async def _configure(self, connection: BoundedConnection) -> None:
        set_json_loads(orjson.loads, connection)
        connection.response_bytes = self._response_bytes
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
