"""Search, stored events, and counts over time."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.catalog.api import schemas
from headwater.catalog.api.params import Fuzzy, Limit, Offset, time_param
from headwater.catalog.api.problems import bad_fields, json_response, refused
from headwater.catalog.api.responses import list_response
from headwater.catalog.api.service import service_of
from headwater.catalog.store import namespaces, stats
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json

router = APIRouter(prefix="/api/v1", tags=["catalog"])
v2_router = APIRouter(prefix="/api/v2beta", tags=["catalog"])


class SearchFilter(StrEnum):
    """Type of results."""

    DATASET = "DATASET"
    JOB = "JOB"


class SearchSort(StrEnum):
    """Order of results."""

    NAME = "NAME"
    UPDATE_AT = "UPDATE_AT"


@router.get("/search", response_model=schemas.SearchResults)
async def search(
    request: Request,
    q: Annotated[str, Query(description="Part of a name, case-insensitive.")],
    filter: Annotated[SearchFilter | None, Fuzzy, Query()] = None,
    sort: Annotated[SearchSort, Fuzzy, Query()] = SearchSort.NAME,
    limit: Limit = 10,
    namespace: Annotated[str | None, Query()] = None,
    before: Annotated[str | None, Query(description="YYYY-MM-DD")] = None,
    after: Annotated[str | None, Query(description="YYYY-MM-DD")] = None,
) -> Response:
    """Datasets and jobs whose name contains the text."""
    if not q.strip():
        raise bad_fields("query param q must not be blank", status=400)
    values: Json = {
        "q": _plain("q", q),
        "type": filter,
        "namespace": _plain("namespace", namespace),
        "before": _day("before", before),
        "after": _day("after", after),
    }

    async def fetch(connection: Connection, max_rows: int) -> Json:
        results = await namespaces.search(connection, sort, {**values, "limit": max_rows})
        return {"results": results, "totalCount": len(results)}

    return await list_response(request, "results", limit, fetch)


def _plain(name: str, value: str | None) -> str | None:
    if value is not None and "\0" in value:
        raise bad_fields(f"query param {name} must not contain a NUL character", status=400)
    return value


def _day(name: str, value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        day = date.fromisoformat(value)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    except ValueError:
        raise bad_fields(f"query param {name} must be a date, YYYY-MM-DD", status=400) from None


@v2_router.get("/search/jobs", response_model=schemas.SearchResults)
async def search_jobs(request: Request, q: str, limit: Limit = 10) -> Response:
    """Jobs whose name contains the text; Marquez needs OpenSearch for it."""
    return await search(request, q, SearchFilter.JOB, limit=limit)


@v2_router.get("/search/datasets", response_model=schemas.SearchResults)
async def search_datasets(request: Request, q: str, limit: Limit = 10) -> Response:
    """Datasets whose name contains the text; Marquez needs OpenSearch for it."""
    return await search(request, q, SearchFilter.DATASET, limit=limit)


# The default of Marquez.
_BEFORE = "2030-01-01T00:00:00+00:00"


class Direction(StrEnum):
    """Newest or oldest first."""

    DESC = "DESC"
    ASC = "ASC"


class Kind(StrEnum):
    """Kinds of events."""

    RUN_EVENT = "RUN_EVENT"
    JOB_EVENT = "JOB_EVENT"
    DATASET_EVENT = "DATASET_EVENT"
    ALL = "ALL"


@router.get("/events/lineage", response_model=schemas.Events)
async def list_events(
    request: Request,
    before: str = _BEFORE,
    after: str = "1970-01-01T00:00:00+00:00",
    sortDirection: Annotated[Direction, Fuzzy, Query()] = Direction.DESC,
    limit: Limit = 100,
    offset: Offset = 0,
    kind: Annotated[
        Kind, Fuzzy, Query(description="Kind of events; as in Marquez, those of runs by default.")
    ] = Kind.RUN_EVENT,
    runId: Annotated[UUID | None, Query(description="Only events of this run.")] = None,
) -> Response:
    """Stored events by event time, as they were sent.

    With `runId` the default of `before` does not apply: events of a run are listed also if their
    clock was wrong.
    """
    if runId is not None and before == _BEFORE:
        before = "9998-12-31T23:59:59Z"
    end, begin = time_param("before", before), time_param("after", after)

    async def fetch(connection: Connection, max_rows: int) -> Json:
        rows, count = await namespaces.events(
            connection,
            before=end,
            after=begin,
            ascending=sortDirection is Direction.ASC,
            limit=max_rows,
            offset=offset,
            kind=None if kind is Kind.ALL else kind,
            run=runId,
        )
        body: Json = {
            "totalCount": count,
            "events": [orjson.Fragment(row["body"]) for row in rows],
        }
        if len(rows) < min(max_rows, count - offset):
            body["truncated"] = True
        return body

    return await list_response(request, "events", limit, fetch)


PeriodParam = Annotated[stats.Period | None, Fuzzy, Query()]
Zone = Annotated[str | None, Query(description="Required for WEEK, such as `Europe/Berlin`.")]


def _intervals(period: stats.Period | None, zone: str | None) -> list[stats.Interval] | None:
    """None for a week without a zone, which Marquez does not count."""
    if period is None:
        raise refused(400, "Invalid period", "query param period must not be null")
    if period is stats.Period.WEEK and not zone:
        return None
    try:
        info = zoneinfo.ZoneInfo(zone or "UTC")
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise bad_fields(
            "query param timezone must be the name of a time zone", status=400
        ) from None
    return stats.intervals(period, datetime.now(info))


@router.get("/stats/lineage-events", response_model=list[schemas.EventCount])
async def count_events(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """Events by type, per hour or day."""
    spans = _intervals(period, timezone)
    if spans is None:
        raise bad_fields("Timezone must be specified for period 'WEEK'", status=400)
    async with service_of(request).query_connection() as connection:
        return json_response(await stats.lineage_events(connection, spans))


async def _count(
    request: Request, kind: str, period: stats.Period | None, zone: str | None
) -> Response:
    spans = _intervals(period, zone)
    if spans is None:
        return json_response([])
    async with service_of(request).query_connection() as connection:
        return json_response(await stats.counts(connection, kind, spans))


@router.get("/stats/jobs", response_model=list[schemas.Count])
async def count_jobs(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """Number of jobs over time."""
    return await _count(request, "jobs", period, timezone)


@router.get("/stats/datasets", response_model=list[schemas.Count])
async def count_datasets(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """Number of datasets over time."""
    return await _count(request, "datasets", period, timezone)


@router.get("/stats/sources", response_model=list[schemas.Count])
async def count_sources(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """Number of sources over time."""
    return await _count(request, "sources", period, timezone)
