"""Questions to the database, and their rows by name."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from headwater.catalog.store.values import Row


async def fetch(connection: AsyncConnection[Any], statement: str, values: Any = ()) -> list[Row]:
    """All rows of an answer."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(statement, values)
    return await cursor.fetchall()


async def fetch_by(
    key: str, connection: AsyncConnection[Any], statement: str, values: Any
) -> dict[UUID, list[Row]]:
    """The rows under each value of a column, in their order."""
    found: dict[UUID, list[Row]] = defaultdict(list)
    for row in await fetch(connection, statement, values):
        found[row[key]].append(row)
    return found


async def count(connection: AsyncConnection[Any], what: str, values: Any) -> int:
    """How many rows there are of `table WHERE …`."""
    (row,) = await fetch(connection, f"SELECT count(*) AS n FROM {what}", values)
    return int(row["n"])
