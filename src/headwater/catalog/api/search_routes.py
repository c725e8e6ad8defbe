"""Search, stored events, and counts over time."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.catalog.api import schemas as shapes
from headwater.catalog.api.marquez_events import told
from headwater.catalog.api.params import Fuzzy, Limit, Offset, time_param
from headwater.catalog.api.problems import bad_fields, json_response, refused
from headwater.catalog.api.responses import list_response
from headwater.catalog.api.service import service_of
from headwater.catalog.store import namespaces as catalogue
from headwater.catalog.store import stats
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json

router = APIRouter(prefix="/api/v1", tags=["catalog"])
v2_router = APIRouter(prefix="/api/v2beta", tags=["catalog"])


class SearchFilter(StrEnum):
    """What to look for."""

    DATASET = "DATASET"
    JOB = "JOB"


class SearchSort(StrEnum):
    """How to order results."""

    NAME = "NAME"
    UPDATE_AT = "UPDATE_AT"


@router.get("/search", response_model=shapes.SearchResults)
async def search(
    request: Request,
    q: Annotated[str, Query(description="Part of a name, in any case.")],
    filter: Annotated[SearchFilter | None, Fuzzy, Query()] = None,
    sort: Annotated[SearchSort, Fuzzy, Query()] = SearchSort.NAME,
    limit: Limit = 10,
    namespace: Annotated[str | None, Query()] = None,
    before: Annotated[str | None, Query(description="YYYY-MM-DD")] = None,
    after: Annotated[str | None, Query(description="YYYY-MM-DD")] = None,
) -> Response:
    """Datasets and jobs whose name holds the text."""
    if not q.strip():
        raise bad_fields("query param q must not be blank", status=400)
    values: Json = {
        "q": _plain("q", q),
        "type": filter,
        "namespace": _plain("namespace", namespace),
        "before": _day("before", before),
        "after": _day("after", after),
    }

    async def fetch(connection: Connection, most: int) -> Json:
        found = await catalogue.search(connection, sort, {**values, "limit": most})
        return {"results": found, "totalCount": len(found)}

    return await list_response(request, "results", limit, fetch)


def _plain(name: str, value: str | None) -> str | None:
    if value is not None and "\0" in value:
        raise bad_fields(f"query param {name} must not hold a NUL character", status=400)
    return value


def _day(name: str, value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        found = date.fromisoformat(value)
        return datetime(found.year, found.month, found.day, tzinfo=UTC)
    except ValueError:
        raise bad_fields(f"query param {name} must be a day, YYYY-MM-DD", status=400) from None


@v2_router.get("/search/jobs", response_model=shapes.SearchResults)
async def search_jobs(request: Request, q: str, limit: Limit = 10) -> Response:
    """Jobs whose name holds the text; Marquez needs OpenSearch for it."""
    return await search(request, q, SearchFilter.JOB, limit=limit)


@v2_router.get("/search/datasets", response_model=shapes.SearchResults)
async def search_datasets(request: Request, q: str, limit: Limit = 10) -> Response:
    """Datasets whose name holds the text; Marquez needs OpenSearch for it."""
    return await search(request, q, SearchFilter.DATASET, limit=limit)


class Direction(StrEnum):
    """Newest or oldest first."""

    DESC = "DESC"
    ASC = "ASC"


@router.get("/events/lineage", response_model=shapes.Events)
async def list_events(
    request: Request,
    before: str = "2030-01-01T00:00:00+00:00",
    after: str = "1970-01-01T00:00:00+00:00",
    sortDirection: Annotated[Direction, Fuzzy, Query()] = Direction.DESC,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """The events as they were sent, by their time."""
    end, begin = time_param("before", before), time_param("after", after)

    async def fetch(connection: Connection, most: int) -> Json:
        rows, count = await catalogue.events(
            connection,
            before=end,
            after=begin,
            ascending=sortDirection is Direction.ASC,
            limit=most,
            offset=offset,
        )
        answer: Json = {"totalCount": count, "events": [told(row) for row in rows]}
        if len(rows) < min(most, count - offset):
            answer["truncated"] = True
        return answer

    return await list_response(request, "events", limit, fetch)


PeriodParam = Annotated[stats.Period | None, Fuzzy, Query()]
Zone = Annotated[str | None, Query(description="Needed for WEEK, such as `Europe/Berlin`.")]


def _intervals(period: stats.Period | None, zone: str | None) -> list[stats.Interval] | None:
    """None where Marquez has nothing to count by: a week without a zone."""
    if period is None:
        raise refused(400, "Invalid period", "query param period must not be null")
    if period is stats.Period.WEEK and not zone:
        return None
    try:
        place = zoneinfo.ZoneInfo(zone or "UTC")
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise bad_fields(
            "query param timezone must be the name of a time zone", status=400
        ) from None
    return stats.intervals(period, datetime.now(place))


@router.get("/stats/lineage-events", response_model=list[shapes.EventCount])
async def count_events(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """Events by type, hour by hour or day by day."""
    spans = _intervals(period, timezone)
    if spans is None:
        raise bad_fields("Timezone must be specified for period 'WEEK'", status=400)
    async with service_of(request).question() as connection:
        return json_response(await stats.lineage_events(connection, spans))


async def _count(
    request: Request, kind: str, period: stats.Period | None, zone: str | None
) -> Response:
    spans = _intervals(period, zone)
    if spans is None:
        return json_response([])
    async with service_of(request).question() as connection:
        return json_response(await stats.things(connection, kind, spans))


@router.get("/stats/jobs", response_model=list[shapes.Count])
async def count_jobs(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """How many jobs there were."""
    return await _count(request, "jobs", period, timezone)


@router.get("/stats/datasets", response_model=list[shapes.Count])
async def count_datasets(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """How many datasets there were."""
    return await _count(request, "datasets", period, timezone)


@router.get("/stats/sources", response_model=list[shapes.Count])
async def count_sources(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """How many sources there were."""
    return await _count(request, "sources", period, timezone)
