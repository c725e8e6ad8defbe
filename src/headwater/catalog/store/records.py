"""Finds the batch that wrote a record, and the batches that wrote its inputs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.store import runs
from headwater.catalog.store.limits import MAX_LINKS
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row, to_rfc3339

# Ranges of several writers may be nested: the one with the greatest first offset is the closest.
# The scan is limited, because offsets without a writer are common (transaction markers), and each
# would scan all earlier ranges.
_WRITER = """
SELECT * FROM (
    SELECT r.*, d.namespace AS dataset_namespace
    FROM record_ranges r JOIN datasets d ON d.id = r.dataset_id
    WHERE r.output AND left(r.topic, 249) = left(%(topic)s, 249) AND r.topic = %(topic)s
        AND r.partition = %(partition)s AND r.first_offset <= %(offset)s
        AND (%(namespace)s::text IS NULL OR d.namespace = %(namespace)s)
    ORDER BY r.first_offset DESC, r.at DESC, r.run_id LIMIT 1000
) AS near WHERE last_offset >= %(offset)s LIMIT 1
"""

# Ranges that start inside a range that was read. `_WRITER` finds the one that starts before it.
_WRITERS = """
SELECT r.*, d.namespace AS dataset_namespace
FROM record_ranges r JOIN datasets d ON d.id = r.dataset_id
WHERE r.output AND left(r.topic, 249) = left(%(topic)s, 249) AND r.topic = %(topic)s
    AND r.partition = %(partition)s
    AND r.first_offset > %(first)s AND r.first_offset <= %(last)s
    AND d.namespace = %(namespace)s
ORDER BY r.first_offset, r.at, r.run_id LIMIT %(limit)s
"""

_INPUTS = """
SELECT r.*, d.namespace AS dataset_namespace
FROM record_ranges r JOIN datasets d ON d.id = r.dataset_id
WHERE r.run_id = %(run)s AND r.batch = %(batch)s AND NOT r.output
ORDER BY d.namespace, r.topic, r.partition, r.first_offset LIMIT 100
"""

# All ranges of the newest batches.
_BATCHES = """
WITH newest AS (
    SELECT DISTINCT batch FROM record_ranges WHERE run_id = %(run)s
    ORDER BY batch DESC LIMIT %(limit)s
)
SELECT r.*, d.namespace AS dataset_namespace
FROM newest n JOIN record_ranges r ON r.run_id = %(run)s AND r.batch = n.batch
JOIN datasets d ON d.id = r.dataset_id
ORDER BY r.batch DESC, r.output, r.topic, r.partition, r.first_offset LIMIT %(ranges)s
"""

# A longer trace is truncated: every step costs a few queries.
_MAX_STEPS = 200


async def record(
    connection: AsyncConnection[Any],
    topic: str,
    partition: int,
    offset: int,
    *,
    namespace: str | None = None,
    depth: int = 20,
) -> Json | None:
    """The batch that wrote a record, and its trace; None if no batch reported the offset."""
    search = _Search(connection)
    writer = await search.writer(topic, partition, offset, namespace)
    if writer is None:
        return None
    response = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        **await search.batch_json(writer),
        "trace": await search.trace(writer, depth, {_key(writer)}),
    }
    if search.steps >= _MAX_STEPS:
        response["truncated"] = True
    return response


async def batches(
    connection: AsyncConnection[Any], run: UUID, limit: int
) -> tuple[list[Json], bool]:
    """The newest micro-batches of a run, newest first; and whether there are more."""
    by_number: dict[int, Json] = {}
    values = {"run": run, "limit": limit + 1, "ranges": MAX_LINKS + 1}
    rows = await fetch(connection, _BATCHES, values)
    cut = len(rows) > MAX_LINKS
    for row in rows[:MAX_LINKS]:
        batch = by_number.setdefault(
            row["batch"],
            {
                "batch": row["batch"],
                "jobVersion": row["job_version"],
                "at": to_rfc3339(row["at"]),
                "inputs": [],
                "outputs": [],
            },
        )
        batch["outputs" if row["output"] else "inputs"].append(_range_json(row))
    shown = list(by_number.values())
    if cut and len(shown) > 1:
        # The ranges of the last one may be incomplete.
        shown.pop()
    return shown[:limit], cut or len(shown) > limit


def _range_json(row: Row) -> Json:
    return {
        "namespace": row["dataset_namespace"],
        "topic": row["topic"],
        "partition": row["partition"],
        "first": row["first_offset"],
        "last": row["last_offset"],
    }


class _Search:
    """One search with a limited number of steps."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._runs: dict[UUID, Row] = {}
        self.steps = 0

    async def writer(
        self, topic: str, partition: int, offset: int, namespace: str | None
    ) -> Row | None:
        values = {"topic": topic, "partition": partition, "offset": offset, "namespace": namespace}
        rows = await fetch(self._connection, _WRITER, values)
        return rows[0] if rows else None

    async def writers(self, read: Row) -> list[Row]:
        """The batches that wrote a range, in the order of their records."""
        partition = {
            "topic": read["topic"],
            "partition": read["partition"],
            "namespace": read["dataset_namespace"],
        }
        first = await self.writer(**partition, offset=read["first_offset"])
        span = {"first": read["first_offset"], "last": read["last_offset"], "limit": _MAX_STEPS}
        others = await fetch(self._connection, _WRITERS, {**partition, **span})
        return [first, *others] if first else others

    async def batch_json(self, row: Row) -> Json:
        run = await self._run(row["run_id"])
        return {
            "namespace": row["dataset_namespace"],
            "first": row["first_offset"],
            "last": row["last_offset"],
            "run": {
                "id": str(row["run_id"]),
                "state": runs.run_state(run) if run else None,
                "startedAt": to_rfc3339(run["started_at"] or run["running_at"]) if run else None,
            },
            "job": {"namespace": run["job_namespace"], "name": run["job_name"]} if run else None,
            "jobVersion": row["job_version"],
            "batch": row["batch"],
            "writtenAt": to_rfc3339(row["at"]),
        }

    async def trace(self, row: Row, depth: int, seen: set[tuple[Any, ...]]) -> list[Json]:
        """The ranges that a batch read, each with the batches that wrote it."""
        ranges: list[Json] = []
        batch = {"run": row["run_id"], "batch": row["batch"]}
        for read in await fetch(self._connection, _INPUTS, batch):
            shown: Json = {**_range_json(read), "writtenBy": []}
            ranges.append(shown)
            if depth <= 0 or self.steps >= _MAX_STEPS:
                continue
            for writer in await self.writers(read):
                if _key(writer) in seen:
                    continue
                if self.steps >= _MAX_STEPS:
                    break
                self.steps += 1
                seen.add(_key(writer))
                batch_json = await self.batch_json(writer)
                shown["writtenBy"].append(
                    {**batch_json, "trace": await self.trace(writer, depth - 1, seen)}
                )
        return ranges

    async def _run(self, key: UUID) -> Row | None:
        if key not in self._runs:
            rows = await runs.rows_by_id(self._connection, [key])
            if not rows:
                return None
            self._runs[key] = rows[0]
        return self._runs[key]


def _key(row: Row) -> tuple[Any, ...]:
    return row["run_id"], row["batch"], row["topic"], row["partition"], row["first_offset"]
