"""Jobs and their versions, in the JSON of Marquez's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.identity import job_id, job_version_id, namespace_id
from headwater.catalog.store import runs
from headwater.catalog.store.limits import MAX_LINKS, response_bytes, truncated, within_limit
from headwater.catalog.store.queries import count, fetch, fetch_by
from headwater.catalog.store.symlinks import Granted
from headwater.catalog.store.values import (
    Json,
    Row,
    facet,
    facet_tags,
    facets_json,
    text_of,
    to_rfc3339,
)

_LATEST_RUNS = 10
_COLUMNS = """
SELECT j.id, j.namespace, j.name, j.parent_id, j.created_at, j.updated_at, j.facets, j.own_facets,
    p.name AS parent_name, p.namespace AS parent_namespace,
    (SELECT array_agg(t.tag ORDER BY t.tag) FROM job_tags t WHERE t.job_id = j.id) AS tags
FROM jobs j LEFT JOIN jobs p ON p.id = j.parent_id
"""
_SHOWN = (
    "id, namespace, name, parent_id, created_at, updated_at, parent_name, parent_namespace, tags"
)
_LATEST_CHANGE = "updated_at DESC, id"

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
    statement = _COLUMNS + "WHERE j.id = ANY(%(ids)s) AND NOT j.hidden"
    return await _fetch(connection, statement, {"ids": list(ids)})


async def _fetch(connection: AsyncConnection[Any], statement: str, values: Json) -> list[Row]:
    limited = within_limit(statement, _SHOWN, facets=["facets", "own_facets"], order=_LATEST_CHANGE)
    return await fetch(connection, limited, {**values, "facet_bytes": response_bytes(connection)})


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
    rows = await _fetch(connection, _COLUMNS + where + only + order, values)
    return rows, await count(connection, f"jobs j {where}", values)


async def shaped(
    connection: AsyncConnection[Any], rows: Sequence[Row], granted: Granted = None
) -> list[Json]:
    """Rows as JSON, in the same order, each with its latest runs."""
    if granted is not None:
        # A parent in another namespace is shown as the events of the job name it: in its facets.
        rows = [
            _without_parent(row) if row["parent_namespace"] not in granted else row for row in rows
        ]
    ids = [row["id"] for row in rows]
    latest = await runs.latest_of_jobs(connection, ids, _LATEST_RUNS, job_facets=True)
    every = [run for listed in latest.values() for run in listed]
    datasets = await runs.datasets_of(connection, [run["id"] for run in every], granted)
    without = [row["id"] for row in rows if row["id"] not in latest]
    edges = await edges_of(connection, without, granted)
    return [
        _job_json(row, latest.get(row["id"], []), datasets, edges.get(row["id"], []))
        for row in rows
    ]


def _without_parent(row: Row) -> Row:
    return {**row, "parent_id": None, "parent_name": None}


async def edges_of(
    connection: AsyncConnection[Any], jobs: Sequence[UUID], granted: Granted = None
) -> dict[UUID, list[Row]]:
    """The inputs and outputs of each job, from all of its events."""
    # A limited key is shown the names that the job's events use.
    joined = (
        "named.canonical_id"
        if granted is None
        else (
            "CASE WHEN canonical.namespace = ANY(%(granted)s) THEN canonical.id ELSE named.id END"
        )
    )
    return await fetch_by(
        "job_id",
        connection,
        "SELECT DISTINCT e.job_id, e.output, d.namespace, d.name FROM edges e "
        "JOIN datasets named ON named.id = e.dataset_id "
        "JOIN datasets canonical ON canonical.id = named.canonical_id "
        f"JOIN datasets d ON d.id = {joined} "
        # Whether a dataset of another namespace was deleted is not shown either.
        "WHERE e.job_id = ANY(%(jobs)s) AND (NOT d.hidden OR "
        "(%(limited)s AND d.namespace <> ALL(%(granted)s))) "
        "ORDER BY e.job_id, d.namespace, d.name LIMIT %(limit)s",
        {
            "jobs": list(jobs),
            "granted": list(granted or ()),
            "limited": granted is not None,
            "limit": MAX_LINKS,
        },
    )


def head_json(row: Row) -> Json:
    """The fields that a job has alone and in a graph."""
    return {
        "id": {"namespace": row["namespace"], "name": row["name"]},
        "type": job_type(row),
        "name": row["name"],
        "simpleName": simple_name(row),
        "parentJobName": row["parent_name"],
        "parentJobUuid": str(row["parent_id"]) if row["parent_id"] else None,
    }


def simple_name(row: Row) -> str:
    """The name without that of the parent: `load` for `daily.load`."""
    parent = row["parent_name"]
    name: str = row["name"]
    return name.removeprefix(f"{parent}.") if parent else name


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


def _job_json(row: Row, latest: list[Row], datasets: runs.RunDatasets, edges: list[Row]) -> Json:
    shown = [runs.run_json(run, datasets) for run in latest]
    # Only runs that ended or stream have a version: the datasets of others may be incomplete.
    complete = next((run for run in latest if run["version"]), latest[0] if latest else None)
    io = datasets.of(complete["id"]) if complete else edges
    version = complete["version"] if complete else None
    if complete is None and (row["own_facets"] or edges):
        version = _described_version(row, edges)
    facets = latest[0]["job_facets"] if latest else row["own_facets"]
    kind = facet(facets, "jobType")
    in_facet = facet_tags(facet(row["facets"], "tags"))
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
        "tags": sorted({*(row["tags"] or []), *(tag for _, tag in in_facet)}),
        **truncated(row["cut"], any(run.get("truncated") for run in shown)),
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
    granted: Granted = None,
) -> list[Json]:
    """Versions of a job, newest first; or only `version`."""
    values = {"job": job["id"], "version": version, "limit": limit, "offset": offset}
    rows = await fetch(connection, _VERSIONS, values)
    latest = {
        r["id"]: r for r in await runs.rows_by_id(connection, [v["latest_run"] for v in rows])
    }
    datasets = await runs.datasets_of(connection, list(latest), granted)
    shown = [_version_json(job, v, latest[v["latest_run"]], datasets) for v in rows]
    # A job without runs has one version if an event or the API describes it.
    if not shown and offset == 0:
        (described,) = await shaped(connection, [job], granted)
        current = described["currentVersion"]
        if current and (version is None or str(version) == current):
            shown = [_described_json(job, described)]
    return shown


def _version_json(job: Row, version: Row, run: Row, datasets: runs.RunDatasets) -> Json:
    io = datasets.of(run["id"])
    shown = runs.run_json(run, datasets)
    shown["facets"] = facets_json(run["job_facets"])
    for each in shown["inputDatasetVersions"] + shown["outputDatasetVersions"]:
        each["facets"] = {}
    return {
        **_version_head(job, str(version["version"]), to_rfc3339(version["created_at"])),
        "location": run["location"],
        "inputs": dataset_names(io, output=False),
        "outputs": dataset_names(io, output=True),
        "latestRun": shown,
        **truncated(shown.get("truncated")),
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
