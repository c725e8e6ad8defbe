"""Writes incidents and puts their messages on their way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from headwater.alerts.messages import MOST_DOWNSTREAM, Message
from headwater.alerts.names import Scope
from headwater.alerts.rules import Rule
from headwater.alerts.state import Change
from headwater.catalog.identity import incident_id
from headwater.catalog.store import incidents, outbox
from headwater.catalog.store.downstream import downstream
from headwater.catalog.store.pool import Connection, Pool
from headwater.catalog.store.values import instant

_LOG = logging.getLogger("headwater.alerts")
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Happening:
    """That an incident began or ended."""

    rule: Rule
    subject: str
    # The id of the job or dataset; None for the service.
    thing: UUID | None
    change: Change
    value: str
    at: datetime

    @property
    def key(self) -> Key:
        return self.rule.name, self.subject


@dataclass(slots=True)
class _Unwritten:
    """An incident that began while the database was gone."""

    happening: Happening
    number: int


class Teller:
    """Knows which incidents are open. `send_now` is for when nothing can be written: it takes a
    channel's name and a message, and must not wait."""

    def __init__(
        self,
        pool: Pool,
        defined: Callable[[str], bool],
        send_now: Callable[[str, Message], None],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._pool = pool
        self._wake = wake
        self.open: dict[Key, UUID] = {}
        self.downstream: dict[Key, list[str]] = {}
        # Of the service itself: it must have a number when the database can't be asked for one.
        self.numbers: dict[Key, int] = {}
        self._defined = defined
        self._send_now = send_now
        self._unwritten: list[_Unwritten] = []

    async def tell(self, happening: Happening, *, writable: bool = True) -> None:
        """Write it, with its messages, in a transaction of its own.

        Raises:
            UnavailableError: nothing was written.
        """
        if not writable:
            self._tell_unwritten(happening)
        elif happening.change is Change.FIRED:
            await self._begin(happening)
        else:
            await self._end(happening)
        self._wake()

    async def write_unwritten(self) -> None:
        """What happened while the database was gone; its messages are sent already."""
        while self._unwritten:
            each = self._unwritten[0]
            message = self._message(each.happening, each.number, [])
            async with self._pool.connection() as connection:
                await incidents.begin(connection, _row(each.happening, each.number, message))
            self._unwritten.pop(0)

    def _tell_unwritten(self, happening: Happening) -> None:
        if happening.change is not Change.FIRED:
            # Only health can be evaluated now, and it can't be good.
            return
        number = self.numbers.get(happening.key, 1)
        self.numbers[happening.key] = number + 1
        self.open[happening.key] = incident_id(*happening.key, number)
        self._unwritten.append(_Unwritten(happening, number))
        for channel in happening.rule.channels:
            if self._defined(channel):
                self._send_now(channel, self._message(happening, number, []))

    async def _begin(self, happening: Happening) -> None:
        behind: list[str] = []
        async with self._pool.connection() as connection:
            if happening.thing is not None and happening.rule.condition.scope is Scope.DATASET:
                behind = await downstream(connection, dataset=happening.thing)
            elif happening.thing is not None:
                behind = await downstream(connection, job=happening.thing)
            number = await incidents.next_number(connection, *happening.key)
            message = self._message(happening, number, behind)
            key = incident_id(*happening.key, number)
            begun = await incidents.begin(connection, _row(happening, number, message))
            if begun:
                await self._write(connection, key, message, happening.rule)
        if not begun:
            # Another service was faster; its message is on the way.
            return
        self.open[happening.key] = key
        self.downstream[happening.key] = behind
        self.numbers[happening.key] = number + 1
        _LOG.info("alert %s fired: %s", happening.rule.name, message.title)

    async def _end(self, happening: Happening) -> None:
        key = self.open.get(happening.key)
        if key is None:
            return
        message = self._message(happening, None, self.downstream.get(happening.key, []), key)
        async with self._pool.connection() as connection:
            if await incidents.end(connection, key, happening.at):
                await self._write(connection, key, message, happening.rule)
        self.open.pop(happening.key, None)
        self.downstream.pop(happening.key, None)
        _LOG.info("alert %s ended: %s", happening.rule.name, message.title)

    async def _write(
        self, connection: Connection, incident: UUID, message: Message, rule: Rule
    ) -> None:
        channels = [name for name in rule.channels if self._defined(name)]
        await outbox.write(connection, incident, message.kind.value, channels, message.as_json())

    def _message(
        self,
        happening: Happening,
        number: int | None,
        behind: list[str],
        key: UUID | None = None,
    ) -> Message:
        rule = happening.rule
        incident = key or incident_id(*happening.key, number or 1)
        return Message(
            incident=str(incident),
            kind=happening.change,
            alert=rule.name,
            severity=rule.severity,
            at=instant(happening.at) or "",
            subject=happening.subject or None,
            summary=rule.summary,
            condition=rule.condition.text,
            value=happening.value,
            runbook=rule.runbook,
            downstream=tuple(behind[:MOST_DOWNSTREAM]),
            downstream_count=len(behind),
        )


def _row(happening: Happening, number: int, message: Message) -> dict[str, object]:
    return {
        "id": UUID(message.incident),
        "alert": happening.rule.name,
        "subject": happening.subject,
        "number": number,
        "severity": happening.rule.severity,
        "message": message.text,
        "value": happening.value or None,
        "downstream": list(message.downstream),
        "downstream_count": message.downstream_count,
        "started_at": happening.at,
    }
