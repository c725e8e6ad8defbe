"""Which runs made what a run has read, and which made what those have read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.store import runs
from headwater.catalog.store.values import Json, to_rfc3339


async def upstream(connection: AsyncConnection[Any], run: UUID, *, depth: int, most: int) -> Json:
    """The run itself first, then level by level the runs that wrote its inputs."""
    shown: dict[UUID, Json] = {}
    level = [run]
    truncated = False
    for _ in range(depth + 1):
        rows = {r["id"]: r for r in await runs.rows_by_id(connection, level)}
        datasets = await runs.datasets_of(connection, list(rows))
        versions = {d["version"] for listed in datasets.values() for d in listed if d["version"]}
        makers = await _makers(connection, versions)
        following: list[UUID] = []
        for key in level:
            if key not in rows or key in shown:
                continue
            if len(shown) >= most:
                truncated = True
                break
            row = rows[key]
            inputs = [d for d in datasets.get(key, []) if not d["output"]]
            shown[key] = _run_json(row, inputs, makers)
            following += [makers[d["version"]] for d in inputs if makers.get(d["version"])]
        level = sorted(set(following) - set(shown))
        if not level or truncated:
            break
    return {"runs": list(shown.values()), **({"truncated": True} if truncated else {})}


async def _makers(connection: AsyncConnection[Any], versions: set[UUID]) -> dict[UUID, UUID]:
    cursor = await connection.execute(
        "SELECT id, run_id FROM dataset_versions WHERE id = ANY(%s) AND run_id IS NOT NULL",
        (list(versions),),
    )
    return dict(await cursor.fetchall())


def _run_json(row: Json, inputs: list[Json], makers: dict[UUID, UUID]) -> Json:
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
                "producedByRunId": str(makers[each["version"]])
                if makers.get(each["version"])
                else None,
            }
            for each in inputs
        ],
    }
