"""The jobs and datasets downstream of a dataset or a job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

# Limits for alert messages.
_MAX_DEPTH = 20
_MAX_NODES = 1000

_WRITTEN = """
SELECT DISTINCT c.id, c.namespace, c.name FROM edges e
JOIN datasets d ON d.id = e.dataset_id JOIN datasets c ON c.id = d.canonical_id AND NOT c.hidden
WHERE e.job_id = ANY(%s) AND e.output ORDER BY c.namespace, c.name, c.id LIMIT %s
"""

# Readers of a dataset under any of its names.
_READERS = """
SELECT DISTINCT j.id, j.namespace, j.name
FROM edges e JOIN jobs j ON j.id = e.job_id AND NOT j.hidden
WHERE NOT e.output AND e.dataset_id IN (
    SELECT unnest(%(ids)s::uuid[])
    UNION ALL
    SELECT a.id FROM datasets a WHERE a.canonical_id = ANY(%(ids)s) AND a.canonical_id <> a.id
)
ORDER BY j.namespace, j.name, j.id LIMIT %(limit)s
"""


async def downstream(
    connection: AsyncConnection[Any], *, dataset: UUID | None = None, job: UUID | None = None
) -> list[str]:
    """Jobs and datasets downstream, nearest first, as `dataset:NAMESPACE:NAME`."""
    nodes: list[str] = []
    seen: set[UUID] = {each for each in (dataset, job) if each is not None}
    level_jobs = [job] if job is not None else []
    level = [dataset] if dataset is not None else []
    for _ in range(_MAX_DEPTH):
        if level_jobs:
            cursor = await connection.execute(_WRITTEN, (level_jobs, _MAX_NODES))
            level = _new(await cursor.fetchall(), "dataset", seen, nodes)
        if not level or len(nodes) >= _MAX_NODES:
            break
        cursor = await connection.execute(_READERS, {"ids": level, "limit": _MAX_NODES})
        level_jobs = _new(await cursor.fetchall(), "job", seen, nodes)
        if not level_jobs or len(nodes) >= _MAX_NODES:
            break
    return nodes[:_MAX_NODES]


def _new(rows: list[Any], kind: str, seen: set[UUID], nodes: list[str]) -> list[UUID]:
    new = [row for row in rows if row[0] not in seen]
    seen.update(row[0] for row in new)
    nodes.extend(f"{kind}:{namespace}:{name}" for _, namespace, name in new)
    return [row[0] for row in new]
