"""Jobs, their versions and tags."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi, schemas
from headwater.catalog.api.bodies import Fields
from headwater.catalog.api.params import IdInPath, LastRunStates, Limit, NameInPath, Offset
from headwater.catalog.api.problems import json_response, not_found
from headwater.catalog.api.responses import (
    find_job,
    find_run,
    granted_to,
    job_response,
    list_response,
    require_namespace,
    tag_name,
)
from headwater.catalog.api.service import service_of
from headwater.catalog.store import datasets, edits, hierarchy, jobs
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json

router = APIRouter(prefix="/api/v1", tags=["jobs"])
_JOBS = "/namespaces/{namespace}/jobs"
_JOB = f"{_JOBS}/{{job}}"


async def _list(
    request: Request, namespace: str | None, states: list[Any], limit: int, offset: int
) -> Response:
    async def fetch(connection: Connection, max_rows: int) -> Json:
        rows, count = await jobs.page(connection, namespace, states, max_rows, offset)
        shown = await jobs.shaped(connection, rows, granted_to(request))
        return {"totalCount": count, "jobs": shown}

    return await list_response(request, "jobs", limit, fetch)


@router.get("/jobs", response_model=schemas.Jobs)
async def list_all_jobs(
    request: Request,
    lastRunStates: LastRunStates = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Jobs of all namespaces, the last changed first."""
    return await _list(request, None, lastRunStates, limit, offset)


@router.get(_JOBS, response_model=schemas.Jobs)
async def list_jobs(
    request: Request,
    namespace: NameInPath,
    lastRunStates: LastRunStates = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Jobs of a namespace, the last changed first; an empty list for an unknown namespace."""
    return await _list(request, namespace, lastRunStates, limit, offset)


@router.get(_JOB, response_model=schemas.Job)
async def get_job(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """One job with its latest runs."""
    async with service_of(request).query_connection() as connection:
        return await job_response(request, connection, namespace, job)


@router.put(_JOB, response_model=schemas.Job, openapi_extra=openapi.JOB, deprecated=True)
async def put_job(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """Create or update a job."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    body: Json = {
        "type": fields.choice("type", "BATCH", "STREAM", "SERVICE"),
        "inputs": fields.dataset_names("inputs"),
        "outputs": fields.dataset_names("outputs"),
        "location": fields.text("location"),
        "description": fields.text("description"),
        "runId": fields.uuid("runId"),
    }
    fields.done()
    async with service.query_connection() as connection:
        await require_namespace(connection, namespace)
        if body["runId"]:
            run, _ = await find_run(connection, body["runId"])
            if (run["job_namespace"], run["job_name"]) != (namespace, job):
                raise not_found("Run", body["runId"])
        granted = granted_to(request)
        used = [*body["inputs"], *body["outputs"]]
        # A limited key learns nothing about other namespaces, not even whether a dataset exists.
        used = [name for name in used if granted is None or name[0] in granted]
        for _, name in await datasets.missing(connection, used):
            raise not_found("Dataset", name)
        await edits.put_job(connection, (namespace, job), body, datetime.now(UTC), granted)
        return await job_response(request, connection, namespace, job)


async def _changed(request: Request, connection: Connection, namespace: str, name: str) -> Response:
    """A job that was tagged or deleted; as in Marquez without its outputs and runs."""
    row = await find_job(connection, namespace, name)
    (shown,) = await jobs.shaped(connection, [row], granted_to(request))
    return json_response({**shown, "outputs": [], "latestRun": None, "latestRuns": None})


@router.delete(_JOB, response_model=schemas.Job)
async def delete_job(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """Delete a job; a new event about it restores it."""
    async with service_of(request).query_connection() as connection:
        row = await find_job(connection, namespace, job)
        shown = await _changed(request, connection, namespace, job)
        await edits.hide(connection, "jobs", [row["id"]])
    return shown


@router.get(f"{_JOB}/hierarchy", response_model=schemas.JobHierarchy)
async def get_hierarchy(
    request: Request,
    namespace: NameInPath,
    job: NameInPath,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """The job that starts this one, and the jobs that it starts, each with its latest run."""
    granted = granted_to(request)

    async def fetch(connection: Connection, max_rows: int) -> Json:
        row = await find_job(connection, namespace, job)
        return await hierarchy.of_job(connection, row, granted, max_rows, offset)

    return await list_response(request, "children", limit, fetch)


@router.get(f"{_JOB}/versions", response_model=schemas.JobVersions)
async def list_versions(
    request: Request,
    namespace: NameInPath,
    job: NameInPath,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Versions of a job, newest first."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        row = await find_job(connection, namespace, job)
        granted = granted_to(request)
        versions = await jobs.versions(
            connection, row, limit=max_rows, offset=offset, granted=granted
        )
        return {"versions": versions}

    return await list_response(request, "versions", limit, fetch)


@router.get(f"{_JOB}/versions/{{version}}", response_model=schemas.JobVersion)
async def get_version(
    request: Request, namespace: NameInPath, job: NameInPath, version: IdInPath
) -> Response:
    """One version of a job."""
    async with service_of(request).query_connection() as connection:
        row = await find_job(connection, namespace, job)
        granted = granted_to(request)
        versions = await jobs.versions(connection, row, version=version, granted=granted)
    if not versions:
        raise not_found("Job version", version)
    return json_response(versions[0])


@router.post(f"{_JOB}/tags/{{tag}}", response_model=schemas.Job)
async def tag_job(
    request: Request, namespace: NameInPath, job: NameInPath, tag: NameInPath
) -> Response:
    """Tag a job; an unknown tag is created."""
    async with service_of(request).query_connection() as connection:
        row = await find_job(connection, namespace, job)
        await edits.tag_job(connection, row["id"], tag_name(tag))
        return await _changed(request, connection, namespace, job)


@router.delete(f"{_JOB}/tags/{{tag}}", response_model=schemas.Job)
async def untag_job(
    request: Request, namespace: NameInPath, job: NameInPath, tag: NameInPath
) -> Response:
    """Remove a tag from a job."""
    async with service_of(request).query_connection() as connection:
        row = await find_job(connection, namespace, job)
        await edits.untag_job(connection, row["id"], tag)
        return await _changed(request, connection, namespace, job)
