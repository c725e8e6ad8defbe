"""Records incidents, and queues their messages in the same transaction."""

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
    """The subject of an alert: `text` as it is stored; the other fields if it was looked up."""

    text: str
    id: UUID | None = None
    namespace: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """An incident began or ended."""

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
    """An incident that began while the database was unreachable."""

    transition: Transition
    number: int


class Dispatcher(Protocol):
    """Sends messages to channels."""

    def defined(self, name: str) -> bool:
        """Whether there is such a channel."""
        ...

    def wake(self) -> None:
        """Look for new messages in the database."""
        ...

    def send_now(self, channel: str, message: Message) -> None:
        """Send a message that can't be written to the database; must not block."""
        ...

    def handing_over(self, incident: str) -> AbstractAsyncContextManager[set[str]]:
        """The channels that have not received a message of `send_now`; the body writes it."""
        ...


class IncidentRecorder:
    """Records transitions, and tracks which incidents are open."""

    def __init__(self, pool: Pool, dispatcher: Dispatcher) -> None:
        self._pool = pool
        self._dispatcher = dispatcher
        self.open: dict[Key, UUID] = {}
        self.downstream: dict[Key, list[str]] = {}
        # The next incident numbers of service alerts, for when the database is unreachable.
        self.numbers: dict[Key, int] = {}
        self._unwritten: list[_Unwritten] = []

    def wake(self) -> None:
        self._dispatcher.wake()

    async def record(self, transition: Transition, *, writable: bool = True) -> None:
        """Write a transition and its messages in one transaction.

        Raises:
            UnavailableError: nothing was written.
        """
        if not writable:
            self._record_in_memory(transition)
        elif transition.change is Change.FIRED:
            await self._begin(transition)
        else:
            await self._end(transition)
        self._dispatcher.wake()

    async def flush(self, *, ended: bool = False) -> None:
        """Write incidents that began while the database was unreachable, and their unsent messages.

        Args:
            ended: end them as well, for a service that is no longer the leader: the new leader
                does not know them.
        """
        while self._unwritten:
            each = self._unwritten[0]
            message = self._message(each.transition, each.number, [])
            async with (
                self._dispatcher.handing_over(message.incident) as not_sent,
                self._pool.connection() as connection,
            ):
                # If another service has recorded the same incident, it sends the messages.
                if await incidents.begin(connection, _row(each.transition, each.number, message)):
                    await self._write(connection, message, each.transition.rule, only=not_sent)
                    if ended:
                        await self._write_end(connection, each, message)
            self._unwritten.pop(0)
            self._dispatcher.wake()

    async def _write_end(self, connection: Connection, each: _Unwritten, fired: Message) -> None:
        now = datetime.now(UTC)
        await incidents.end(connection, UUID(fired.incident), now)
        ended = replace(
            fired,
            kind=Change.ENDED,
            at=to_rfc3339(now) or "",
            value="the database is reachable again",
        )
        await self._write(connection, ended, each.transition.rule)
        self.open.pop(each.transition.key, None)

    def _record_in_memory(self, transition: Transition) -> None:
        if transition.change is not Change.FIRED:
            # Only the health check can be evaluated now, and it still fails.
            return
        number = self.numbers.get(transition.key, 1)
        self.numbers[transition.key] = number + 1
        self.open[transition.key] = incident_id(*transition.key, number)
        self._unwritten.append(_Unwritten(transition, number))
        for channel in self._channels(transition.rule):
            self._dispatcher.send_now(channel, self._message(transition, number, []))

    async def _begin(self, transition: Transition) -> None:
        affected: list[str] = []
        subject = transition.subject.id
        async with self._pool.connection() as connection:
            if subject is not None and transition.rule.condition.scope is Scope.DATASET:
                affected = await downstream(connection, dataset=subject)
            elif subject is not None:
                affected = await downstream(connection, job=subject)
            number = await incidents.next_number(connection, *transition.key)
            message = self._message(transition, number, affected)
            key = incident_id(*transition.key, number)
            recorded = await incidents.begin(connection, _row(transition, number, message))
            if recorded:
                await self._write(connection, message, transition.rule)
        if not recorded:
            # Another service has recorded it first, and sends the messages.
            return
        self.open[transition.key] = key
        self.downstream[transition.key] = affected
        self.numbers[transition.key] = number + 1
        _LOG.info("alert %s fired: %s", transition.rule.name, message.title)

    async def _end(self, transition: Transition) -> None:
        key = self.open.get(transition.key)
        if key is None:
            return
        message = self._message(transition, None, self.downstream.get(transition.key, []), key)
        async with self._pool.connection() as connection:
            if await incidents.end(connection, key, transition.at):
                await self._write(connection, message, transition.rule)
        self.open.pop(transition.key, None)
        self.downstream.pop(transition.key, None)
        _LOG.info("alert %s ended: %s", transition.rule.name, message.title)

    async def end_without_rule(self, connection: Connection, incident: UUID, at: datetime) -> None:
        """End an incident whose rule was removed, and notify the channels that know it."""
        if not await incidents.end(connection, incident, at):
            return
        for row in await outbox.fired_messages(connection, incident):
            ended = replace(
                from_json(row["body"]),
                kind=Change.ENDED,
                at=to_rfc3339(at) or "",
                value="its rule was removed from the rules file",
            )
            if self._dispatcher.defined(row["channel"]):
                await outbox.enqueue(connection, incident, [row["channel"]], ended.as_json())

    def _channels(self, rule: Rule) -> list[str]:
        return [name for name in rule.channels if self._dispatcher.defined(name)]

    async def _write(
        self,
        connection: Connection,
        message: Message,
        rule: Rule,
        *,
        only: set[str] | None = None,
    ) -> None:
        """Queue a message; for channels that are not in `only` it is stored as already sent."""
        channels = self._channels(rule)
        to_send = [name for name in channels if only is None or name in only]
        incident, body = UUID(message.incident), message.as_json()
        await outbox.enqueue(connection, incident, to_send, body)
        sent = [name for name in channels if name not in to_send]
        await outbox.enqueue(connection, incident, sent, body, sent=True)

    def _message(
        self,
        transition: Transition,
        number: int | None,
        affected: list[str],
        key: UUID | None = None,
    ) -> Message:
        rule = transition.rule
        incident = key or incident_id(*transition.key, number or 1)
        return Message(
            incident=str(incident),
            kind=transition.change,
            alert=rule.name,
            severity=rule.severity,
            at=to_rfc3339(transition.at) or "",
            subject=transition.subject.text or None,
            namespace=transition.subject.namespace,
            name=transition.subject.name,
            summary=rule.summary,
            condition=rule.condition.text,
            value=transition.value,
            runbook=rule.runbook,
            downstream=tuple(affected[:MAX_DOWNSTREAM]),
            downstream_count=len(affected),
        )


def _row(transition: Transition, number: int, message: Message) -> dict[str, object]:
    return {
        "id": UUID(message.incident),
        "alert": transition.rule.name,
        "subject": transition.subject.text,
        "number": number,
        "severity": transition.rule.severity,
        "message": message.text,
        "value": transition.value or None,
        "downstream": list(message.downstream),
        "downstream_count": message.downstream_count,
        "started_at": transition.at,
    }
