"""Connections that do not wait for ever: for a database that hangs, or a network that swallows
everything, no error ever comes by itself.

A statement has its timeout in the database, which is of no use when that does not answer. So each
wait has a bound here as well. When it is over, the socket is shut down: the driver finds the
connection ended and says so. To cancel the wait instead would ask the same database to cancel the
statement, and take ten seconds more.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

# For what the driver and the kernel do by themselves: a peer that is gone is noticed within
# 25 s also where nothing is sent, and within 15 s where something is.
_NETWORK: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class BoundedConnection(AsyncConnection[Any]):
    """Ends itself when an answer takes longer than `patience` seconds."""

    # While a connection is made and prepared; whoever uses it sets its own.
    patience = 5.0

    async def wait(self, *values: Any, **named: Any) -> Any:
        """As the driver's own, through which every answer comes, with a bound."""
        loop = asyncio.get_running_loop()
        ending = loop.call_later(self.patience, self._hang_up)
        try:
            return await super().wait(*values, **named)
        except psycopg.Error as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # The driver, asked to stop, met the end of the connection and tells of that: who
                # takes it for a fault would go on.
                raise asyncio.CancelledError from error
            raise
        finally:
            ending.cancel()

    def _hang_up(self) -> None:
        # A copy of the descriptor: the driver's own stays its own, and the event loop's.
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as copy,
        ):
            copy.shutdown(socket.SHUT_RDWR)


def connection_options(url: str, name: str) -> dict[str, Any]:
    """What to connect with, beside the address; what the address says itself holds."""
    said = conninfo_to_dict(url)
    options = {**_NETWORK, "application_name": name}
    return {key: value for key, value in options.items() if key not in said}
