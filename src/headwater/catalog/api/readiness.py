"""Readiness: whether a load balancer should send requests to this service."""

from __future__ import annotations

import asyncio

from headwater.catalog.store.pool import Pool
from headwater.errors import UnavailableError

# Shorter than the timeout of a probe, so that the response contains the reason. The check of a
# connection takes 0.1 ms, or 2 s if the database hangs.
_WAIT_SECONDS = 1.0


class Readiness:
    """One per service. It ends with `stop`, before the service closes its ports."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.stopping = False
        self._check: asyncio.Task[str | None] | None = None

    def stop(self) -> None:
        self.stopping = True

    async def problem(self) -> str | None:
        """Why the service is not ready; None if it is.

        Concurrent requests share one check. It is not cancelled when a probe gives up: the driver
        would then ask the same database, which hangs, to cancel the statement.
        """
        if self.stopping:
            return "the service is stopping"
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(self._check_database())
        done, _ = await asyncio.wait({self._check}, timeout=_WAIT_SECONDS)
        if not done:
            return "the catalog's database does not respond"
        return self._check.result()

    async def close(self) -> None:
        if self._check is not None:
            await asyncio.gather(self._check, return_exceptions=True)

    async def _check_database(self) -> str | None:
        try:
            await self._pool.check_schema()
        except UnavailableError as error:
            return error.message
        return None
