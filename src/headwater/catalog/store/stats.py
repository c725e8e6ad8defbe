"""Statistics over time: events, jobs, datasets and sources per hour or day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from psycopg import AsyncConnection

from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, to_rfc3339

# Start (inclusive) and end (exclusive).
Interval = tuple[datetime, datetime]


class Period(StrEnum):
    """The time that statistics cover."""

    DAY = "DAY"
    WEEK = "WEEK"


_HOURS = 24
_DAYS = 7
_TABLES = {"jobs": "jobs", "datasets": "datasets", "sources": "sources"}
_TYPES = {"fail": "FAIL", "start": "START", "complete": "COMPLETE", "abort": "ABORT"}
_SPANS = (
    "unnest(%(lower)s::timestamptz[], %(upper)s::timestamptz[]) AS i(lower, upper)"  # oldest first
)


def intervals(period: Period, now: datetime) -> list[Interval]:
    """The last 24 hours, or the last 7 days in the time zone of `now`.

    Not computed by the database: it may not know a time zone that was validated in Python.
    """
    if period is Period.DAY:
        hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        starts = [hour - timedelta(hours=ago) for ago in range(_HOURS - 1, -2, -1)]
    else:
        # Arithmetic within a time zone uses local time: days of 23 or 25 hours start at midnight.
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        starts = [day - timedelta(days=ago) for ago in range(_DAYS - 1, -2, -1)]
    return list(pairwise(starts))


async def counts(
    connection: AsyncConnection[Any], kind: str, spans: Sequence[Interval]
) -> list[Json]:
    """The number of jobs, datasets or sources at the end of each interval."""
    only = " AND t.canonical_id = t.id AND NOT t.reference" if kind == "datasets" else ""
    statement = f"""
SELECT i.lower, i.upper,
    (SELECT count(*) FROM {_TABLES[kind]} t WHERE t.created_at < i.upper{only}) AS count
FROM {_SPANS} ORDER BY i.lower
"""
    rows = await _rows(connection, statement, spans)
    return [{**_interval(row), "count": row["count"]} for row in rows]


async def lineage_events(connection: AsyncConnection[Any], spans: Sequence[Interval]) -> list[Json]:
    """The number of events of each type per interval."""
    columns = ", ".join(
        f"count(*) FILTER (WHERE e.event_type = '{value}') AS {name}"
        for name, value in _TYPES.items()
    )
    shown = ", ".join(f"coalesce(c.{name}, 0) AS {name}" for name in _TYPES)
    # One index scan: a join would scan all events for each interval.
    statement = f"""
SELECT i.lower, i.upper, {shown}
FROM {_SPANS} LEFT JOIN (
    SELECT width_bucket(e.event_time, %(lower)s::timestamptz[]) AS n, {columns} FROM events e
    WHERE e.event_time >= %(first)s AND e.event_time < %(last)s GROUP BY 1
) c ON c.n = width_bucket(i.lower, %(lower)s::timestamptz[])
ORDER BY i.lower
"""
    rows = await _rows(connection, statement, spans)
    return [{**_interval(row), **{name: row[name] for name in _TYPES}} for row in rows]


async def _rows(
    connection: AsyncConnection[Any], statement: str, spans: Sequence[Interval]
) -> list[Any]:
    values = {
        "lower": [lower for lower, _ in spans],
        "upper": [upper for _, upper in spans],
        "first": spans[0][0],
        "last": spans[-1][1],
    }
    return await fetch(connection, statement, values)


def _interval(row: Json) -> Json:
    return {"startInterval": to_rfc3339(row["lower"]), "endInterval": to_rfc3339(row["upper"])}


_TOTALS = """
SELECT (SELECT count(*) FROM namespaces WHERE NOT hidden) AS namespaces,
    (SELECT count(*) FROM jobs WHERE NOT hidden) AS jobs,
    (SELECT count(*) FROM datasets WHERE NOT hidden AND canonical_id = id AND NOT reference)
        AS datasets,
    (SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM events) AS events
"""


async def totals(connection: AsyncConnection[Any]) -> dict[str, int]:
    """Numbers of namespaces, jobs, datasets, runs and events."""
    (row,) = await fetch(connection, _TOTALS, ())
    return {name: int(count) for name, count in row.items()}
