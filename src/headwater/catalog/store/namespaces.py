"""Namespaces, sources, tags, search and events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.identity import namespace_id, source_id
from headwater.catalog.ingest import EventKind
from headwater.catalog.store.limits import response_bytes, truncated, within_limit
from headwater.catalog.store.queries import count, fetch
from headwater.catalog.store.values import Json, Row, to_rfc3339


async def namespaces(connection: AsyncConnection[Any], limit: int, offset: int) -> list[Json]:
    """Namespaces by name, including deleted ones, which are marked as hidden."""
    columns = "id, name, created_at, updated_at, hidden"
    rows = await _page(connection, "SELECT * FROM namespaces", columns, _TEXTS, limit, offset)
    return [{**namespace_json(row), **truncated(row["cut"])} for row in rows]


_TEXTS = ("owner", "description")


async def _page(
    connection: AsyncConnection[Any],
    statement: str,
    columns: str,
    texts: Sequence[str],
    limit: int,
    offset: int,
) -> list[Row]:
    """Rows by name, with their texts as far as they fit into a response."""
    page = f"{statement} ORDER BY name LIMIT %(limit)s OFFSET %(offset)s"
    values = {"limit": limit, "offset": offset, "facet_bytes": response_bytes(connection)}
    limited = within_limit(page, columns, facets=(), texts=texts, order="name")
    return await fetch(connection, limited, values)


async def namespace(connection: AsyncConnection[Any], name: str) -> Json | None:
    statement = "SELECT * FROM namespaces WHERE id = %s"
    rows = await fetch(connection, statement, (namespace_id(name),))
    return namespace_json(rows[0]) if rows else None


def namespace_json(row: Row) -> Json:
    return {
        "name": row["name"],
        "createdAt": to_rfc3339(row["created_at"]),
        "updatedAt": to_rfc3339(row["updated_at"]),
        "ownerName": row["owner"] or "",
        "description": row["description"],
        "isHidden": row["hidden"],
    }


_DEFAULT_SOURCE = """
SELECT 'default' AS name, 'OTHER' AS type, '' AS connection_url, NULL::text AS description,
    min(created_at) AS created_at, max(updated_at) AS updated_at
FROM datasets WHERE source IS NULL AND canonical_id = id AND NOT reference HAVING count(*) > 0
"""
_SOURCES = f"""
SELECT name, type, connection_url, description, created_at, updated_at FROM sources
UNION ALL SELECT * FROM ({_DEFAULT_SOURCE}) AS d
    WHERE NOT EXISTS (SELECT FROM sources WHERE name = 'default')
"""


async def sources(connection: AsyncConnection[Any], limit: int, offset: int) -> list[Json]:
    """Sources by name; `default` is the source of datasets without one."""
    statement = f"SELECT *, name AS id FROM ({_SOURCES}) AS s"
    columns, texts = "id, name, type, created_at, updated_at", ("connection_url", "description")
    rows = await _page(connection, statement, columns, texts, limit, offset)
    return [{**source_json(row), **truncated(row["cut"])} for row in rows]


async def source(connection: AsyncConnection[Any], name: str) -> Json | None:
    statement = "SELECT * FROM sources WHERE id = %s"
    rows = await fetch(connection, statement, (source_id(name),))
    if not rows and name == "default":
        rows = await fetch(connection, _DEFAULT_SOURCE, ())
    return source_json(rows[0]) if rows else None


def source_json(row: Row) -> Json:
    return {
        "type": row["type"],
        "name": row["name"],
        "createdAt": to_rfc3339(row["created_at"]),
        "updatedAt": to_rfc3339(row["updated_at"]),
        "connectionUrl": row["connection_url"] or "",
        "description": row["description"],
    }


async def tags(connection: AsyncConnection[Any], limit: int, offset: int) -> list[Json]:
    statement = "SELECT name, name AS id, description FROM tags"
    rows = await _page(connection, statement, "id, name", ("description",), limit, offset)
    return [
        {"name": row["name"], "description": row["description"], **truncated(row["cut"])}
        for row in rows
    ]


_SEARCH = """
SELECT * FROM (
    SELECT 'DATASET' AS type, d.name, d.updated_at, d.namespace, 'dataset' AS prefix
    FROM datasets d WHERE NOT d.hidden AND NOT d.reference
    UNION ALL
    SELECT 'JOB', j.name, j.updated_at, j.namespace, 'job' FROM jobs j WHERE NOT j.hidden
) AS things
WHERE strpos(lower(name), lower(%(q)s)) > 0
    AND (%(type)s::text IS NULL OR type = %(type)s)
    AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s)
    AND (%(before)s::timestamptz IS NULL OR updated_at < %(before)s)
    AND (%(after)s::timestamptz IS NULL OR updated_at > %(after)s)
ORDER BY {order} LIMIT %(limit)s
"""
_ORDERS = {"NAME": "type, name, namespace", "UPDATE_AT": "updated_at DESC, type, name, namespace"}


async def search(connection: AsyncConnection[Any], sort: str, values: Json) -> list[Json]:
    """Datasets and jobs whose name contains the text; `%` and `_` are not wildcards."""
    rows = await fetch(connection, _SEARCH.format(order=_ORDERS[sort]), values)
    return [
        {
            "type": row["type"],
            "name": row["name"],
            "updatedAt": to_rfc3339(row["updated_at"]),
            "namespace": row["namespace"],
            "nodeId": f"{row['prefix']}:{row['namespace']}:{row['name']}",
        }
        for row in rows
    ]


# A page of events, also limited in bytes, because an event may be as large as a request. It always
# contains the first event, so that paging makes progress.
_EVENTS = """
SELECT event_time, body FROM (
    SELECT event_time, key, body, row_number() OVER page AS number,
        sum(octet_length(body)) OVER page AS size
    FROM (
        SELECT event_time, key, body FROM events {where} ORDER BY {order}
        LIMIT %(limit)s OFFSET %(offset)s
    ) AS listed WINDOW page AS (ORDER BY {order})
) AS measured WHERE size <= %(bytes)s OR number = 1 ORDER BY {order}
"""


async def events(
    connection: AsyncConnection[Any],
    *,
    before: datetime,
    after: datetime,
    ascending: bool,
    limit: int,
    offset: int,
    kind: str | None = None,
    run: UUID | None = None,
) -> tuple[Sequence[Row], int]:
    """Events by time, as many as fit into the limits, and their total count.

    Args:
        kind: only events of this kind.
        run: only events of this run.
    """
    order = "event_time, key" if ascending else "event_time DESC, key DESC"
    where = "WHERE event_time < %(before)s AND event_time >= %(after)s"
    if kind == EventKind.RUN:
        # The index by time has this column, and only events of runs have a type.
        where += " AND event_type IS NOT NULL"
    elif kind is not None:
        where += " AND kind = %(kind)s"
    if run is not None:
        where += " AND run_id = %(run)s"
    values = {
        "before": before,
        "after": after,
        "limit": limit,
        "offset": offset,
        "bytes": response_bytes(connection),
        "kind": kind,
        "run": run,
    }
    rows = await fetch(connection, _EVENTS.format(where=where, order=order), values)
    return rows, await count(connection, f"events {where}", values)
