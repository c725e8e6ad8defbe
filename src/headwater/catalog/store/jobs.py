"""Jobs and their versions, in the JSON of Marquez's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.identity import job_id, job_version_id, namespace_id
from headwater.catalog.store import runs
from headwater.catalog.store.queries import count, fetch, fetch_by
from headwater.catalog.store.values import Json, Row, facet, facets_json, text_of, to_rfc3339

_LATEST_RUNS = 10
_COLUMNS = """
SELECT j.id, j.namespace, j.name, j.parent_id, j.created_at, j.updated_at, j.facets, j.own_facets,
    p.name AS parent_name,
    (SELECT array_agg(t.tag ORDER BY t.tag) FROM job_tags t WHERE t.job_id = j.id) AS tags
FROM jobs j LEFT JOIN jobs p ON p.id = j.parent_id
"""

_VERSIONS = """
SELECT version, min(coalesce(ended_at, started_at, seen_at)) AS created_at,
    (array_agg(id ORDER BY seen_at DESC, id DESC))[1] AS latest_run
FROM runs WHERE job_id = %(job)s AND version IS NOT NULL
    AND (%(version)s::uuid IS NULL OR version = %(version)s)
GROUP BY version ORDER BY created_at DESC, version LIMIT %(limit)s OFFSET %(offset)s
"""


async def by_name(connection: AsyncConnection[Any], namespace: str, name: str) -> Row | None:
    """The row of a job that is not deleted."""
    rows = await by_ids(connection, [job_id(namespace, name)])
    return rows[0] if rows else None


async def by_ids(connection: AsyncConnection[Any], ids: Sequence[UUID]) -> list[Row]:
    statement = _COLUMNS + "WHERE j.id = ANY(%s) AND NOT j.hidden"
    return await fetch(connection, statement, (list(ids),))


async def page(
    connection: AsyncConnection[Any],
    namespace: str | None,
    states: Sequence[str],
    limit: int,
    offset: int,
) -> tuple[list[Row], int]:
    """Jobs, the latest updated first, and their total count.

    As in Marquez, a job without runs matches every state, and the count ignores the states.
    """
    where = "WHERE NOT j.hidden"
    if namespace is not None:
        where += " AND j.namespace_id = %(namespace)s"
    only = ""
    if states:
        only = (
            f" AND coalesce((SELECT {runs.STATE} FROM runs r WHERE r.job_id = j.id "
            "ORDER BY r.seen_at DESC, r.id DESC LIMIT 1) = ANY(%(states)s), true)"
        )
    values = {
        "namespace": namespace_id(namespace) if namespace is not None else None,
        "states": list(states),
        "limit": limit,
        "offset": offset,
    }
    order = " ORDER BY j.updated_at DESC, j.id LIMIT %(limit)s OFFSET %(offset)s"
    rows = await fetch(connection, _COLUMNS + where + only + order, values)
    return rows, await count(connection, f"jobs j {where}", values)


async def shaped(connection: AsyncConnection[Any], rows: Sequence[Row]) -> list[Json]:
    """Rows as JSON, in the same order, each with its latest runs."""
    ids = [row["id"] for row in rows]
    latest = await runs.latest_of_jobs(connection, ids, _LATEST_RUNS, job_facets=True)
    every = [run for listed in latest.values() for run in listed]
    datasets = await runs.datasets_of(connection, [run["id"] for run in every])
    edges = await edges_of(connection, [row["id"] for row in rows if row["id"] not in latest])
    return [
        _job_json(row, latest.get(row["id"], []), datasets, edges.get(row["id"], []))
        for row in rows
    ]


async def edges_of(connection: AsyncConnection[Any], jobs: Sequence[UUID]) -> dict[UUID, list[Row]]:
    """The inputs and outputs of each job, from all of its events."""
    return await fetch_by(
        "job_id",
        connection,
        "SELECT DISTINCT e.job_id, e.output, d.namespace, d.name FROM edges e "
        "JOIN datasets named ON named.id = e.dataset_id "
        "JOIN datasets d ON d.id = named.canonical_id "
        "WHERE e.job_id = ANY(%s) AND NOT d.hidden ORDER BY e.job_id, d.namespace, d.name",
        (list(jobs),),
    )


def head_json(row: Row) -> Json:
    """The fields that a job has alone and in a graph."""
    parent = row["parent_name"]
    simple = row["name"].removeprefix(f"{parent}.") if parent else row["name"]
    return {
        "id": {"namespace": row["namespace"], "name": row["name"]},
        "type": job_type(row),
        "name": row["name"],
        "simpleName": simple,
        "parentJobName": parent,
        "parentJobUuid": str(row["parent_id"]) if row["parent_id"] else None,
    }


def job_type(row: Row) -> str:
    processing = facet(row["facets"], "jobType").get("processingType")
    return {"STREAMING": "STREAM", "STREAM": "STREAM", "SERVICE": "SERVICE"}.get(
        str(processing), "BATCH"
    )


def location(row: Row) -> str | None:
    return text_of(facet(row["facets"], "sourceCodeLocation").get("url"))


def description(row: Row) -> str | None:
    return text_of(facet(row["facets"], "documentation").get("description"))


def dataset_names(rows: Sequence[Row], *, output: bool) -> list[Json]:
    return [
        {"namespace": row["namespace"], "name": row["name"]}
        for row in rows
        if row["output"] is output
    ]


def _job_json(
    row: Row, latest: list[Row], datasets: dict[UUID, list[Row]], edges: list[Row]
) -> Json:
    shown = [runs.run_json(run, datasets.get(run["id"], [])) for run in latest]
    # Only runs that ended or stream have a version: the datasets of others may be incomplete.
    complete = next((run for run in latest if run["version"]), latest[0] if latest else None)
    io = datasets.get(complete["id"], []) if complete else edges
    version = complete["version"] if complete else None
    if complete is None and (row["own_facets"] or edges):
        version = _described_version(row, edges)
    facets = latest[0]["job_facets"] if latest else row["own_facets"]
    kind = facet(facets, "jobType")
    labels = [kind.get(name) for name in ("jobType", "integration")]
    return {
        **head_json(row),
        "createdAt": to_rfc3339(row["created_at"]),
        "updatedAt": to_rfc3339(row["updated_at"]),
        "namespace": row["namespace"],
        "inputs": dataset_names(io, output=False),
        "outputs": dataset_names(io, output=True),
        "location": location(row),
        "description": description(row),
        "latestRun": shown[0] if shown else None,
        "latestRuns": shown or None,
        "facets": facets_json(facets),
        "currentVersion": str(version) if version else None,
        "labels": [label for label in labels if isinstance(label, str)],
        "tags": row["tags"] or [],
    }


def _described_version(row: Row, edges: list[Row]) -> UUID:
    names = [(e["output"], (e["namespace"], e["name"])) for e in edges]
    return job_version_id(
        row["namespace"],
        row["name"],
        [name for output, name in names if not output],
        [name for output, name in names if output],
        location(row),
    )


async def versions(
    connection: AsyncConnection[Any],
    job: Row,
    *,
    version: UUID | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[Json]:
    """Versions of a job, newest first; or only `version`."""
    values = {"job": job["id"], "version": version, "limit": limit, "offset": offset}
    rows = await fetch(connection, _VERSIONS, values)
    latest = {
        r["id"]: r for r in await runs.rows_by_id(connection, [v["latest_run"] for v in rows])
    }
    datasets = await runs.datasets_of(connection, list(latest))
    shown = [_version_json(job, v, latest[v["latest_run"]], datasets) for v in rows]
    # A job without runs has one version if an event or the API describes it.
    if not shown and offset == 0:
        (described,) = await shaped(connection, [job])
        current = described["currentVersion"]
        if current and (version is None or str(version) == current):
            shown = [_described_json(job, described)]
    return shown


def _version_json(job: Row, version: Row, run: Row, datasets: dict[UUID, list[Row]]) -> Json:
    io = datasets.get(run["id"], [])
    shown = runs.run_json(run, io)
    shown["facets"] = facets_json(run["job_facets"])
    for each in shown["inputDatasetVersions"] + shown["outputDatasetVersions"]:
        each["facets"] = {}
    return {
        **_version_head(job, str(version["version"]), to_rfc3339(version["created_at"])),
        "location": run["location"],
        "inputs": dataset_names(io, output=False),
        "outputs": dataset_names(io, output=True),
        "latestRun": shown,
    }


def _described_json(job: Row, described: Json) -> Json:
    return {
        **_version_head(job, described["currentVersion"], described["createdAt"]),
        "location": described["location"],
        "inputs": described["inputs"],
        "outputs": described["outputs"],
        "latestRun": None,
    }


def _version_head(job: Row, version: str, created: str | None) -> Json:
    return {
        "id": {"namespace": job["namespace"], "name": job["name"], "version": version},
        "name": job["name"],
        "createdAt": created,
        "version": version,
        "namespace": job["namespace"],
    }
