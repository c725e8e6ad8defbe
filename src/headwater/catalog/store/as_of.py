"""Runs and datasets as they stood at an earlier time, as far as what is kept tells it.

What was said later is taken back: an end that came after, a facet that was said after. A facet that
was said before and again after is not known any more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.ingest.facets import microseconds
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Row

# A stream writes all the time between its first and its last word; any other run when it ends.
_WRITTEN = """
SELECT d.canonical_id AS id, max(least(v.last_seen, %(at)s)) AS at
FROM datasets d JOIN dataset_versions v ON v.dataset_id = d.id JOIN runs r ON r.id = v.run_id
WHERE d.canonical_id = ANY(%(datasets)s) AND v.created_at <= %(at)s
    AND (r.streaming OR (r.completed AND v.last_seen <= %(at)s))
GROUP BY 1
"""


def run_then(row: Row, at: datetime) -> Row:
    """A run as it stood: one that ended later was going on."""
    moment = microseconds(at)
    then: Row = {
        **row,
        "facets": {name: word for name, word in row["facets"].items() if word[0] <= moment},
        "last_event_at": min(row["last_event_at"] or row["seen_at"], at),
    }
    for name in ("started_at", "running_at", "ended_at"):
        then[name] = _by(row[name], at)
    if row["ended_at"] is not None and then["ended_at"] is None:
        then["end_state"] = None
    return then


def _by(moment: datetime | None, at: datetime) -> datetime | None:
    return moment if moment is not None and moment <= at else None


async def written_then(
    connection: AsyncConnection[Any], rows: dict[UUID, Row], at: datetime
) -> dict[UUID, Row]:
    """Rows of datasets, with the last write that had been told by then."""
    later = [key for key, row in rows.items() if row["current_written"] and row["current_at"] > at]
    wanted = {"datasets": later, "at": at}
    known = {row["id"]: row["at"] for row in await fetch(connection, _WRITTEN, wanted)}
    then = {key: {"current_at": known.get(key), "current_written": key in known} for key in later}
    return {key: {**row, **then.get(key, {})} for key, row in rows.items()}
