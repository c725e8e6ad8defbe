"""The runs upstream of a run: those that wrote its inputs, and so on."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.store import runs
from headwater.catalog.store.limits import truncated
from headwater.catalog.store.values import Json, Row, to_rfc3339
from headwater.catalog.store.walks import limited_walk

# The nearest runs first: each step of the recursion is one level. A run with very many inputs is
# followed along some of them.
_UPSTREAM = f"""
WITH RECURSIVE upstream(run) AS (
    SELECT id FROM runs WHERE id = %(run)s
    UNION
    SELECT w.run_id FROM upstream u
    CROSS JOIN LATERAL (
        SELECT * FROM run_datasets WHERE run_id = u.run AND NOT output LIMIT 1000
    ) rd
    JOIN datasets named ON named.id = rd.dataset_id
    JOIN datasets d ON d.id = named.canonical_id
    {runs.VERSION_READ}
    JOIN dataset_versions w ON w.id = {runs.VERSION}
    WHERE w.run_id IS NOT NULL
)
SELECT run FROM upstream LIMIT %(limit)s
"""


async def upstream(
    connection: AsyncConnection[Any], run: UUID, *, depth: int, max_runs: int, seconds: float
) -> Json:
    """The run itself, then level by level the runs that wrote its inputs."""
    values = {"run": run, "limit": max_runs + 1}
    found = await limited_walk(connection, _UPSTREAM, values, seconds)
    ids = [run] if found is None else [row["run"] for row in found[:max_runs]]
    rows = {row["id"]: row for row in await runs.rows_by_id(connection, ids)}
    datasets = await runs.datasets_of(connection, list(rows))
    writers = await _writers(
        connection, {d["version"] for of in datasets.by_run.values() for d in of if d["version"]}
    )
    shown: dict[UUID, Json] = {}
    missing: set[UUID] = set()
    level = [key for key in ids[:1] if key in rows]
    # In a cycle, too, every level adds a run.
    for step in range(min(depth, len(rows)) + 1):
        following: set[UUID] = set()
        for key in level:
            inputs = [d for d in datasets.of(key) if not d["output"]]
            shown[key] = _upstream_json(rows[key], inputs, writers)
            following |= {writers[d["version"]] for d in inputs if d["version"] in writers}
        if step < depth:
            missing |= following - set(rows)
        level = sorted(following & set(rows) - set(shown))
    # A run may also be missing because it was deleted.
    limited = found is None or len(found) > max_runs
    return {"runs": list(shown.values()), **truncated(limited and missing, datasets.cut)}


async def _writers(connection: AsyncConnection[Any], versions: set[UUID]) -> dict[UUID, UUID]:
    cursor = await connection.execute(
        "SELECT id, run_id FROM dataset_versions WHERE id = ANY(%s) AND run_id IS NOT NULL",
        (list(versions),),
    )
    return dict(await cursor.fetchall())


def _upstream_json(row: Row, inputs: list[Row], writers: dict[UUID, UUID]) -> Json:
    return {
        "job": {
            "namespace": row["job_namespace"],
            "name": row["job_name"],
            "version": str(row["version"]) if row["version"] else None,
        },
        "run": {
            "id": str(row["id"]),
            "start": to_rfc3339(row["started_at"] or row["running_at"]),
            "end": to_rfc3339(row["ended_at"]),
            "status": runs.run_state(row),
        },
        "inputs": [
            {
                "namespace": each["namespace"],
                "name": each["name"],
                "version": str(each["version"]) if each["version"] else None,
                "producedByRunId": str(writers[each["version"]])
                if writers.get(each["version"])
                else None,
            }
            for each in inputs
        ],
    }
