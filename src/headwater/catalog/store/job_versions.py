"""Versions of a job: what its runs read and wrote, and where its code was."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from headwater.catalog.store import jobs, runs
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, Row, facets_json, to_rfc3339

_VERSIONS = """
SELECT version, min(coalesce(ended_at, started_at, seen_at)) AS created_at,
    (array_agg(id ORDER BY seen_at DESC, id DESC))[1] AS latest_run
FROM runs WHERE job_id = %(job)s AND version IS NOT NULL
    AND (%(version)s::uuid IS NULL OR version = %(version)s)
GROUP BY version ORDER BY created_at DESC, version LIMIT %(limit)s OFFSET %(offset)s
"""


async def versions(
    connection: AsyncConnection[Any],
    job: Row,
    *,
    version: UUID | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[Json]:
    """Versions of a job, newest first; or the one that is asked for."""
    values = {"job": job["id"], "version": version, "limit": limit, "offset": offset}
    found = await fetch(connection, _VERSIONS, values)
    latest = {
        r["id"]: r for r in await runs.rows_by_id(connection, [v["latest_run"] for v in found])
    }
    datasets = await runs.datasets_of(connection, list(latest))
    shown = [_version_json(job, v, latest[v["latest_run"]], datasets) for v in found]
    # A job that was described and never ran has one version, its description.
    if not shown and offset == 0:
        (described,) = await jobs.shaped(connection, [job])
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
        **_head(job, str(version["version"]), to_rfc3339(version["created_at"])),
        "location": run["location"],
        "inputs": jobs.dataset_names(io, output=False),
        "outputs": jobs.dataset_names(io, output=True),
        "latestRun": shown,
    }


def _described_json(job: Row, described: Json) -> Json:
    return {
        **_head(job, described["currentVersion"], described["createdAt"]),
        "location": described["location"],
        "inputs": described["inputs"],
        "outputs": described["outputs"],
        "latestRun": None,
    }


def _head(job: Row, version: str, created: str | None) -> Json:
    return {
        "id": {"namespace": job["namespace"], "name": job["name"], "version": version},
        "name": job["name"],
        "createdAt": created,
        "version": version,
        "namespace": job["namespace"],
    }
