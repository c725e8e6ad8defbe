"""Stores events with their projection, durably, before they are acknowledged.

Queued events share one transaction, and so one fsync. Their projection is merged before it is
written: no row is written twice, and a dataset that all of them name is locked once. If the shared
transaction fails, the requests are stored one by one, so that an event can't fail the others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from psycopg import AsyncConnection

from headwater.catalog.ingest import Event, Projection, project
from headwater.catalog.metrics.values import IngestMetrics
from headwater.catalog.store import statements
from headwater.catalog.store.merge import merge
from headwater.catalog.store.pool import CONFLICTS, Pool
from headwater.catalog.store.write_cache import WriteCache
from headwater.errors import HeadwaterError, InternalError, TooBusyError, UnavailableError
from headwater.settings.fault_points import reach

_LOG = logging.getLogger("headwater.catalog")

# Events per transaction: with more of them, the statements cost more than the fsync saves.
_MAX_BATCH = 64
# Attempts after conflicts with other services on the database; the pause grows to 0.4 s.
_MAX_ATTEMPTS = 6
# Larger batches are projected in a thread.
_LARGE_BYTES = 1024 * 1024

# An event and its JSON text.
Item = tuple[Event, str]
_Request = tuple[Sequence[Item], "asyncio.Future[int]"]


class Writer:
    """One per service. `start` before use, `close` at the end."""

    def __init__(self, pool: Pool, *, max_waiting: int) -> None:
        self.metrics = IngestMetrics()
        # Called after each commit; it must not block.
        self.on_stored: Callable[[Projection], None] | None = None
        self._pool = pool
        self._max_waiting = max_waiting
        self._queue: deque[_Request] = deque()
        self._count = 0
        self._wake = asyncio.Event()
        self._cache = WriteCache()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Store the queued events, then stop."""
        if self._task is not None:
            while self._count:
                await asyncio.sleep(0.01)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def store(self, items: Sequence[Item]) -> int:
        """Store all events or none; returns the number of new ones once they are on disk.

        Raises:
            TooBusyError: too many events are queued.
            DatabaseUnavailableError: the events may not be stored; they can be sent again.
        """
        if not items:
            return 0
        if self._count + len(items) > self._max_waiting and self._count:
            raise TooBusyError(
                f"{self._count} events are queued",
                hint="send fewer events, or increase HEADWATER_CATALOG__MAX_QUEUED_EVENTS",
            )
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append((items, done))
        self._count += len(items)
        self._wake.set()
        began = time.monotonic()
        new = await done
        now = time.monotonic()
        self.metrics.record(new, now - began, now)
        return new

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            batch = self._take()
            if not batch:
                self._wake.clear()
                continue
            try:
                await self._store_batch(batch)
            finally:
                self._count -= sum(len(items) for items, _ in batch)
                for _, done in batch:
                    if not done.done():
                        done.set_exception(InternalError("an event was not stored"))

    def _take(self) -> list[_Request]:
        batch: list[_Request] = []
        size = 0
        while self._queue and (not batch or size < _MAX_BATCH):
            items, done = self._queue.popleft()
            batch.append((items, done))
            size += len(items)
        return batch

    async def _store_batch(self, batch: list[_Request]) -> None:
        try:
            new = await self._store([item for items, _ in batch for item in items])
        except UnavailableError as error:
            # The database is the reason, not an event: storing them one by one would fail, too.
            _fail(batch, error)
        except Exception as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            _LOG.warning(
                "a batch failed, storing its %d requests one by one: %s",
                len(batch),
                type(error).__name__,
            )
            for one in batch:
                await self._store_batch([one])
        else:
            for items, done in batch:
                if not done.cancelled():
                    done.set_result(sum(event.key in new for event, _ in items))

    async def _store(self, items: Sequence[Item]) -> set[Any]:
        for attempt in range(_MAX_ATTEMPTS):
            try:
                return await self._transaction(items)
            except CONFLICTS:
                if attempt == _MAX_ATTEMPTS - 1:
                    raise TooBusyError(
                        f"the transaction conflicted with others {_MAX_ATTEMPTS} times"
                    ) from None
                await asyncio.sleep(0.0125 * 2**attempt)
        raise InternalError("unreachable")

    async def _transaction(self, items: Sequence[Item]) -> set[Any]:
        unique = {event.key: (event, text) for event, text in items}
        async with self._pool.connection(conflicts_as=None) as connection:
            new = await _insert_events(connection, [unique[key] for key in sorted(unique)])
            # A stored event is not projected again: that would undo a deletion.
            rows = await self._project([unique[key] for key in new])
            if new:
                await merge(connection, rows, self._cache)
            reach("before_catalog_commit")
        reach("after_catalog_commit")
        self._cache.add(rows)
        if self.on_stored is not None:
            try:
                self.on_stored(rows)
            except Exception:
                # The events are stored: the request succeeds.
                _LOG.exception("on_stored callback failed")
        return new

    async def _project(self, items: Sequence[Item]) -> Projection:
        events = [event for event, _ in items]
        if sum(len(text) for _, text in items) < _LARGE_BYTES:
            return project(events, self._cache.columns)
        # In a thread, so that the event loop can serve other requests.
        return await asyncio.to_thread(project, events, self._cache.columns)


async def _insert_events(connection: AsyncConnection[Any], items: Sequence[Item]) -> set[Any]:
    rows = [
        {
            "key": event.key,
            "kind": event.kind,
            # Events of runs have a type, all others none: an index has this column.
            "event_type": event.event_type or ("OTHER" if event.run_id else None),
            "at": event.sent_at,
            "run_id": event.run_id,
            "body": text,
        }
        for event, text in items
    ]
    inserted = await connection.execute(statements.EVENTS, (orjson.dumps(rows).decode(),))
    return {key for (key,) in await inserted.fetchall()}


def _fail(batch: list[_Request], error: Exception) -> None:
    if not isinstance(error, HeadwaterError):
        _LOG.exception("an event could not be stored", exc_info=error)
        error = InternalError("an event could not be stored")
    for _, done in batch:
        if not done.done():
            done.set_exception(error)
