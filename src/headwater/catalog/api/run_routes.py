"""Runs and their batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi, record_schemas, schemas
from headwater.catalog.api.bodies import Fields
from headwater.catalog.api.params import (
    IdInPath,
    Limit,
    NameInPath,
    Offset,
    RunStateParam,
    time_param,
)
from headwater.catalog.api.problems import json_response, not_found, refused
from headwater.catalog.api.responses import find_job, find_run, granted_to, list_response
from headwater.catalog.api.service import service_of
from headwater.catalog.ingest import Receipt
from headwater.catalog.store import edits, hierarchy, records, runs
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json, facets_json

router = APIRouter(prefix="/api/v1", tags=["jobs"])
_RUNS_OF_JOB = "/namespaces/{namespace}/jobs/{job}/runs"
_RUN = "/jobs/runs/{id}"


async def _list(
    request: Request, job: tuple[str, str] | None, states: list[Any], limit: int, offset: int
) -> Response:
    async def fetch(connection: Connection, max_rows: int) -> Json:
        key = (await find_job(connection, *job))["id"] if job else None
        rows, count = await runs.page(connection, key, states, max_rows, offset)
        shown = await runs.shaped(connection, rows, granted_to(request))
        return {"runs": [shown[row["id"]] for row in rows], "totalCount": count}

    return await list_response(request, "runs", limit, fetch)


@router.get("/jobs/runs", response_model=schemas.Runs)
async def list_all_runs(
    request: Request,
    state: Annotated[
        list[RunStateParam], Query(description="Only runs in one of these states.")
    ] = [],  # noqa: B006 - FastAPI copies it
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Runs of all jobs, newest first."""
    return await _list(request, None, state, limit, offset)


@router.get(_RUNS_OF_JOB, response_model=schemas.Runs)
async def list_runs(
    request: Request,
    namespace: NameInPath,
    job: NameInPath,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Runs of a job, newest first."""
    return await _list(request, (namespace, job), [], limit, offset)


@router.post(
    _RUNS_OF_JOB,
    status_code=201,
    response_model=schemas.Run,
    openapi_extra=openapi.RUN,
    deprecated=True,
)
async def create_run(request: Request, namespace: NameInPath, job: NameInPath) -> Response:
    """Create a run in state NEW."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    body = {
        "nominalStartTime": fields.time("nominalStartTime"),
        "nominalEndTime": fields.time("nominalEndTime"),
        "args": fields.mapping("args"),
    }
    # The only random id of the service: a client may create a run without an id.
    run = fields.uuid("id") or uuid4()
    fields.done()
    async with service.query_connection() as connection:
        row = await find_job(connection, namespace, job)
        if await runs.rows_by_id(connection, [run]):
            text = f"Run '{run}' already exists for '{job}' under namespace '{namespace}'."
            raise refused(400, text)
        await edits.create_run(connection, run, row, body, datetime.now(UTC))
        response = json_response((await find_run(connection, run, granted_to(request)))[1], 201)
    response.headers["Location"] = f"/api/v1/jobs/runs/{run}"
    return response


@router.get(_RUN, response_model=schemas.Run)
async def get_run(request: Request, id: IdInPath) -> Response:
    """One run."""
    async with service_of(request).query_connection() as connection:
        return json_response((await find_run(connection, id))[1])


@router.get(f"{_RUN}/hierarchy", response_model=schemas.RunHierarchy)
async def get_run_hierarchy(
    request: Request, id: IdInPath, limit: Limit = 100, offset: Offset = 0
) -> Response:
    """The job of a run, the run that started it, and the runs that it started."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        rows = await runs.rows_by_id(connection, [id])
        if not rows:
            raise not_found("Run", id)
        return await hierarchy.of_run(connection, rows[0], max_rows, offset)

    return await list_response(request, "children", limit, fetch)


class FacetType(StrEnum):
    """Owner of facets."""

    RUN = "run"
    JOB = "job"
    DATASET = "dataset"


@router.get(f"{_RUN}/facets", response_model=schemas.RunFacets)
async def get_run_facets(
    request: Request,
    id: IdInPath,
    type: Annotated[str, Query(description="`run` or `job`.")],
) -> Response:
    """Facets of a run or of its job, from the events of the run."""
    try:
        kind = FacetType(type.lower())
    except ValueError:
        raise refused(400, "query param type must be one of [run, job]") from None
    async with service_of(request).query_connection() as connection:
        row, _ = await find_run(connection, id)
    key = {FacetType.RUN: "facets", FacetType.JOB: "job_facets"}.get(kind)
    return json_response({"runId": str(id), "facets": facets_json(row[key]) if key else {}})


@router.get(f"{_RUN}/batches", response_model=record_schemas.RunBatches)
async def get_run_batches(request: Request, id: IdInPath, limit: Limit = 100) -> Response:
    """The micro-batches that a run reported, newest first, with their offsets."""
    limit, _ = service_of(request).capped_limit(limit)
    async with service_of(request).query_connection() as connection:
        await find_run(connection, id)
        batches, more = await records.batches(connection, id, limit)
    body: Json = {"runId": str(id), "batches": batches}
    if more:
        body["truncated"] = True
    return json_response(body)


def _marker(event_type: str) -> Any:
    async def mark(
        request: Request,
        id: IdInPath,
        at: Annotated[str | None, Query(description="Time of the event; default: now.")] = None,
    ) -> Response:
        now = datetime.now(UTC)
        limit = timedelta(seconds=service_of(request).settings.max_future_seconds)
        time = Receipt(now, limit).effective(time_param("at", at) if at else now)
        async with service_of(request).query_connection() as connection:
            row, _ = await find_run(connection, id)
            await edits.mark_run(connection, row, event_type, time)
            return json_response((await find_run(connection, id))[1])

    mark.__name__ = f"mark_run_{event_type.lower()}"
    mark.__doc__ = f"Record the event {event_type} of a run."
    return mark


for _word, _type in (
    ("start", "START"),
    ("complete", "COMPLETE"),
    ("fail", "FAIL"),
    ("abort", "ABORT"),
):
    router.post(f"{_RUN}/{_word}", response_model=schemas.Run, deprecated=True)(_marker(_type))
