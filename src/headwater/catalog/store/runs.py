"""Runs, in the JSON of Marquez's API, and the runs upstream of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.identity import dataset_version_id
from headwater.catalog.ingest.checks import parse_time
from headwater.catalog.store.queries import count, fetch, fetch_by
from headwater.catalog.store.values import Json, Row, facet, facets_json, short_time, to_rfc3339

# The columns that every run has in a response; a graph shows thousands of runs.
_SHOWN = """r.id, r.job_id, r.seen_at, r.last_event_at, r.started_at, r.running_at, r.ended_at,
    r.end_state, r.version, r.nominal_start, r.nominal_end, r.args, r.facets,
    j.namespace AS job_namespace, j.name AS job_name"""

_COLUMNS = f"""
SELECT {_SHOWN}, r.job_at, r.job_told, r.location, r.job_facets
FROM runs r JOIN jobs j ON j.id = r.job_id
"""

# If no event names the version of an input, it is the latest one at that time that was completed,
# under any name of the dataset. The lookup is by index, and only for inputs without a version.
_DATASETS = """
SELECT rd.run_id, rd.output, rd.facets, d.id AS dataset_id, d.namespace, d.name,
    coalesce(rd.version_id, v.id) AS version
FROM run_datasets rd
JOIN datasets named ON named.id = rd.dataset_id
JOIN datasets d ON d.id = named.canonical_id
LEFT JOIN LATERAL (
    SELECT latest.id FROM (
        SELECT d.id WHERE rd.version_id IS NULL
        UNION ALL
        SELECT a.id FROM datasets a
        WHERE rd.version_id IS NULL AND a.canonical_id = d.id AND a.canonical_id <> a.id
    ) AS names(id)
    CROSS JOIN LATERAL (
        SELECT dv.id, dv.created_at FROM dataset_versions dv
        LEFT JOIN runs w ON w.id = dv.run_id
        WHERE dv.dataset_id = names.id AND dv.created_at <= rd.at
            AND (dv.run_id IS NULL OR w.completed OR w.streaming)
        ORDER BY dv.created_at DESC, dv.id DESC LIMIT 1
    ) AS latest
    ORDER BY latest.created_at DESC, latest.id DESC LIMIT 1
) v ON true
WHERE rd.run_id = ANY(%s)
ORDER BY rd.run_id, rd.output, d.namespace, d.name
"""

_NO_FIELDS = UUID(int=0)
_NOMINAL = (("nominal_start_time", "nominalStartTime"), ("nominal_end_time", "nominalEndTime"))
_MILLISECOND = timedelta(milliseconds=1)


async def rows_by_id(connection: AsyncConnection[Any], ids: Sequence[UUID]) -> list[Row]:
    """Rows of runs, unordered."""
    return await fetch(connection, _COLUMNS + "WHERE r.id = ANY(%s)", (list(ids),))


async def of_other_namespaces(
    connection: AsyncConnection[Any], ids: Collection[UUID], namespace: str
) -> set[UUID]:
    """The runs whose own events name a job of another namespace."""
    cursor = await connection.execute(
        "SELECT r.id FROM runs r JOIN jobs j ON j.id = r.job_id "
        "WHERE r.id = ANY(%s) AND r.job_told AND j.namespace <> %s",
        (list(ids), namespace),
    )
    return {key for (key,) in await cursor.fetchall()}


async def latest_of_jobs(
    connection: AsyncConnection[Any],
    jobs: Sequence[UUID],
    per_job: int,
    *,
    job_facets: bool = False,
    at: datetime | None = None,
) -> dict[UUID, list[Row]]:
    """The latest runs of every job, newest first.

    Args:
        job_facets: also select the job facets of the runs.
        at: only runs that existed at this time.
    """
    also = ", r.job_facets" if job_facets else ""
    return await fetch_by(
        "job_id",
        connection,
        f"SELECT {_SHOWN}{also} FROM unnest(%s::uuid[]) AS wanted(id) "
        "JOIN jobs j ON j.id = wanted.id "
        "CROSS JOIN LATERAL (SELECT * FROM runs WHERE job_id = wanted.id AND seen_at <= %s "
        "ORDER BY seen_at DESC, id DESC LIMIT %s) r",
        (list(jobs), at or "infinity", per_job),
    )


async def page(
    connection: AsyncConnection[Any],
    job: UUID | None,
    states: Sequence[str],
    limit: int,
    offset: int,
) -> tuple[list[Row], int]:
    """Runs of a job or of all jobs, newest first, and their total count."""
    only = ["r.job_id = %(job)s"] if job is not None else []
    if states:
        only.append(_in_states(set(states)))
    where = f"WHERE {' AND '.join(only)}" if only else ""
    values = {"job": job, "limit": limit, "offset": offset}
    order = " ORDER BY r.seen_at DESC, r.id DESC LIMIT %(limit)s OFFSET %(offset)s"
    rows = await fetch(connection, _COLUMNS + where + order, values)
    if len(rows) < limit and (rows or not offset):
        # The last page: the count follows from it.
        return rows, offset + len(rows)
    return rows, await count(connection, f"runs r {where}", values)


_ENDS = ("COMPLETED", "FAILED", "ABORTED")
_STARTED = "coalesce(r.started_at, r.running_at) IS NOT NULL"


def _in_states(states: Collection[str]) -> str:
    """A condition that the indexes support. Unknown states are ignored, so it is safe in SQL."""
    conditions = [f"r.end_state = '{state}'" for state in _ENDS if state in states]
    if "RUNNING" in states:
        conditions.append(f"(r.end_state IS NULL AND {_STARTED})")
    if "NEW" in states:
        conditions.append(f"(r.end_state IS NULL AND NOT ({_STARTED}))")
    return f"({' OR '.join(conditions)})"


STATE = """(CASE WHEN r.end_state IS NOT NULL THEN r.end_state
    WHEN coalesce(r.started_at, r.running_at) IS NOT NULL THEN 'RUNNING' ELSE 'NEW' END)"""


async def datasets_of(
    connection: AsyncConnection[Any], runs: Sequence[UUID]
) -> dict[UUID, list[Row]]:
    """The inputs and outputs of each run."""
    return await fetch_by("run_id", connection, _DATASETS, (list(runs),))


async def shaped(connection: AsyncConnection[Any], rows: Sequence[Row]) -> dict[UUID, Json]:
    """Rows as JSON, by id."""
    datasets = await datasets_of(connection, [row["id"] for row in rows])
    return {row["id"]: run_json(row, datasets.get(row["id"], [])) for row in rows}


def run_json(row: Row, datasets: Sequence[Row]) -> Json:
    """A run as JSON."""
    started = row["started_at"] or row["running_at"]
    ended = row["ended_at"]
    version = row["version"]
    return {
        "id": str(row["id"]),
        "createdAt": to_rfc3339(row["seen_at"]),
        "updatedAt": to_rfc3339(row["last_event_at"] or row["seen_at"]),
        "nominalStartTime": to_rfc3339(row["nominal_start"]),
        "nominalEndTime": to_rfc3339(row["nominal_end"]),
        "state": run_state(row),
        "startedAt": to_rfc3339(started),
        "endedAt": to_rfc3339(ended),
        "durationMs": (ended - started) // _MILLISECOND if started and ended else None,
        "args": _arguments(row),
        "jobVersion": version
        and {
            "namespace": row["job_namespace"],
            "name": row["job_name"],
            "version": str(version),
        },
        "inputDatasetVersions": [_version(d) for d in datasets if not d["output"]],
        "outputDatasetVersions": [_version(d) for d in datasets if d["output"]],
        "facets": facets_json(row["facets"]),
    }


def run_state(row: Row) -> str:
    """An end state is final: a late event does not reopen a run."""
    if row["end_state"]:
        return str(row["end_state"])
    return "RUNNING" if row["started_at"] or row["running_at"] else "NEW"


def _version(row: Row) -> Json:
    version = row["version"] or dataset_version_id(row["dataset_id"], _NO_FIELDS, "", None)
    return {
        "datasetVersionId": {
            "namespace": row["namespace"],
            "name": row["name"],
            "version": str(version),
        },
        "facets": facets_json(row["facets"]),
    }


def _arguments(row: Row) -> Json:
    args: Json = orjson.loads(row["args"]) if row["args"] else {}
    nominal = facet(row["facets"], "nominalTime")
    for name, key in _NOMINAL:
        try:
            args[name] = short_time(parse_time(nominal[key]))
        except (KeyError, ValueError):
            continue
    parent = facet(row["facets"], "parent")
    job, run = parent.get("job"), parent.get("run")
    if isinstance(job, dict) and isinstance(run, dict):
        args |= {
            "run_id": run.get("runId"),
            "name": job.get("name"),
            "namespace": job.get("namespace"),
        }
    return args


async def upstream(
    connection: AsyncConnection[Any], run: UUID, *, depth: int, max_runs: int
) -> Json:
    """The run itself, then level by level the runs that wrote its inputs."""
    shown: dict[UUID, Json] = {}
    level = [run]
    truncated = False
    for _ in range(depth + 1):
        rows = {r["id"]: r for r in await rows_by_id(connection, level)}
        datasets = await datasets_of(connection, list(rows))
        versions = {d["version"] for listed in datasets.values() for d in listed if d["version"]}
        writers = await _writers(connection, versions)
        following: list[UUID] = []
        for key in level:
            if key not in rows or key in shown:
                continue
            if len(shown) >= max_runs:
                truncated = True
                break
            row = rows[key]
            inputs = [d for d in datasets.get(key, []) if not d["output"]]
            shown[key] = _upstream_json(row, inputs, writers)
            following += [writers[d["version"]] for d in inputs if writers.get(d["version"])]
        level = sorted(set(following) - set(shown))
        if not level or truncated:
            break
    return {"runs": list(shown.values()), **({"truncated": True} if truncated else {})}


async def _writers(connection: AsyncConnection[Any], versions: set[UUID]) -> dict[UUID, UUID]:
    cursor = await connection.execute(
        "SELECT id, run_id FROM dataset_versions WHERE id = ANY(%s) AND run_id IS NOT NULL",
        (list(versions),),
    )
    return dict(await cursor.fetchall())


def _upstream_json(row: Json, inputs: list[Json], writers: dict[UUID, UUID]) -> Json:
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
            "status": run_state(row),
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
