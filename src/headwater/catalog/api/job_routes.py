"""Jobs, their versions, tags and runs."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.catalog.api import documented, shapes
from headwater.catalog.api.bodies import Fields
from headwater.catalog.api.catalogue_routes import cut, tag_name
from headwater.catalog.api.dataset_routes import require_namespace
from headwater.catalog.api.params import (
    IdInPath,
    LastRunStates,
    Limit,
    NameInPath,
    Offset,
    time_param,
)
from headwater.catalog.api.problems import json_response, not_found, refused
from headwater.catalog.api.service import service_of
from headwater.catalog.store import edits, job_versions, jobs, runs
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Row, facets_json

router = APIRouter(prefix="/api/v1", tags=["jobs"])
_JOBS = "/namespaces/{namespace}/jobs"
_JOB = f"{_JOBS}/{{job}}"


async def _find(connection: Connection, namespace: str, name: str) -> Row:
    row = await jobs.by_name(connection, namespace, name)
    if row is None:
        await require_namespace(connection, namespace)
        raise not_found("Job", name)
    return row


async def _answer(connection: Connection, namespace: str, name: str) -> Response:
    row = await _find(connection, namespace, name)
    return json_response((await jobs.shaped(connection, [row]))[0])


async def _list(
    request: Request, namespace: str | None, states: list[Any], limit: int, offset: int
) -> Response:
    service = service_of(request)
    limit, short = service.rows(limit)
    async with service.question() as connection:
        if namespace is not None:
            await require_namespace(connection, namespace)
        rows, count = await jobs.page(connection, namespace, states, limit, offset)
        answer = {"totalCount": count, "jobs": await jobs.shaped(connection, rows)}
    return json_response(cut(answer, "jobs", limit, short))


@router.get("/jobs", response_model=shapes.Jobs)
async def list_all_jobs(
    request: Request,
    lastRunStates: LastRunStates = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Jobs of all namespaces, the last changed first."""
    return await _list(request, None, lastRunStates, limit, offset)


