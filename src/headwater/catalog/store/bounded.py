"""Connections with a timeout for every reply.

`statement_timeout` is enforced by the database: it does not help if the database hangs or the
network drops packets. So every wait also has a timeout on the client. When it expires, the socket
is shut down and the driver raises an error. Cancelling the wait instead would make the driver ask
the same database to cancel the statement, which takes ten more seconds.
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

# TCP settings: a lost peer is detected within 25 s if nothing is sent, and within 15 s if something
# is.
_NETWORK: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class BoundedConnection(AsyncConnection[Any]):
    """Shuts down its socket when a reply takes longer than `reply_timeout` seconds."""

    # The default applies while the connection is set up; its user sets another.
    reply_timeout = 5.0
    # The limit for facets, and for other entries, of a response; see `limits`.
    response_bytes = 8 * 1024 * 1024

    async def wait(self, *values: Any, **named: Any) -> Any:
        """Overrides the method through which the driver waits for every reply."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.reply_timeout, self._shut_down)
        try:
            return await super().wait(*values, **named)
        except psycopg.Error as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # The task was cancelled, and the driver raised the connection error instead: a
                # caller that handles database errors would ignore the cancellation.
                raise asyncio.CancelledError from error
            raise
        finally:
            timer.cancel()

    def _shut_down(self) -> None:
        # A duplicate: closing the original would take it from the driver and the event loop.
        with (
            suppress(OSError, psycopg.Error),
            socket.socket(fileno=os.dup(self.pgconn.socket)) as copy,
        ):
            copy.shutdown(socket.SHUT_RDWR)


def connection_options(url: str, name: str) -> dict[str, Any]:
    """Connection parameters in addition to those of the URL, which take precedence."""
    in_url = conninfo_to_dict(url)
    options = {**_NETWORK, "application_name": name}
    return {key: value for key, value in options.items() if key not in in_url}
