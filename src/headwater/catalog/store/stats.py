"""Counts over time: events of the last hours or days, and how many things there were."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from headwater.catalog.store.values import Json, instant

# The last 24 hours, or the last 7 days as days are counted in the asker's zone.
_INTERVALS = {
    "DAY": """SELECT h AS lower, h + interval '1 hour' AS upper FROM generate_series(
        date_trunc('hour', now()) - interval '23 hours', date_trunc('hour', now()),
        interval '1 hour') AS h""",
    "WEEK": """SELECT d AT TIME ZONE %(zone)s AS lower,
        (d + interval '1 day') AT TIME ZONE %(zone)s AS upper FROM generate_series(
        date_trunc('day', now() AT TIME ZONE %(zone)s) - interval '6 days',
        date_trunc('day', now() AT TIME ZONE %(zone)s), interval '1 day') AS d""",
}
_TABLES = {"jobs": "jobs", "datasets": "datasets", "sources": "sources"}
_TYPES = {"fail": "FAIL", "start": "START", "complete": "COMPLETE", "abort": "ABORT"}


async def things(connection: AsyncConnection[Any], kind: str, period: str, zone: str) -> list[Json]:
    """How many jobs, datasets or sources were known at the end of each interval."""
    only = " AND t.canonical_id = t.id" if kind == "datasets" else ""
    statement = f"""
SELECT i.lower, i.upper,
    (SELECT count(*) FROM {_TABLES[kind]} t WHERE t.created_at < i.upper{only}) AS count
FROM ({_INTERVALS[period]}) AS i ORDER BY i.lower
"""
    rows = await _rows(connection, statement, zone)
    return [{**_interval(row), "count": row["count"]} for row in rows]


async def lineage_events(connection: AsyncConnection[Any], period: str, zone: str) -> list[Json]:
    """Events of each interval by their type and time."""
    counts = ", ".join(
        f"count(*) FILTER (WHERE e.event_type = '{word}') AS {name}"
        for name, word in _TYPES.items()
    )
    statement = f"""
SELECT i.lower, i.upper, {counts} FROM ({_INTERVALS[period]}) AS i
LEFT JOIN events e ON e.event_time >= i.lower AND e.event_time < i.upper
GROUP BY i.lower, i.upper ORDER BY i.lower
"""
    rows = await _rows(connection, statement, zone)
    return [{**_interval(row), **{name: row[name] for name in _TYPES}} for row in rows]


async def _rows(connection: AsyncConnection[Any], statement: str, zone: str) -> list[Any]:
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(statement, {"zone": zone})
    return await cursor.fetchall()


def _interval(row: Json) -> Json:
    return {"startInterval": instant(row["lower"]), "endInterval": instant(row["upper"])}
