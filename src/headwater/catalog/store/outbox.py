"""Messages on their way: written with their incident, sent by the service that evaluates.

A message that was sent, and whose service died before it could say so, is sent again; receivers
tell copies by incident and kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row

# The pause doubles from 5 s up to 10 minutes.
_PAUSE = "least(600, 5 * power(2, least(tries, 10)))"

# The end of an incident waits for its beginning; one whose beginning nobody got is not told either.
_DUE = """
SELECT m.incident_id, m.kind, m.channel, m.body, m.tries FROM alert_messages m
WHERE m.channel = %(channel)s AND m.sent_at IS NULL AND m.given_up_at IS NULL
    AND m.due_at <= now()
    AND NOT EXISTS (SELECT FROM alert_messages f WHERE f.incident_id = m.incident_id
        AND f.channel = m.channel AND f.kind = 'fired' AND m.kind = 'ended'
        AND f.sent_at IS NULL)
ORDER BY m.written_at, m.kind DESC, m.incident_id LIMIT 1
"""

_TELL = (
    """
UPDATE alert_messages SET tries = tries + 1, problem = %(problem)s,
    sent_at = CASE WHEN %(problem)s::text IS NULL THEN now() END,
    given_up_at = CASE WHEN %(problem)s::text IS NOT NULL
        AND written_at < now() - make_interval(secs => %(give_up)s) THEN now() END,
    due_at = now() + make_interval(secs => """
    + _PAUSE
    + """)
WHERE incident_id = %(incident_id)s AND kind = %(kind)s AND channel = %(channel)s
RETURNING sent_at IS NOT NULL AS sent, given_up_at IS NOT NULL AS given_up
"""
)


async def write(
    connection: AsyncConnection[Any],
    incident: UUID,
    kind: str,
    channels: Iterable[str],
    body: Json,
) -> None:
    """Put a message on its way to each channel."""
    for channel in channels:
        await connection.execute(
            "INSERT INTO alert_messages (incident_id, kind, channel, body) "
            "VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (incident, kind, channel, Jsonb(body)),
        )


async def next_due(connection: AsyncConnection[Any], channel: str) -> Row | None:
    """The message to this channel that is to be sent now."""
    rows = await fetch(connection, _DUE, {"channel": channel})
    return rows[0] if rows else None


async def told(
    connection: AsyncConnection[Any], message: Row, problem: str | None, give_up_seconds: float
) -> str:
    """Note what became of a try: `sent`, `failed` or `given up`."""
    rows = await fetch(
        connection,
        _TELL,
        {**message, "body": None, "problem": problem, "give_up": give_up_seconds},
    )
    if rows and rows[0]["given_up"]:
        return "given up"
    return "sent" if rows and rows[0]["sent"] else "failed"


async def forget(connection: AsyncConnection[Any], days: float) -> None:
    """Remove what was sent long ago, or waits for a channel that is no more, and old incidents."""
    await connection.execute(
        "DELETE FROM alert_messages WHERE coalesce(sent_at, given_up_at, written_at) "
        "< now() - make_interval(secs => %s)",
        (days * 86_400,),
    )
    # The latest of each stays: the next one counts on from it.
    await connection.execute(
        "DELETE FROM alert_incidents i WHERE i.ended_at < now() - make_interval(secs => %s) "
        "AND EXISTS (SELECT FROM alert_incidents later WHERE later.alert = i.alert "
        "AND md5(later.subject) = md5(i.subject) AND later.number > i.number)",
        (days * 86_400,),
    )
