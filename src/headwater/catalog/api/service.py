"""The state that all routes share: connection pool, event writer, metrics and alerts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request

from headwater.catalog.alerting.scheduler import AlertScheduler
from headwater.catalog.alerting.service_metrics import ServiceMetrics
from headwater.catalog.api.readiness import Readiness
from headwater.catalog.store.pool import Connection, Pool
from headwater.catalog.store.retention import sweep_periodically
from headwater.catalog.store.writer import Writer
from headwater.errors import TooBusyError
from headwater.settings import Settings, rules_file

# How long a query waits for a slot: longer than most queries take, shorter than client timeouts.
_SLOT_SECONDS = 5.0
# Concurrent graphs: each may take several times the memory of other responses.
_MAX_GRAPHS = 2
# Connections for the writer, key lookups, metrics, alerts and retention, on top of `max_queries`.
_SPARE_CONNECTIONS = 6


class CatalogService:
    """One instance per process. Open it before the first request."""

    def __init__(self, all_settings: Settings, url: str) -> None:
        settings = self.settings = all_settings.catalog
        self.pool = Pool(
            url,
            size=settings.max_queries + _SPARE_CONNECTIONS,
            wait_seconds=5,
            query_seconds=settings.query_seconds,
            response_bytes=int(settings.max_response_mb * 1024 * 1024),
        )
        self.readiness = Readiness(self.pool)
        self.writer = Writer(self.pool, max_waiting=settings.max_queued_events)
        self.metrics = ServiceMetrics(self.pool, self.writer.metrics, max_named=settings.max_named)
        self.alerts = AlertScheduler(
            self.pool, url, all_settings.alerts, lambda: rules_file(all_settings), self.metrics
        )
        self.writer.on_stored = self.alerts.on_stored
        self._slots = asyncio.Semaphore(settings.max_queries)
        self._graph_slots = asyncio.Semaphore(_MAX_GRAPHS)
        self._sweeping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.pool.open()
        self.writer.start()
        self.metrics.start()
        self.alerts.start()
        if self.settings.retention_days:
            sweeping = sweep_periodically(self.pool, self.settings.retention_days)
            self._sweeping = asyncio.create_task(sweeping)

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        await self.writer.close()
        await self.alerts.close()
        await self.metrics.close()
        await self.readiness.close()
        await self.pool.close()

    @asynccontextmanager
    async def query_connection(self) -> AsyncIterator[Connection]:
        """A database connection for one request; at most `max_queries` at once.

        Raises:
            TooBusyError: no slot was free in time.
        """
        busy = TooBusyError(
            f"{self.settings.max_queries} queries are already running",
            hint="try again, or raise HEADWATER_CATALOG__MAX_QUERIES",
        )
        async with _slot(self._slots, busy), self.pool.connection() as connection:
            yield connection

    @asynccontextmanager
    async def graph_connection(self) -> AsyncIterator[Connection]:
        """The same for a graph.

        Raises:
            TooBusyError: no slot was free in time.
        """
        busy = TooBusyError(f"{_MAX_GRAPHS} graphs are already requested", hint="try again")
        async with _slot(self._graph_slots, busy), self.query_connection() as connection:
            yield connection

    def capped_limit(self, limit: int) -> tuple[int, bool]:
        """The limit of a list, at most `max_rows`, and whether it is lower than requested."""
        max_rows = self.settings.max_rows
        return min(limit, max_rows), limit > max_rows


@asynccontextmanager
async def _slot(slots: asyncio.Semaphore, busy: TooBusyError) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(_SLOT_SECONDS):
            await slots.acquire()
    except TimeoutError:
        raise busy from None
    try:
        yield
    finally:
        slots.release()


def service_of(request: Request) -> CatalogService:
    service = request.app.state.service
    assert isinstance(service, CatalogService)  # noqa: S101 - set by create_api
    return service
