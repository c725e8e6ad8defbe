"""What routes work with: the database, the writer, the limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request

from headwater.catalog.alerting.scheduler import AlertScheduler
from headwater.catalog.alerting.service_metrics import ServiceMetrics
from headwater.catalog.store.pool import Connection, Pool
from headwater.catalog.store.retention import keep_sweeping
from headwater.catalog.store.writer import Writer
from headwater.errors import TooBusyError
from headwater.settings import Settings, rules_file

# How long a question waits for its turn: longer than most take, shorter than a client's patience.
_TURN_SECONDS = 5.0
# The writer, changes by hand, looks at keys, figures and alerts must find one beside all questions.
_SPARE_CONNECTIONS = 6


class Service:
    """One per process. Open it before the first request."""

    def __init__(self, all_settings: Settings, url: str) -> None:
        settings = self.settings = all_settings.catalog
        self.pool = Pool(
            url,
            size=settings.max_queries + _SPARE_CONNECTIONS,
            wait_seconds=5,
            query_seconds=settings.query_seconds,
        )
        self.writer = Writer(self.pool, max_waiting=settings.max_queued_events)
        self.figures = ServiceMetrics(self.pool, self.writer.pace, max_named=settings.max_named)
        self.alerts = AlertScheduler(
            self.pool, url, all_settings.alerts, lambda: rules_file(all_settings), self.figures
        )
        self.writer.on_stored = self.alerts.stored
        self._turns = asyncio.Semaphore(settings.max_queries)
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.pool.open()
        self.writer.start()
        self.figures.start()
        self.alerts.start()
        if self.settings.retention_days:
            sweeping = keep_sweeping(self.pool, self.settings.retention_days)
            self._sweeping = asyncio.create_task(sweeping)

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self.writer.close()
        await self.alerts.close()
        await self.figures.close()
        await self.pool.close()

    @asynccontextmanager
    async def question(self) -> AsyncIterator[Connection]:
        """A connection to ask with, when it is this request's turn.

        Raises:
            TooBusyError: too many questions are being answered.
        """
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise TooBusyError(
                f"{self.settings.max_queries} questions are being answered already",
                hint="try again, or raise HEADWATER_CATALOG__MAX_QUERIES",
            ) from None
        try:
            async with self.pool.connection() as connection:
                yield connection
        finally:
            self._turns.release()

    def rows(self, limit: int) -> tuple[int, bool]:
        """How many entries a list may have, and whether fewer than were asked for."""
        most = self.settings.max_rows
        return min(limit, most), limit > most


def service_of(request: Request) -> Service:
    found = request.app.state.service
    assert isinstance(found, Service)  # noqa: S101 - set by create_app
    return found
