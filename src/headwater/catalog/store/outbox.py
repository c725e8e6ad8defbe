"""The outbox of alert messages: written with their incident, sent by the leader.

Delivery is at least once: a message is sent again if the service dies before it records the
attempt. Receivers recognise duplicates by incident and kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row

# The delay doubles from 5 s up to 10 minutes. `tries` is the number of earlier attempts.
_DELAY = "least(600, 5 * power(2, least(tries, 10)))"

# `ended` is only sent after `fired` was sent to the same channel.
_UNSENT = """
FROM alert_messages m
WHERE m.channel = ANY(%(channels)s) AND m.sent_at IS NULL AND m.given_up_at IS NULL
    AND NOT EXISTS (SELECT FROM alert_messages f WHERE f.incident_id = m.incident_id
        AND f.channel = m.channel AND f.kind = 'fired' AND m.kind = 'ended'
        AND f.sent_at IS NULL)
"""

# One statement: if two services are leaders for a moment, only one of them gets a message.
_CLAIM = f"""
UPDATE alert_messages c SET due_at = now() + make_interval(secs => %(seconds)s)
FROM (
    SELECT m.incident_id, m.kind, m.channel {_UNSENT} AND m.due_at <= now()
    ORDER BY m.written_at, m.kind DESC, m.incident_id LIMIT 1 FOR UPDATE OF m SKIP LOCKED
) next
WHERE c.incident_id = next.incident_id AND c.kind = next.kind AND c.channel = next.channel
RETURNING c.incident_id, c.kind, c.channel, c.body
"""

_RECORD_ATTEMPT = (
    """
UPDATE alert_messages SET tries = tries + 1, problem = %(problem)s,
    sent_at = CASE WHEN %(problem)s::text IS NULL THEN now() END,
    given_up_at = CASE WHEN %(problem)s::text IS NOT NULL
        AND written_at < now() - make_interval(secs => %(give_up)s) THEN now() END,
    due_at = now() + make_interval(secs => """
    + _DELAY
    + """)
WHERE incident_id = %(incident_id)s AND kind = %(kind)s AND channel = %(channel)s
RETURNING sent_at IS NOT NULL AS sent, given_up_at IS NOT NULL AS given_up
"""
)


async def enqueue(
    connection: AsyncConnection[Any],
    incident: UUID,
    channels: Iterable[str],
    body: Json,
    *,
    sent: bool = False,
) -> None:
    """Queue a message for each channel; `sent` records one that was sent without the database."""
    for channel in channels:
        await connection.execute(
            "INSERT INTO alert_messages (incident_id, kind, channel, body, sent_at) "
            "VALUES (%s, %s, %s, %s, CASE WHEN %s THEN now() END) ON CONFLICT DO NOTHING",
            (incident, body["kind"], channel, Jsonb(body), sent),
        )


def retry_delay(tries: int) -> float:
    """Seconds between a failed attempt and the next; the same as in `record_attempt`."""
    return float(min(600, 5 * 2 ** min(tries, 10)))


async def claim(connection: AsyncConnection[Any], channel: str, seconds: float) -> Row | None:
    """The next due message of a channel, reserved for this service for `seconds`."""
    rows = await fetch(connection, _CLAIM, {"channels": [channel], "seconds": seconds})
    return rows[0] if rows else None


async def release(connection: AsyncConnection[Any], message: Row) -> None:
    """End the reservation of a claimed message."""
    await connection.execute(
        "UPDATE alert_messages SET due_at = now() WHERE incident_id = %(incident_id)s "
        "AND kind = %(kind)s AND channel = %(channel)s AND sent_at IS NULL",
        {**message, "body": None},
    )


async def any_untried(connection: AsyncConnection[Any], channels: Sequence[str]) -> bool:
    """Whether the first attempt of a message to one of the channels is not finished."""
    statement = f"SELECT 1 {_UNSENT} AND m.tries = 0 LIMIT 1"
    return bool(await fetch(connection, statement, {"channels": list(channels)}))


async def fired_messages(connection: AsyncConnection[Any], incident: UUID) -> list[Row]:
    """Channels and bodies of the `fired` messages of an incident that were not given up."""
    return await fetch(
        connection,
        "SELECT channel, body FROM alert_messages "
        "WHERE incident_id = %s AND kind = 'fired' AND given_up_at IS NULL",
        (incident,),
    )


async def record_attempt(
    connection: AsyncConnection[Any], message: Row, problem: str | None, give_up_seconds: float
) -> str:
    """Record the outcome of an attempt; returns `sent`, `failed` or `given up`."""
    rows = await fetch(
        connection,
        _RECORD_ATTEMPT,
        {**message, "body": None, "problem": problem, "give_up": give_up_seconds},
    )
    if rows and rows[0]["given_up"]:
        return "given up"
    return "sent" if rows and rows[0]["sent"] else "failed"


async def delete_expired(connection: AsyncConnection[Any], days: float) -> None:
    """Delete old messages, also unsent ones of removed channels, and old incidents."""
    await connection.execute(
        "DELETE FROM alert_messages WHERE coalesce(sent_at, given_up_at, written_at) "
        "< now() - make_interval(secs => %s)",
        (days * 86_400,),
    )
    # The latest of each alert and subject stays: the next number follows from it.
    await connection.execute(
        "DELETE FROM alert_incidents i WHERE i.ended_at < now() - make_interval(secs => %s) "
        "AND EXISTS (SELECT FROM alert_incidents later WHERE later.alert = i.alert "
        "AND md5(later.subject) = md5(i.subject) AND later.number > i.number)",
        (days * 86_400,),
    )
