"""Jobs that start other jobs, and runs that start other runs (OpenLineage's parent run facet)."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from headwater.catalog.store import jobs, runs
from headwater.catalog.store.queries import count, fetch
from headwater.catalog.store.symlinks import Granted
from headwater.catalog.store.values import Json, Row, to_rfc3339

# Only what a list shows: the facets of a run may have megabytes.
_RUN = """r.id AS run_id, r.seen_at, r.last_event_at, r.started_at, r.running_at, r.ended_at,
    r.end_state, j.namespace, j.name"""

_JOBS = f"""
SELECT j.parent_id, p.name AS parent_name,
    jsonb_strip_nulls(jsonb_build_object('jobType', j.facets->'jobType')) AS facets, {_RUN}
FROM jobs j
LEFT JOIN jobs p ON p.id = j.parent_id
LEFT JOIN LATERAL (
    SELECT * FROM runs WHERE job_id = j.id ORDER BY seen_at DESC, id DESC LIMIT 1
) r ON true
"""

_RUNS = f"SELECT {_RUN} FROM runs r JOIN jobs j ON j.id = r.job_id"

_PAGE = "LIMIT %(limit)s OFFSET %(offset)s"


def _visible(granted: Granted) -> str:
    """A key that is limited to namespaces does not see the jobs of others."""
    return "NOT j.hidden" + ("" if granted is None else " AND j.namespace = ANY(%(granted)s)")


async def of_job(
    connection: AsyncConnection[Any], job: Row, granted: Granted, limit: int, offset: int
) -> Json:
    """The parent of a job, and its children by name, each with its latest run.

    Args:
        granted: only the jobs of these namespaces.
    """
    values = {
        "job": job["id"],
        "parent": job["parent_id"],
        "granted": None if granted is None else list(granted),
        "limit": limit,
        "offset": offset,
    }
    only = _visible(granted)
    parents = await fetch(connection, f"{_JOBS} WHERE j.id = %(parent)s AND {only}", values)
    where = f"WHERE j.parent_id = %(job)s AND {only}"
    order = "ORDER BY j.namespace, left(j.name, 120), j.name"
    children = await fetch(connection, f"{_JOBS} {where} {order} {_PAGE}", values)
    return {
        "parent": _job_json(parents[0]) if parents else None,
        "children": [_job_json(row) for row in children],
        "totalCount": await count(connection, f"jobs j {where}", values),
    }


async def of_run(connection: AsyncConnection[Any], run: Row, limit: int, offset: int) -> Json:
    """The job and the parent of a run, and its children in the order of their first events."""
    values = {"run": run["id"], "limit": limit, "offset": offset}
    parents = await fetch(
        connection,
        f"{_RUNS} WHERE r.id = (SELECT parent_run_id FROM runs WHERE id = %(run)s)",
        values,
    )
    where = "WHERE r.parent_run_id = %(run)s"
    order = "ORDER BY r.seen_at, r.id"
    children = await fetch(connection, f"{_RUNS} {where} {order} {_PAGE}", values)
    return {
        "job": {"namespace": run["job_namespace"], "name": run["job_name"]},
        "parent": _run_json(parents[0]) if parents else None,
        "children": [_run_json(row) for row in children],
        "totalCount": await count(connection, f"runs r {where}", values),
    }


def _job_json(row: Row) -> Json:
    return {
        "namespace": row["namespace"],
        "name": row["name"],
        "simpleName": jobs.simple_name(row),
        "type": jobs.job_type(row),
        "latestRun": _run_json(row) if row["run_id"] else None,
    }


def _run_json(row: Row) -> Json:
    started, ended = row["started_at"] or row["running_at"], row["ended_at"]
    return {
        "id": str(row["run_id"]),
        "namespace": row["namespace"],
        "name": row["name"],
        "state": runs.run_state(row),
        "startedAt": to_rfc3339(started),
        "endedAt": to_rfc3339(ended),
        "updatedAt": to_rfc3339(row["last_event_at"] or row["seen_at"]),
        "durationMs": runs.duration_ms(started, ended),
    }
