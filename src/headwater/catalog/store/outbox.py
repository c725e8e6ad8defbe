"""Messages on their way: written with their incident, sent by the service that evaluates.

A message that was sent, and whose service died before it could say so, is sent again; receivers
tell copies by incident and kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row

# The pause doubles from 5 s up to 10 minutes. Tries are those before the one that failed.
_PAUSE = "least(600, 5 * power(2, least(tries, 10)))"

# The end of an incident waits for its beginning; one whose beginning nobody got is not told either.
_UNSENT = """
FROM alert_messages m
WHERE m.channel = ANY(%(channels)s) AND m.sent_at IS NULL AND m.given_up_at IS NULL
    AND NOT EXISTS (SELECT FROM alert_messages f WHERE f.incident_id = m.incident_id
        AND f.channel = m.channel AND f.kind = 'fired' AND m.kind = 'ended'
        AND f.sent_at IS NULL)
"""

# In one statement: of two services that ask at once, which may be for a moment, one gets it.
_CLAIM = f"""
UPDATE alert_messages c SET due_at = now() + make_interval(secs => %(seconds)s)
FROM (
    SELECT m.incident_id, m.kind, m.channel {_UNSENT} AND m.due_at <= now()
    ORDER BY m.written_at, m.kind DESC, m.incident_id LIMIT 1 FOR UPDATE OF m SKIP LOCKED
) next
WHERE c.incident_id = next.incident_id AND c.kind = next.kind AND c.channel = next.channel
RETURNING c.incident_id, c.kind, c.channel, c.body
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
    channels: Iterable[str],
    body: Json,
    *,
    sent: bool = False,
) -> None:
    """Put a message on its way to each channel, or note that it was sent without a database."""
    for channel in channels:
        await connection.execute(
            "INSERT INTO alert_messages (incident_id, kind, channel, body, sent_at) "
            "VALUES (%s, %s, %s, %s, CASE WHEN %s THEN now() END) ON CONFLICT DO NOTHING",
            (incident, body["kind"], channel, Jsonb(body), sent),
        )


def pause(tries: int) -> float:
    """How long a message waits after a try that failed, in seconds; as `told` notes it."""
    return float(min(600, 5 * 2 ** min(tries, 10)))


async def claim(connection: AsyncConnection[Any], channel: str, seconds: float) -> Row | None:
    """The message to this channel that is to be sent now; for so long nobody else gets it."""
    rows = await fetch(connection, _CLAIM, {"channels": [channel], "seconds": seconds})
    return rows[0] if rows else None


async def give_back(connection: AsyncConnection[Any], message: Row) -> None:
    """Let somebody else send what was claimed."""
    await connection.execute(
        "UPDATE alert_messages SET due_at = now() WHERE incident_id = %(incident_id)s "
        "AND kind = %(kind)s AND channel = %(channel)s AND sent_at IS NULL",
        {**message, "body": None},
    )


async def any_untried(connection: AsyncConnection[Any], channels: Sequence[str]) -> bool:
    """Whether a message to one of these waits for its first try, or is in it."""
    statement = f"SELECT 1 {_UNSENT} AND m.tries = 0 LIMIT 1"
    return bool(await fetch(connection, statement, {"channels": list(channels)}))


async def fired(connection: AsyncConnection[Any], incident: UUID) -> list[Row]:
    """Who was told, or is to be told, that an incident began; and what."""
    return await fetch(
        connection,
        "SELECT channel, body FROM alert_messages "
        "WHERE incident_id = %s AND kind = 'fired' AND given_up_at IS NULL",
        (incident,),
    )


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
