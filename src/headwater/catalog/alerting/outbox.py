"""Sends alert messages, with one task per channel: a slow or unreachable channel delays neither
evaluation nor other channels."""

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
from headwater.catalog.alerting.sending import ChannelSender
from headwater.catalog.store import outbox
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Row
from headwater.errors import EgressRefusedError, NotificationError, UnavailableError
from headwater.settings.alerts import AlertsSettings

_LOG = logging.getLogger("headwater.catalog.alerting")

# How often channels look for messages whose retry delay has passed.
_POLL_SECONDS = 2.0
# Messages per channel that are kept in memory while the database is unreachable.
_MAX_IN_MEMORY = 100
# A claim outlasts the send timeout by this time, which covers the start of the sending process and
# the recording of the outcome.
_CLAIM_SECONDS = 30.0
_DRAIN_SECONDS = 30.0
_HOUR = 3600


@dataclass(slots=True, eq=False)
class _InMemory:
    """A message that could not be written to the database."""

    channel: str
    message: Message
    since: float
    due: float
    tries: int = 0
    sending: bool = False
    # It was written to the database since, and its outcome must be recorded there.
    handed_over: bool = False


class OutboxDispatcher:
    """Sends the messages that are queued in the database, while this service is the leader.

    `is_leader` is checked before each message: a service that lost its connection must not send
    at the same time as the next leader.
    """

    def __init__(
        self,
        pool: Pool,
        channels: Mapping[str, Channel],
        settings: AlertsSettings,
        counts: dict[str, int],
        is_leader: Callable[[], bool],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._counts = counts
        self._is_leader = is_leader
        self._senders = {
            name: ChannelSender(channel, settings) for name, channel in channels.items()
        }
        self._memory: list[_InMemory] = []
        self._handing_over = asyncio.Lock()
        self._claimed: dict[str, Row] = {}
        self._recording: set[asyncio.Task[None]] = set()
        self._wakes = {name: asyncio.Event() for name in channels}
        self._tasks: list[asyncio.Task[None]] = []
        # Separate threads: those of the event loop parse large request bodies.
        self._threads: ThreadPoolExecutor | None = None

    def defined(self, name: str) -> bool:
        return name in self._senders

    def start(self) -> None:
        if not self._senders or self._tasks:
            return
        self._threads = ThreadPoolExecutor(len(self._senders), "headwater-alerts")
        self._tasks = [asyncio.create_task(self._serve(name)) for name in self._senders]

    async def stop(self) -> None:
        """Stop sending; the next leader sends a message again whose delivery was not confirmed."""
        for task in self._tasks:
            task.cancel()
        for sender in self._senders.values():
            sender.close()
        await asyncio.gather(*self._tasks, *self._recording, return_exceptions=True)
        self._tasks = []
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        await self._release_claims()

    async def drain(self) -> None:
        """Try each queued message once, and stop."""
        self.start()
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._senders and time.monotonic() < deadline:
            async with self._pool.connection() as connection:
                if not await outbox.any_untried(connection, list(self._senders)):
                    break
            await asyncio.sleep(_POLL_SECONDS / 10)
        await self.stop()

    def wake(self) -> None:
        """Look for new messages in the database."""
        for event in self._wakes.values():
            event.set()

    def send_now(self, channel: str, message: Message) -> None:
        """Send without the database; the oldest message is dropped if there are too many."""
        same = [each for each in self._memory if each.channel == channel and not each.sending]
        if len(same) >= _MAX_IN_MEMORY:
            self._memory.remove(same[0])
        now = time.monotonic()
        self._memory.append(_InMemory(channel, message, now, now))
        self._wakes[channel].set()

    @asynccontextmanager
    async def handing_over(self, incident: str) -> AsyncIterator[set[str]]:
        """The channels that have not received a message from memory; the body writes it."""
        async with self._handing_over:
            entries = [each for each in self._memory if each.message.incident == incident]
            yield {each.channel for each in entries}
            for each in entries:
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
                while (entry := self._next_in_memory(name)) is not None:
                    await self._send_from_memory(entry)
                while self._is_leader() and await self._send_next(name):
                    pass
            except UnavailableError as error:
                _LOG.warning("channel %s: %s", name, error)
            except Exception:
                _LOG.exception("channel %s: sending failed", name)
            try:
                async with asyncio.timeout(_POLL_SECONDS):
                    await wake.wait()
            except TimeoutError:
                pass

    def _next_in_memory(self, name: str) -> _InMemory | None:
        now = time.monotonic()
        due = (each for each in self._memory if each.channel == name and each.due <= now)
        return next(due, None)

    async def _send_from_memory(self, entry: _InMemory) -> None:
        entry.sending = True
        try:
            problem = await self._send(entry.channel, entry.message)
        finally:
            entry.sending = False
        async with self._handing_over:
            now = time.monotonic()
            give_up = self._settings.give_up_hours * _HOUR
            if problem is not None and not entry.handed_over and now - entry.since < give_up:
                entry.due = now + outbox.retry_delay(entry.tries)
                entry.tries += 1
                self._count("failed")
                return
            self._memory.remove(entry)
        if not entry.handed_over:
            self._count("sent" if problem is None else "given up")
            return
        key = {"incident_id": entry.message.incident, "kind": entry.message.kind.value}
        await self._record_attempt({**key, "channel": entry.channel}, problem)

    async def _send_next(self, name: str) -> bool:
        """Send the next message that is due, and return whether there was one."""
        seconds = self._settings.send_seconds + _CLAIM_SECONDS
        async with self._pool.connection() as connection:
            row = await outbox.claim(connection, name, seconds)
        if row is None:
            return False
        self._claimed[name] = row
        if not self._is_leader():
            # The lock was lost during the query: the next leader sends the message.
            await self._release_claims()
            return False
        problem = await self._send(name, from_json(row["body"]))
        await self._record_attempt(row, problem)
        self._claimed.pop(name, None)
        return True

    async def _record_attempt(self, row: Row, problem: str | None) -> None:
        """Record the outcome, also if sending is stopped: else a sent message is sent again."""
        task = asyncio.create_task(self._write_attempt(row, problem))
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)
        await asyncio.shield(task)

    async def _write_attempt(self, row: Row, problem: str | None) -> None:
        give_up = self._settings.give_up_hours * _HOUR
        async with self._pool.connection() as connection:
            self._count(await outbox.record_attempt(connection, row, problem, give_up))

    async def _release_claims(self) -> None:
        """Release claimed messages that were not sent, so that the next leader can send them."""
        rows, self._claimed = list(self._claimed.values()), {}
        try:
            for row in rows:
                async with self._pool.connection() as connection:
                    await outbox.release(connection, row)
        except UnavailableError as error:
            _LOG.warning("alerts: %s", error)

    async def _send(self, name: str, message: Message) -> str | None:
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
