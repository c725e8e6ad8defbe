"""Runs and datasets as of an earlier time.

Ends and facets with a later time are removed. Only the latest value of a facet is stored: a facet
that was sent before and after that time is unknown.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.ingest.rows import microseconds
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Row

# A stream writes continuously between its first and its last event; any other run at its end.
_WRITTEN = """
SELECT d.canonical_id AS id, max(least(v.written_at, %(at)s)) AS at
FROM datasets d JOIN dataset_versions v ON v.dataset_id = d.id JOIN runs r ON r.id = v.run_id
WHERE d.canonical_id = ANY(%(datasets)s) AND v.created_at <= %(at)s
    AND v.written_at IS NOT NULL
    AND (r.streaming
        OR (r.end_state = 'COMPLETED' AND NOT r.closed AND v.written_at <= %(at)s))
GROUP BY 1
"""


def run_as_of(row: Row, at: datetime) -> Row:
    """The run as of a time; one that ended later is running."""
    limit = microseconds(at)
    then: Row = {
        **row,
        "facets": {name: value for name, value in row["facets"].items() if value[0] <= limit},
        "last_event_at": min(row["last_event_at"] or row["seen_at"], at),
    }
    for name in ("started_at", "running_at", "ended_at"):
        then[name] = _until(row[name], at)
    if row["ended_at"] is not None and then["ended_at"] is None:
        then["end_state"] = None
    return then


def _until(time: datetime | None, at: datetime) -> datetime | None:
    return time if time is not None and time <= at else None


async def datasets_as_of(
    connection: AsyncConnection[Any], rows: dict[UUID, Row], at: datetime
) -> dict[UUID, Row]:
    """Rows of datasets, each with the last write as of a time."""
    later = [key for key, row in rows.items() if row["written_at"] and row["written_at"] > at]
    values = {"datasets": later, "at": at}
    known = {row["id"]: row["at"] for row in await fetch(connection, _WRITTEN, values)}
    then = {key: {"written_at": known.get(key)} for key in later}
    return {key: {**row, **then.get(key, {})} for key, row in rows.items()}
