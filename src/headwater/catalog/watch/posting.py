"""Sends messages of alerts, one channel beside the other: a channel that is slow or gone delays
neither evaluation nor other channels."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from headwater.alerts.channels import Channel
from headwater.alerts.messages import Message, from_json
from headwater.alerts.sending import Sender
from headwater.catalog.store import outbox
from headwater.catalog.store.pool import Pool
from headwater.errors import EgressRefusedError, NotificationError, UnavailableError
from headwater.settings.alerts import AlertsSettings

_LOG = logging.getLogger("headwater.alerts")

# A message that waits for its pause is found after this time at the latest.
_LOOK_SECONDS = 2.0
# Messages that could not be written because the database was gone, for each channel.
_MOST_IN_MEMORY = 100
_HOUR = 3600


class Postman:
    """Sends what waits in the database. `start` when this service evaluates, `stop` when not."""

    def __init__(
        self,
        pool: Pool,
        channels: Mapping[str, Channel],
        settings: AlertsSettings,
        counts: dict[str, int],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._counts = counts
        self._senders = {name: Sender(channel, settings) for name, channel in channels.items()}
        self._memory: dict[str, deque[Message]] = {
            name: deque(maxlen=_MOST_IN_MEMORY) for name in channels
        }
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

    def wake(self) -> None:
        """Something was written."""
        for event in self._wakes.values():
            event.set()

    def send_now(self, channel: str, message: Message) -> None:
        """Send without a database; of too many the oldest are dropped."""
        self._memory[channel].append(message)
        self._wakes[channel].set()

    async def _serve(self, name: str) -> None:
        sender, wake = self._senders[name], self._wakes[name]
        await self._in_thread(sender.warm)
        while True:
            wake.clear()
            try:
                while self._memory[name]:
                    await self._send_from_memory(name)
                while await self._send_next(name):
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

    async def _send_from_memory(self, name: str) -> None:
        message = self._memory[name].popleft()
        problem = await self._try(name, message)
        self._count("sent" if problem is None else "given up")

    async def _send_next(self, name: str) -> bool:
        """Send the next message that is due; whether there was one."""
        async with self._pool.connection() as connection:
            row = await outbox.next_due(connection, name)
        if row is None:
            return False
        problem = await self._try(name, from_json(row["body"]))
        give_up = self._settings.give_up_hours * _HOUR
        async with self._pool.connection() as connection:
            self._count(await outbox.told(connection, row, problem, give_up))
        return True

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
