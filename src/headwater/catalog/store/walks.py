"""Walks over the graph in one statement, limited in time."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import QueryCanceled

from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row

# Along the indexes: each level has few rows, and a plan that reads a table would do so at each
# level, such as after many events since the last ANALYZE.
_PLAN = """
SET LOCAL enable_seqscan = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL statement_timeout = {milliseconds}
"""


async def limited_walk(
    connection: AsyncConnection[Any], statement: str, values: Json, seconds: float
) -> list[Row] | None:
    """The rows of a recursive statement; None if it takes longer than `seconds`."""
    walked: list[Row] | None = None
    try:
        # A savepoint: its end without an error would keep the settings, so it never has one.
        async with connection.transaction(force_rollback=True):
            plan = _PLAN.format(milliseconds=max(int(seconds * 1000), 1))
            await connection.execute(plan.encode())
            walked = await fetch(connection, statement, values)
    except QueryCanceled:
        return None
    return walked
