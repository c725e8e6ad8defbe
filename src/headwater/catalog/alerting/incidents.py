"""Writes incidents and puts their messages on their way."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from headwater.catalog.alerting.fields import Scope
from headwater.catalog.alerting.messages import MAX_DOWNSTREAM, Message, from_json
from headwater.catalog.alerting.rules import Rule
from headwater.catalog.alerting.state import Change
from headwater.catalog.identity import incident_id
from headwater.catalog.store import incidents, outbox
from headwater.catalog.store.downstream import downstream
from headwater.catalog.store.pool import Connection, Pool
from headwater.catalog.store.values import to_rfc3339

_LOG = logging.getLogger("headwater.catalog.alerting")
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Subject:
    """What an alert is about: `text` as it is written down, the rest where it was looked up."""

    text: str
    id: UUID | None = None
    namespace: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """That an incident began or ended."""

    rule: Rule
    subject: Subject
    change: Change
    value: str
    at: datetime

    @property
    def key(self) -> Key:
        return self.rule.name, self.subject.text


@dataclass(slots=True)
class _Unwritten:
    """An incident that began while the database was gone."""

    happening: Transition
    number: int


class Post(Protocol):
    """Who brings messages to channels."""

    def defined(self, name: str) -> bool:
        """Whether there is such a channel."""
        ...

    def wake(self) -> None:
        """Something was written."""
        ...

    def send_now(self, channel: str, message: Message) -> None:
        """Send what can't be written; must not wait."""
        ...

    def handing_over(self, incident: str) -> AbstractAsyncContextManager[set[str]]:
        """The channels that have yet to get a message of `send_now`; the body writes it."""
        ...


class IncidentRecorder:
    """Knows which incidents are open."""

    def __init__(self, pool: Pool, post: Post) -> None:
        self._pool = pool
        self._post = post
        self.open: dict[Key, UUID] = {}
        self.downstream: dict[Key, list[str]] = {}
        # Of the service itself: it must have a number when the database can't be asked for one.
        self.numbers: dict[Key, int] = {}
        self._unwritten: list[_Unwritten] = []

    def wake(self) -> None:
        self._post.wake()

    async def tell(self, happening: Transition, *, writable: bool = True) -> None:
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
        self._post.wake()

    async def write_unwritten(self, *, over: bool = False) -> None:
        """Write what happened while the database was gone, and messages that nobody has got yet.

        Args:
            over: write as well that it has ended, for a service that evaluates no more: nobody
                else knows of it.
        """
        while self._unwritten:
            each = self._unwritten[0]
            message = self._message(each.happening, each.number, [])
            async with (
                self._post.handing_over(message.incident) as not_sent,
                self._pool.connection() as connection,
            ):
                # Where another service has told the same, its messages are its own business.
                if await incidents.begin(connection, _row(each.happening, each.number, message)):
                    await self._write(connection, message, each.happening.rule, only=not_sent)
                    if over:
                        await self._write_over(connection, each, message)
            self._unwritten.pop(0)
            self._post.wake()

    async def _write_over(self, connection: Connection, each: _Unwritten, begun: Message) -> None:
        now = datetime.now(UTC)
        await incidents.end(connection, UUID(begun.incident), now)
        ended = replace(
            begun, kind=Change.ENDED, at=to_rfc3339(now) or "", value="the database answers again"
        )
        await self._write(connection, ended, each.happening.rule)
        self.open.pop(each.happening.key, None)

    def _tell_unwritten(self, happening: Transition) -> None:
        if happening.change is not Change.FIRED:
            # Only health can be evaluated now, and it can't be good.
            return
        number = self.numbers.get(happening.key, 1)
        self.numbers[happening.key] = number + 1
        self.open[happening.key] = incident_id(*happening.key, number)
        self._unwritten.append(_Unwritten(happening, number))
        for channel in self._channels(happening.rule):
            self._post.send_now(channel, self._message(happening, number, []))

    async def _begin(self, happening: Transition) -> None:
        behind: list[str] = []
        thing = happening.subject.id
        async with self._pool.connection() as connection:
            if thing is not None and happening.rule.condition.scope is Scope.DATASET:
                behind = await downstream(connection, dataset=thing)
            elif thing is not None:
                behind = await downstream(connection, job=thing)
            number = await incidents.next_number(connection, *happening.key)
            message = self._message(happening, number, behind)
            key = incident_id(*happening.key, number)
            begun = await incidents.begin(connection, _row(happening, number, message))
            if begun:
                await self._write(connection, message, happening.rule)
        if not begun:
            # Another service was faster; its message is on the way.
            return
        self.open[happening.key] = key
        self.downstream[happening.key] = behind
        self.numbers[happening.key] = number + 1
        _LOG.info("alert %s fired: %s", happening.rule.name, message.title)

    async def _end(self, happening: Transition) -> None:
        key = self.open.get(happening.key)
        if key is None:
            return
        message = self._message(happening, None, self.downstream.get(happening.key, []), key)
        async with self._pool.connection() as connection:
            if await incidents.end(connection, key, happening.at):
                await self._write(connection, message, happening.rule)
        self.open.pop(happening.key, None)
        self.downstream.pop(happening.key, None)
        _LOG.info("alert %s ended: %s", happening.rule.name, message.title)

    async def end_without_rule(self, connection: Connection, incident: UUID, at: datetime) -> None:
        """End an incident whose rule is no more, and tell those who were told of its beginning."""
        if not await incidents.end(connection, incident, at):
            return
        for row in await outbox.fired(connection, incident):
            ended = replace(
                from_json(row["body"]),
                kind=Change.ENDED,
                at=to_rfc3339(at) or "",
                value="its rule was taken out of the rules file",
            )
            if self._post.defined(row["channel"]):
                await outbox.write(connection, incident, [row["channel"]], ended.as_json())

    def _channels(self, rule: Rule) -> list[str]:
        return [name for name in rule.channels if self._post.defined(name)]

    async def _write(
        self,
        connection: Connection,
        message: Message,
        rule: Rule,
        *,
        only: set[str] | None = None,
    ) -> None:
        """Of channels that are not among `only` it is noted that they have it already."""
        channels = self._channels(rule)
        to_send = [name for name in channels if only is None or name in only]
        incident, body = UUID(message.incident), message.as_json()
        await outbox.write(connection, incident, to_send, body)
        sent = [name for name in channels if name not in to_send]
        await outbox.write(connection, incident, sent, body, sent=True)

    def _message(
        self,
        happening: Transition,
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
            at=to_rfc3339(happening.at) or "",
            subject=happening.subject.text or None,
            namespace=happening.subject.namespace,
            name=happening.subject.name,
            summary=rule.summary,
            condition=rule.condition.text,
            value=happening.value,
            runbook=rule.runbook,
            downstream=tuple(behind[:MAX_DOWNSTREAM]),
            downstream_count=len(behind),
        )


def _row(happening: Transition, number: int, message: Message) -> dict[str, object]:
    return {
        "id": UUID(message.incident),
        "alert": happening.rule.name,
        "subject": happening.subject.text,
        "number": number,
        "severity": happening.rule.severity,
        "message": message.text,
        "value": happening.value or None,
        "downstream": list(message.downstream),
        "downstream_count": message.downstream_count,
        "started_at": happening.at,
    }
