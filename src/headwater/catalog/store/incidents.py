"""States and incidents of alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row, to_rfc3339

# An alert is listed by its subjects, or by itself if it has none.
_LISTED = """
FROM alert_states s JOIN alert_states r ON r.alert = s.alert AND r.subject = ''
WHERE s.subject <> '' OR NOT EXISTS (
    SELECT FROM alert_states o WHERE o.alert = s.alert AND o.subject <> '')
"""

# The most severe first: a long list is cut.
_ORDER = ("firing", "pending", "error", "no data", "ok")
_STATES = f"""
SELECT s.alert, s.subject, s.state, s.since, s.value, s.body, r.body AS rule {_LISTED}
ORDER BY array_position(ARRAY{list(_ORDER)}, s.state), s.alert, s.subject LIMIT %s
"""

_INCIDENTS = """
SELECT id, alert, subject, severity, message, value, downstream, downstream_count, started_at,
    ended_at
FROM alert_incidents ORDER BY started_at DESC, id LIMIT %s
"""


async def alerts_json(connection: AsyncConnection[Any], limit: int) -> Json:
    """Each alert, or instead each of its subjects that is not ok."""
    rows = await fetch(connection, _STATES, (limit,))
    counted = await fetch(connection, f"SELECT s.state, count(*) AS n {_LISTED} GROUP BY 1")
    counts = {row["state"]: row["n"] for row in counted}
    return {
        "alerts": [_alert(row, row["rule"]) for row in rows],
        "totalCount": sum(counts.values()),
        "states": dict.fromkeys(_ORDER, 0) | counts,
    }


def _alert(row: Row, rule: Json) -> Json:
    return {
        "name": row["alert"],
        "state": row["state"],
        "severity": rule.get("severity"),
        "summary": rule.get("summary"),
        "condition": rule.get("condition"),
        "runbook": rule.get("runbook"),
        "channels": rule.get("channels", []),
        "since": to_rfc3339(row["since"]),
        "value": row["value"],
        "subject": row["subject"] or None,
        "downstream": row["body"].get("downstream", []),
        "downstreamCount": row["body"].get("downstreamCount", 0),
        "problem": row["body"].get("problem"),
        "withoutData": rule.get("withoutData", 0),
        "heldBack": rule.get("heldBack", 0),
    }


async def incidents_json(connection: AsyncConnection[Any], limit: int) -> list[Json]:
    """The latest incidents, newest first."""
    return [
        {
            "id": str(row["id"]),
            "alert": row["alert"],
            "subject": row["subject"] or None,
            "state": "open" if row["ended_at"] is None else "ended",
            "startedAt": to_rfc3339(row["started_at"]),
            "endedAt": to_rfc3339(row["ended_at"]),
            "severity": row["severity"],
            "message": row["message"],
            "value": row["value"],
            "downstream": row["downstream"],
            "downstreamCount": row["downstream_count"],
        }
        for row in await fetch(connection, _INCIDENTS, (limit,))
    ]


async def counts_by_state(connection: AsyncConnection[Any]) -> dict[str, int]:
    """Number of alerts of the rules file by state; an alert counts once."""
    rows = await fetch(
        connection, "SELECT state, count(*) AS n FROM alert_states WHERE subject = '' GROUP BY 1"
    )
    return {row["state"]: row["n"] for row in rows}


async def count_open(connection: AsyncConnection[Any]) -> int:
    (row,) = await fetch(
        connection, "SELECT count(*) AS n FROM alert_incidents WHERE ended_at IS NULL"
    )
    return int(row["n"])


async def open_incidents(connection: AsyncConnection[Any]) -> list[Row]:
    """Incidents that have not ended."""
    return await fetch(
        connection,
        "SELECT id, alert, subject, started_at, downstream FROM alert_incidents "
        "WHERE ended_at IS NULL",
    )


async def next_number(connection: AsyncConnection[Any], alert: str, subject: str) -> int:
    """The number of the next incident of this alert and subject."""
    (row,) = await fetch(
        connection,
        "SELECT coalesce(max(number), 0) + 1 AS n FROM alert_incidents "
        "WHERE alert = %s AND md5(subject) = md5(%s) AND subject = %s",
        (alert, subject, subject),
    )
    return int(row["n"])


async def begin(connection: AsyncConnection[Any], incident: Row) -> bool:
    """Insert an incident; False if one of the same alert and subject is open."""
    result = await connection.execute(
        "INSERT INTO alert_incidents (id, alert, subject, number, severity, message, value, "
        "downstream, downstream_count, started_at) VALUES (%(id)s, %(alert)s, %(subject)s, "
        "%(number)s, %(severity)s, %(message)s, %(value)s, %(downstream)s, %(downstream_count)s, "
        "%(started_at)s) ON CONFLICT DO NOTHING",
        {**incident, "downstream": Jsonb(incident["downstream"])},
    )
    return bool(result.rowcount)


async def end(connection: AsyncConnection[Any], incident: UUID, at: datetime) -> bool:
    result = await connection.execute(
        "UPDATE alert_incidents SET ended_at = greatest(%s, started_at) "
        "WHERE id = %s AND ended_at IS NULL",
        (at, incident),
    )
    return bool(result.rowcount)


async def states(connection: AsyncConnection[Any]) -> list[Row]:
    """All stored states, for a service that takes over the evaluation."""
    return await fetch(
        connection,
        "SELECT alert, subject, state, since, body->>'condition' AS condition FROM alert_states",
    )


async def write_states(
    connection: AsyncConnection[Any], rows: Sequence[Row], resolved: Sequence[tuple[str, str]]
) -> None:
    """Write the states of alerts and subjects, and delete those that are ok again."""
    async with connection.pipeline():
        for row in rows:
            await connection.execute(
                "INSERT INTO alert_states (alert, subject, state, since, value, body) VALUES "
                "(%(alert)s, %(subject)s, %(state)s, %(since)s, %(value)s, %(body)s) "
                "ON CONFLICT (alert, md5(subject)) DO UPDATE SET state = excluded.state, "
                "since = excluded.since, value = excluded.value, body = excluded.body",
                {**row, "body": Jsonb(row["body"])},
            )
        for alert, subject in resolved:
            await connection.execute(
                "DELETE FROM alert_states WHERE alert = %s AND md5(subject) = md5(%s)",
                (alert, subject),
            )
