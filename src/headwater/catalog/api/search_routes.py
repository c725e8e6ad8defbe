"""Search, stored events, and counts over time."""

from __future__ import annotations

import json
import zoneinfo
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any

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
from headwater.catalog.store.values import Json, Row, to_rfc3339

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


class Direction(StrEnum):
    """Newest or oldest first."""

    DESC = "DESC"
    ASC = "ASC"


@router.get("/events/lineage", response_model=schemas.Events)
async def list_events(
    request: Request,
    before: str = "2030-01-01T00:00:00+00:00",
    after: str = "1970-01-01T00:00:00+00:00",
    sortDirection: Annotated[Direction, Fuzzy, Query()] = Direction.DESC,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Stored events by event time."""
    end, begin = time_param("before", before), time_param("after", after)

    async def fetch(connection: Connection, max_rows: int) -> Json:
        rows, count = await namespaces.events(
            connection,
            before=end,
            after=begin,
            ascending=sortDirection is Direction.ASC,
            limit=max_rows,
            offset=offset,
        )
        body: Json = {"totalCount": count, "events": [_marquez_event(row) for row in rows]}
        if len(rows) < min(max_rows, count - offset):
            body["truncated"] = True
        return body

    return await list_response(request, "events", limit, fetch)


# Marquez lists an event with its known facets as null where the event has none. Only the parts that
# an event of its kind consists of are validated at ingest; others (`inputs` of a dataset event) are
# returned as they were sent.
_RUN = dict.fromkeys(("nominalTime", "parent"))
_JOB = dict.fromkeys(("documentation", "sourceCodeLocation", "sql"))
_DATASET = dict.fromkeys(
    (
        "documentation",
        "schema",
        "dataSource",
        "description",
        "lifecycleStateChange",
        "columnLineage",
        "symlinks",
    )
)
_NO_DESCRIPTION = {"description": None}


def _marquez_event(row: Row) -> Any:
    """An event as Marquez lists it. Numbers that orjson can't represent are written by `json`."""
    event = json.loads(row["body"])
    shown: Json = {**event, "eventTime": to_rfc3339(row["event_time"])}
    for key, known in (("run", _RUN), ("job", _JOB)):
        if key in event:
            shown[key] = _with_facets(event[key], known)
    for key in ("inputs", "outputs"):
        if isinstance(event.get(key), list):
            shown[key] = [_dataset(each) for each in event[key]]
    if "dataset" in event:
        shown["dataset"] = _dataset(event["dataset"])
    try:
        orjson.dumps(shown)
    except TypeError:
        return orjson.Fragment(json.dumps(shown))
    return shown


def _with_facets(part: Any, known: Json) -> Any:
    facets = part.get("facets") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(facets, dict | None):
        return part
    return {**part, "facets": {**known, **(facets or {})}}


def _dataset(each: Any) -> Any:
    shown = _with_facets(each, _DATASET)
    if shown is each:
        return each
    schema = shown["facets"]["schema"]
    if isinstance(schema, dict) and isinstance(schema.get("fields"), list):
        fields = [{**_NO_DESCRIPTION, **f} if isinstance(f, dict) else f for f in schema["fields"]]
        shown["facets"]["schema"] = {**schema, "fields": fields}
    return {**shown, **{key: each.get(key) for key in ("inputFacets", "outputFacets")}}


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