@router.get("/jobs/runs", response_model=shapes.Runs)
async def list_all_runs(
    request: Request,
    state: Annotated[list[str], Query(description="Only runs in one of these states.")] = [],  # noqa: B006
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Runs of all jobs, newest first."""
    return await _list_runs(request, None, state, limit, offset)


async def _list_runs(
    request: Request, job: tuple[str, str] | None, states: list[str], limit: int, offset: int
) -> Response:
    service = service_of(request)
    limit, short = service.rows(limit)
    async with service.question() as connection:
        key = (await _find(connection, *job))["id"] if job else None
        rows, count = await runs.page(connection, key, states, limit, offset)
        shown = await runs.shaped(connection, rows)
    answer = {"runs": [shown[row["id"]] for row in rows], "totalCount": count}
    return json_response(cut(answer, "runs", limit, short))


@router.get(_JOBS, response_model=shapes.Jobs)
async def list_jobs(
    request: Request,
    namespace: NameInPath,
    lastRunStates: LastRunStates = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Jobs of a namespace, the last changed first."""
    return await _list(request, namespace, lastRunStates, limit, offset)


@router.get(_JOB, response_model=shapes.Job)
async def get_job(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """One job with its latest runs."""
    async with service_of(request).question() as connection:
        return await _answer(connection, namespace, job)


@router.put(_JOB, response_model=shapes.Job, openapi_extra=documented.JOB, deprecated=True)
async def put_job(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """Make or change a job."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    body = {
        "type": fields.choice("type", "BATCH", "STREAM", "SERVICE"),
        "inputs": fields.dataset_names("inputs"),
        "outputs": fields.dataset_names("outputs"),
        "location": fields.text("location"),
        "description": fields.text("description"),
        "runId": fields.uuid("runId"),
    }
    fields.done()
    async with service.question() as connection:
        await require_namespace(connection, namespace)
        await edits.put_job(connection, (namespace, job), body, datetime.now(UTC))
        return await _answer(connection, namespace, job)


@router.delete(_JOB, response_model=shapes.Job)
async def delete_job(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """Delete a job; new events about it bring it back."""
    async with service_of(request).question() as connection:
        row = await _find(connection, namespace, job)
        (shown,) = await jobs.shaped(connection, [row])
        await edits.hide(connection, "jobs", [row["id"]])
    return json_response(shown)


@router.get(f"{_JOB}/versions", response_model=shapes.JobVersions)
async def list_versions(
    request: Request,
    namespace: NameInPath,
    job: NameInPath,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Versions of a job, newest first."""
    service = service_of(request)
    limit, short = service.rows(limit)
    async with service.question() as connection:
        row = await _find(connection, namespace, job)
        found = await job_versions.versions(connection, row, limit=limit, offset=offset)
    return json_response(cut({"versions": found}, "versions", limit, short))


@router.get(f"{_JOB}/versions/{{version}}", response_model=shapes.JobVersion)
async def get_version(
    request: Request, namespace: NameInPath, job: NameInPath, version: IdInPath
) -> Response:
    """One version of a job."""
    async with service_of(request).question() as connection:
        row = await _find(connection, namespace, job)
        found = await job_versions.versions(connection, row, version=version)
    if not found:
        raise not_found("Job version", version)
    return json_response(found[0])


@router.post(f"{_JOB}/tags/{{tag}}", response_model=shapes.Job)
async def tag_job(
    request: Request, namespace: NameInPath, job: NameInPath, tag: NameInPath
) -> Response:
    """Put a tag on a job; a new tag is made."""
    async with service_of(request).question() as connection:
        row = await _find(connection, namespace, job)
        await edits.tag_job(connection, row["id"], tag_name(tag))
        return await _answer(connection, namespace, job)


@router.delete(f"{_JOB}/tags/{{tag}}", response_model=shapes.Job)
async def untag_job(
    request: Request, namespace: NameInPath, job: NameInPath, tag: NameInPath
) -> Response:
    """Take a tag from a job."""
    async with service_of(request).question() as connection:
        row = await _find(connection, namespace, job)
        await edits.untag_job(connection, row["id"], tag)
        return await _answer(connection, namespace, job)


@router.get(f"{_JOB}/runs", response_model=shapes.Runs)
async def list_runs(
    request: Request,
    namespace: NameInPath,
    job: NameInPath,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Runs of a job, newest first."""
    return await _list_runs(request, (namespace, job), [], limit, offset)


@router.post(
    f"{_JOB}/runs",
    status_code=201,
    response_model=shapes.Run,
    openapi_extra=documented.RUN,
    deprecated=True,
)
async def create_run(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """Make a run that has not begun."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    body = {
        "nominalStartTime": fields.time("nominalStartTime"),
        "nominalEndTime": fields.time("nominalEndTime"),
        "args": fields.mapping("args"),
    }
    # The one id that a server has to invent: who makes a run by hand may leave it to us.
    run = fields.uuid("id") or uuid4()
    fields.done()
    async with service.question() as connection:
        row = await _find(connection, namespace, job)
        if await runs.rows_by_id(connection, [run]):
            text = f"Run '{run}' already exists for '{job}' under namespace '{namespace}'."
            raise refused(400, text)
        await edits.create_run(connection, run, row, body, datetime.now(UTC))
        return json_response((await _run(connection, run))[1], 201)


async def _run(connection: Connection, run: UUID) -> tuple[Row, dict[str, Any]]:
    rows = await runs.rows_by_id(connection, [run])
    if not rows:
        raise not_found("Run", run)
    return rows[0], (await runs.shaped(connection, rows))[run]


@router.get("/jobs/runs/{id}", response_model=shapes.Run)
async def get_run(request: Request, id: IdInPath) -> Response:
    """One run."""
    async with service_of(request).question() as connection:
        return json_response((await _run(connection, id))[1])


class FacetType(StrEnum):
    """Whose facets."""

    RUN = "run"
    JOB = "job"
    DATASET = "dataset"


@router.get("/jobs/runs/{id}/facets", response_model=shapes.RunFacets)
async def get_run_facets(
    request: Request,
    id: IdInPath,
    type: Annotated[str, Query(description="`run` or `job`.")],
) -> Response:
    """What events of a run said about the run, or about its job."""
    try:
        kind = FacetType(type.lower())
    except ValueError:
        raise refused(400, "query param type must be one of [run, job]") from None
    async with service_of(request).question() as connection:
        row, _ = await _run(connection, id)
    key = {FacetType.RUN: "facets", FacetType.JOB: "job_facets"}.get(kind)
    return json_response({"runId": str(id), "facets": facets_json(row[key]) if key else {}})


def _marker(event_type: str) -> Any:
    async def mark(
        request: Request,
        id: IdInPath,
        at: Annotated[str | None, Query(description="When; now, if it is left out.")] = None,
    ) -> Response:
        moment = time_param("at", at) if at else datetime.now(UTC)
        async with service_of(request).question() as connection:
            row, _ = await _run(connection, id)
            await edits.mark_run(connection, row, event_type, moment)
            return json_response((await _run(connection, id))[1])

    mark.__name__ = f"mark_run_{event_type.lower()}"
    mark.__doc__ = f"Note that a run had the event {event_type}."
    return mark


for _word, _type in (
    ("start", "START"),
    ("complete", "COMPLETE"),
    ("fail", "FAIL"),
    ("abort", "ABORT"),
):
    router.post(f"/jobs/runs/{{id}}/{_word}", response_model=shapes.Run, deprecated=True)(
        _marker(_type)
    )
