"""Sends messages of alerts, one channel beside the other: a channel that is slow or gone delays
neither evaluation nor other channels."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headwater.catalog.alerting.channels import Channel
from headwater.catalog.alerting.messages import Message, from_json
from headwater.catalog.alerting.sending import Sender
from headwater.catalog.store import outbox
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Row
from headwater.errors import EgressRefusedError, NotificationError, UnavailableError
from headwater.settings.alerts import AlertsSettings

_LOG = logging.getLogger("headwater.catalog.alerting")

# A message that waits for its pause is found after this time at the latest.
_LOOK_SECONDS = 2.0
# Messages that could not be written because the database was gone, for each channel.
_MAX_IN_MEMORY = 100
# For how much longer than sending may take a message is kept from other services: starting the
# process that sends, and noting what became of it.
_CLAIM_SECONDS = 30.0
_DRAIN_SECONDS = 30.0
_HOUR = 3600


@dataclass(slots=True, eq=False)
class _InMemory:
    """A message that the database could not take."""

    channel: str
    message: Message
    since: float
    due: float
    tries: int = 0
    sending: bool = False
    # The database has it now, and is told what becomes of it.
    handed_over: bool = False


class OutboxDispatcher:
    """Sends what waits in the database. `start` when this service evaluates, `stop` when not.

    `leads` says whether this service is still the one: one that was cut off must not send beside
    the next.
    """

    def __init__(
        self,
        pool: Pool,
        channels: Mapping[str, Channel],
        settings: AlertsSettings,
        counts: dict[str, int],
        leads: Callable[[], bool],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._counts = counts
        self._leads = leads
        self._senders = {name: Sender(channel, settings) for name, channel in channels.items()}
        self._memory: list[_InMemory] = []
        self._handing_over = asyncio.Lock()
        self._claimed: dict[str, Row] = {}
        self._wakes = {name: asyncio.Event() for name in channels}
        self._tasks: list[asyncio.Task[None]] = []
        # Its own threads: those of the event loop read large bodies.
        self._threads: ThreadPoolExecutor | None = None

    def defined(self, name: str) -> bool:
        return name in self._senders

    def start(self) -> None:
        if not self._senders or self._tasks:
            return
        self._threads = ThreadPoolExecutor(len(self._senders), "headwater-alerts")
        self._tasks = [asyncio.create_task(self._serve(name)) for name in self._senders]

    async def stop(self) -> None:
        """Stop sending; a message on its way is sent again by whoever comes next."""
        for task in self._tasks:
            task.cancel()
        for sender in self._senders.values():
            sender.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        await self._give_back()

    async def drain(self) -> None:
        """Send what waits, each message once, and stop."""
        self.start()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._senders and time.monotonic() < deadline:
            async with self._pool.connection() as connection:
                if not await outbox.any_untried(connection, list(self._senders)):
                    break
            await asyncio.sleep(_LOOK_SECONDS / 10)
        await self.stop()

    def wake(self) -> None:
        """Something was written."""
        for event in self._wakes.values():
            event.set()

    def send_now(self, channel: str, message: Message) -> None:
        """Send without a database; of too many the oldest are dropped."""
        same = [each for each in self._memory if each.channel == channel and not each.sending]
        if len(same) >= _MAX_IN_MEMORY:
            self._memory.remove(same[0])
        now = time.monotonic()
        self._memory.append(_InMemory(channel, message, now, now))
        self._wakes[channel].set()

    @asynccontextmanager
    async def handing_over(self, incident: str) -> AsyncIterator[set[str]]:
        """The channels that have yet to get a message from memory; the body writes it for them."""
        async with self._handing_over:
            kept = [each for each in self._memory if each.message.incident == incident]
            yield {each.channel for each in kept}
            for each in kept:
                each.handed_over = True
                if not each.sending:
                    self._memory.remove(each)

    async def _serve(self, name: str) -> None:
        wake, warm = self._wakes[name], False
        while True:
            wake.clear()
            try:
                if not warm:
                    warm = True
                    await self._in_thread(self._senders[name].warm)
                while (kept := self._due_in_memory(name)) is not None:
                    await self._send_from_memory(kept)
                while self._leads() and await self._send_next(name):
                    pass
            except UnavailableError as error:
                _LOG.warning("channel %s: %s", name, error)
            except Exception:
                _LOG.exception("channel %s: a message could not be sent", name)
            try:
                async with asyncio.timeout(_LOOK_SECONDS):
                    await wake.wait()
            except TimeoutError:
                pass

    def _due_in_memory(self, name: str) -> _InMemory | None:
        now = time.monotonic()
        due = (each for each in self._memory if each.channel == name and each.due <= now)
        return next(due, None)

    async def _send_from_memory(self, kept: _InMemory) -> None:
        kept.sending = True
        try:
            problem = await self._try(kept.channel, kept.message)
        finally:
            kept.sending = False
        async with self._handing_over:
            now = time.monotonic()
            give_up = self._settings.give_up_hours * _HOUR
            if problem is not None and not kept.handed_over and now - kept.since < give_up:
                kept.due = now + outbox.pause(kept.tries)
                kept.tries += 1
                self._count("failed")
                return
            self._memory.remove(kept)
        if not kept.handed_over:
            self._count("sent" if problem is None else "given up")
            return
        key = {"incident_id": kept.message.incident, "kind": kept.message.kind.value}
        await self._note({**key, "channel": kept.channel}, problem)

    async def _send_next(self, name: str) -> bool:
        """Send the next message that is due; whether there was one."""
        seconds = self._settings.send_seconds + _CLAIM_SECONDS
        async with self._pool.connection() as connection:
            row = await outbox.claim(connection, name, seconds)
        if row is None:
            return False
        self._claimed[name] = row
        if not self._leads():
            # Lost while it was asked for: the next one sends it.
            await self._give_back()
            return False
        problem = await self._try(name, from_json(row["body"]))
        await self._note(row, problem)
        self._claimed.pop(name, None)
        return True

    async def _note(self, row: Row, problem: str | None) -> None:
        give_up = self._settings.give_up_hours * _HOUR
        async with self._pool.connection() as connection:
            self._count(await outbox.told(connection, row, problem, give_up))

    async def _give_back(self) -> None:
        """What was claimed and not sent need not wait until nobody can be sending it any more."""
        rows, self._claimed = list(self._claimed.values()), {}
        try:
            for row in rows:
                async with self._pool.connection() as connection:
                    await outbox.give_back(connection, row)
        except UnavailableError as error:
            _LOG.warning("alerts: %s", error)

    async def _try(self, name: str, message: Message) -> str | None:
        try:
            await self._in_thread(self._senders[name].send, message)
        except (NotificationError, EgressRefusedError) as error:
            _LOG.warning("alert %s: %s", message.alert, error)
            return error.message
        return None

    async def _in_thread(self, function: object, *values: object) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, function, *values)  # type: ignore[arg-type]

    def _count(self, outcome: str) -> None:
        self._counts[outcome] = self._counts.get(outcome, 0) + 1
