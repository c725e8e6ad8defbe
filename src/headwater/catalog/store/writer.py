"""Takes events and stores each with its projection, durably, before it is acknowledged.

Events that wait at the same time share one transaction: the disk is asked once for all of them.
What they say is merged before it is written, so that no row is written twice and a dataset that
all of them name is locked once. An event that makes the shared transaction fail is stored alone,
so that it can't harm its neighbours.
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
from headwater.catalog.metrics.values import Pace
from headwater.catalog.store import statements
from headwater.catalog.store.merge import merge
from headwater.catalog.store.pool import CONFLICTS, Pool
from headwater.catalog.store.write_cache import Stored
from headwater.errors import HeadwaterError, InternalError, TooBusyError, UnavailableError
from headwater.settings.fault_points import reach

_LOG = logging.getLogger("headwater.catalog")

# As many as share one transaction: beyond it the statements grow faster than the disk is spared.
_MAX_TOGETHER = 64
# Two services on one database may still lock each other out, for a moment; each try is a whole
# transaction, and the pause grows to 0.4 s.
_TRIES = 6
_LARGE = 1024 * 1024

# An event as it was sent, with its text.
Item = tuple[Event, str]
_Waiting = tuple[Sequence[Item], "asyncio.Future[int]"]


class Writer:
    """One per service. `start` before use, `close` at the end."""

    def __init__(self, pool: Pool, *, max_waiting: int) -> None:
        self.pace = Pace()
        # Told what was stored, after the commit; it must not wait.
        self.on_stored: Callable[[Projection], None] | None = None
        self._pool = pool
        self._max_waiting = max_waiting
        self._waiting: deque[_Waiting] = deque()
        self._count = 0
        self._wake = asyncio.Event()
        self._stored = Stored()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Store what waits, then end."""
        if self._task is not None:
            while self._count:
                await asyncio.sleep(0.01)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def store(self, items: Sequence[Item]) -> int:
        """Returns when all events are on disk; how many of them were new.

        All of them are stored, or none.

        Raises:
            TooBusyError: too many events wait already.
            DatabaseUnavailableError: nothing is known to be stored; sending again is harmless.
        """
        if not items:
            return 0
        if self._count + len(items) > self._max_waiting and self._count:
            raise TooBusyError(
                f"{self._count} events wait to be stored",
                hint="send fewer at once, or raise HEADWATER_CATALOG__MAX_WAITING_EVENTS",
            )
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, done))
        self._count += len(items)
        self._wake.set()
        began = time.monotonic()
        new = await done
        now = time.monotonic()
        self.pace.note(new, now - began, now)
        return new

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            together = self._take()
            if not together:
                self._wake.clear()
                continue
            try:
                await self._store_together(together)
            finally:
                self._count -= sum(len(items) for items, _ in together)
                for _, done in together:
                    if not done.done():
                        done.set_exception(InternalError("an event was left behind"))

    def _take(self) -> list[_Waiting]:
        together: list[_Waiting] = []
        size = 0
        while self._waiting and (not together or size < _MAX_TOGETHER):
            items, done = self._waiting.popleft()
            together.append((items, done))
            size += len(items)
        return together

    async def _store_together(self, together: list[_Waiting]) -> None:
        try:
            new = await self._store([item for items, _ in together for item in items])
        except UnavailableError as error:
            # The database, not an event, is the reason: one by one it would only take longer.
            _fail(together, error)
        except Exception as error:
            if len(together) == 1:
                _fail(together, error)
                return
            _LOG.warning("storing %d requests one by one: %s", len(together), type(error).__name__)
            for one in together:
                await self._store_together([one])
        else:
            for items, done in together:
                if not done.cancelled():
                    done.set_result(sum(event.key in new for event, _ in items))

    async def _store(self, items: Sequence[Item]) -> set[Any]:
        for attempt in range(_TRIES):
            try:
                return await self._transaction(items)
            except CONFLICTS:
                if attempt == _TRIES - 1:
                    raise TooBusyError(
                        f"writers got in each other's way {_TRIES} times in a row"
                    ) from None
                await asyncio.sleep(0.0125 * 2**attempt)
        raise InternalError("unreachable")

    async def _transaction(self, items: Sequence[Item]) -> set[Any]:
        unique = {event.key: (event, text) for event, text in items}
        async with self._pool.connection(conflicts_as=None) as connection:
            new = await _insert_events(connection, [unique[key] for key in sorted(unique)])
            # An event that is there already has had its effect, and must not undo a deletion.
            rows = await self._project([unique[key] for key in new])
            if new:
                await merge(connection, rows, self._stored)
            reach("before_catalog_commit")
        reach("after_catalog_commit")
        self._stored.add(rows)
        if self.on_stored is not None:
            try:
                self.on_stored(rows)
            except Exception:
                # What is stored is stored, whatever became of those who wanted to know.
                _LOG.exception("what was stored could not be told")
        return new

    async def _project(self, items: Sequence[Item]) -> Projection:
        events = [event for event, _ in items]
        if sum(len(text) for _, text in items) < _LARGE:
            return project(events, self._stored.columns)
        # Long enough for others to notice: a thread does it, and they are answered meanwhile.
        return await asyncio.to_thread(project, events, self._stored.columns)


async def _insert_events(connection: AsyncConnection[Any], items: Sequence[Item]) -> set[Any]:
    rows = [
        {
            "key": event.key,
            "kind": event.kind,
            "event_type": event.event_type,
            "at": event.at,
            "run_id": event.run_id,
            "body": text,
        }
        for event, text in items
    ]
    inserted = await connection.execute(statements.EVENTS, (orjson.dumps(rows).decode(),))
    return {key for (key,) in await inserted.fetchall()}


def _fail(together: list[_Waiting], error: Exception) -> None:
    if not isinstance(error, HeadwaterError):
        _LOG.exception("an event could not be stored", exc_info=error)
        error = InternalError("an event could not be stored")
    for _, done in together:
        if not done.done():
            done.set_exception(error)
