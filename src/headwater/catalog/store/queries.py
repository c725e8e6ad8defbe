"""Queries with rows as dictionaries."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from headwater.catalog.store.values import Row


async def fetch(connection: AsyncConnection[Any], statement: str, values: Any = ()) -> list[Row]:
    """All rows of a statement."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(statement, values)
    return await cursor.fetchall()


async def fetch_by(
    key: str, connection: AsyncConnection[Any], statement: str, values: Any
) -> dict[UUID, list[Row]]:
    """The rows of a statement, grouped by a column."""
    groups: dict[UUID, list[Row]] = defaultdict(list)
    for row in await fetch(connection, statement, values):
        groups[row[key]].append(row)
    return groups


async def count(connection: AsyncConnection[Any], source: str, values: Any) -> int:
    """The number of rows of `table WHERE …`."""
    (row,) = await fetch(connection, f"SELECT count(*) AS n FROM {source}", values)
    return int(row["n"])
