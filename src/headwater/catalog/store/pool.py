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
from headwater.catalog.store.schema import MIGRATION_LOCK, newest
from headwater.errors import (
    DatabaseUnavailableError,
    QueryTimeoutError,
    SchemaMismatchError,
    TooBusyError,
)

# Errors of a transaction that conflicts with another one; a retry may succeed.
CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)

# For modules that must not import psycopg.
Connection = AsyncConnection[Any]

_LOG = logging.getLogger("headwater.catalog")

# Added to `statement_timeout`: the error of the database is more precise than a closed socket.
_GRACE_SECONDS = 5.0
# Timeout of the check before a connection is used.
_CHECK_SECONDS = 2.0
# The version of the schema, and the lock that lets a migration wait for this transaction. A
# migration that waits for the lock, or has it, makes this return false at once.
_CHECK = (
    f"SELECT max(version), pg_try_advisory_xact_lock_shared({MIGRATION_LOCK}) FROM schema_versions"
)


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
        # The version of the database's schema, and whether a service migrates it, when a
        # connection was last used.
        self._schema = 0
        self._migrating = False
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
            DatabaseUnavailableError: the database is not reachable or does not respond, or it
                is a standby and the body writes.
            SchemaMismatchError: the body writes, and the database has another schema or is
                being migrated.
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
            raise self._refusal() from None
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

    async def check_schema(self) -> None:
        """Check that the database responds and has the schema of this code.

        Raises:
            DatabaseUnavailableError: the database is not reachable or does not respond.
            SchemaMismatchError: it has another schema.
        """
        async with self.connection():
            if self._schema != newest():
                raise self._refusal()

    def _refusal(self) -> SchemaMismatchError | DatabaseUnavailableError:
        """The error for a write in a transaction that is read-only."""
        own = newest()
        if self._schema == own:
            if self._migrating:
                return SchemaMismatchError(
                    "the catalog's database is being migrated, and can only be read until then",
                    hint="try again",
                )
            return DatabaseUnavailableError(
                "the catalog's database can only be read: it is a standby",
                hint="HEADWATER_CATALOG__DATABASE_URL must name the primary",
            )
        order = "newer" if self._schema > own else "older"
        return SchemaMismatchError(
            f"the catalog's database has schema {self._schema}, {order} than {own} of this "
            "service, which therefore does not write",
            hint="update this service, or stop it: a newer one uses the same database"
            if order == "newer"
            else "restart this service: it migrates the database when it starts",
        )

    async def _check(self, connection: BoundedConnection) -> None:
        """Check that the connection works, and that the schema is that of this code.

        A newer service may migrate the database while this one is running. It can still be read,
        but what this one would write might be incomplete. The check is in the transaction of the
        body and locks out migrations until its end: none can begin between check and write.
        """
        connection.reply_timeout = _CHECK_SECONDS
        try:
            cursor = await connection.execute(_CHECK.encode())
            row = await cursor.fetchone()
        except psycopg.errors.UndefinedTable:
            row = None
            await connection.rollback()
        version, locked = row or (None, True)
        self._schema, self._migrating = version or 0, not locked
        if self._migrating or self._schema != newest():
            await connection.execute("SET TRANSACTION READ ONLY")
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
