"""Namespaces, sources, tags, search, stored events, statistics and health."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.catalog.api import documented, shapes
from headwater.catalog.api.bodies import Fields
from headwater.catalog.api.params import Limit, NameInPath, Offset, time_param
from headwater.catalog.api.problems import bad_fields, json_response, not_found, refused
from headwater.catalog.api.service import Service, service_of
from headwater.catalog.api.told_events import told
from headwater.catalog.api.version import VERSION
from headwater.catalog.store import catalogue, edits, stats
from headwater.errors import HeadwaterError

router = APIRouter(prefix="/api/v1", tags=["catalog"])


def cut(answer: dict[str, Any], listed: str, limit: int, shortened: bool) -> dict[str, Any]:
    """Marks a list that has more than it may show."""
    if shortened and len(answer[listed]) >= limit:
        answer["truncated"] = True
    return answer


@router.get("/health", response_model=shapes.Health)
async def get_health(request: Request) -> Response:
    """Whether the service and its database answer; open to everybody."""
    try:
        async with service_of(request).pool.connection() as connection:
            await connection.execute("SELECT 1")
    except HeadwaterError:
        down = {"status": "unavailable", "version": VERSION, "database": "unreachable"}
        return json_response(
            {"code": 503, "message": "the catalog's database does not answer", **down}, 503
        )
    return json_response({"status": "healthy", "version": VERSION, "database": "reachable"})


@router.get("/namespaces", response_model=shapes.Namespaces)
async def list_namespaces(request: Request, limit: Limit = 100, offset: Offset = 0) -> Response:
    """All namespaces by name."""
    service = service_of(request)
    limit, short = service.rows(limit)
    async with service.question() as connection:
        found = await catalogue.namespaces(connection, limit, offset)
    return json_response(cut({"namespaces": found}, "namespaces", limit, short))


@router.get("/namespaces/{namespace}", response_model=shapes.Namespace)
async def get_namespace(request: Request, namespace: NameInPath) -> Response:
    """One namespace."""
    return json_response(await _namespace(service_of(request), namespace))


async def _namespace(service: Service, name: str) -> dict[str, Any]:
    async with service.question() as connection:
        found = await catalogue.namespace(connection, name)
    if found is None:
        raise not_found("Namespace", name)
    return found


@router.put(
    "/namespaces/{namespace}", response_model=shapes.Namespace, openapi_extra=documented.NAMESPACE
)
async def put_namespace(request: Request, namespace: NameInPath) -> Response:
    """Make or change a namespace."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    owner, description = fields.text("ownerName"), fields.text("description")
    fields.done()
    if not set(namespace) <= _NAME_MARKS and not namespace.isalnum():
        raise refused(404, "HTTP 404 Not Found")
    async with service.question() as connection:
        await edits.put_namespace(connection, namespace, owner, description)
    return json_response(await _namespace(service, namespace))


# What Marquez takes in the name of a namespace that is made by hand.
_NAME_MARKS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@+=?&%,'()"
)


@router.delete("/namespaces/{namespace}", response_model=shapes.Namespace)
async def delete_namespace(request: Request, namespace: NameInPath) -> Response:
    """Delete a namespace with its jobs and datasets; new events bring it back."""
    service = service_of(request)
    found = await _namespace(service, namespace)
    async with service.question() as connection:
        await edits.hide_namespace(connection, namespace)
    return json_response(found)


@router.get("/sources", response_model=shapes.Sources)
async def list_sources(request: Request, limit: Limit = 100, offset: Offset = 0) -> Response:
    """All sources by name."""
    service = service_of(request)
    limit, short = service.rows(limit)
    async with service.question() as connection:
        found = await catalogue.sources(connection, limit, offset)
    return json_response(cut({"sources": found}, "sources", limit, short))


@router.get("/sources/{source}", response_model=shapes.Source)
async def get_source(request: Request, source: NameInPath) -> Response:
    """One source."""
    async with service_of(request).question() as connection:
        found = await catalogue.source(connection, source)
    if found is None:
        raise not_found("Source", source)
    return json_response(found)


@router.put(
    "/sources/{source}",
    response_model=shapes.Source,
    openapi_extra=documented.SOURCE,
    deprecated=True,
)
async def put_source(request: Request, source: NameInPath) -> Response:
    """Make or change a source."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    kind, url = fields.name("type"), fields.name("connectionUrl")
    description = fields.text("description")
    fields.done()
    async with service.question() as connection:
        await edits.put_source(connection, source, kind, url, description)
        found = await catalogue.source(connection, source)
    return json_response(found)


@router.get("/tags", response_model=shapes.Tags)
async def list_tags(request: Request, limit: Limit = 100, offset: Offset = 0) -> Response:
    """All tags by name."""
    service = service_of(request)
    limit, short = service.rows(limit)
    async with service.question() as connection:
        found = await catalogue.tags(connection, limit, offset)
    return json_response(cut({"tags": found}, "tags", limit, short))


MOST_TAG_CHARACTERS = 255


def tag_name(name: str) -> str:
    if len(name) > MOST_TAG_CHARACTERS:
        raise bad_fields(f"a tag must have at most {MOST_TAG_CHARACTERS} characters", status=400)
    return name


@router.put("/tags/{name}", response_model=shapes.Tag, openapi_extra=documented.TAG)
async def put_tag(request: Request, name: NameInPath) -> Response:
    """Make or change a tag."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    description = fields.text("description")
    fields.done()
    async with service.question() as connection:
        await edits.put_tag(connection, tag_name(name), description)
    return json_response({"name": name, "description": description})


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
    filter: Annotated[SearchFilter | None, Query()] = None,
    sort: Annotated[SearchSort, Query()] = SearchSort.NAME,
    limit: Limit = 10,
    namespace: Annotated[str | None, Query()] = None,
    before: Annotated[str | None, Query(description="YYYY-MM-DD")] = None,
    after: Annotated[str | None, Query(description="YYYY-MM-DD")] = None,
) -> Response:
    """Datasets and jobs whose name holds the text."""
    if not q.strip():
        raise bad_fields("query param q must not be blank", status=400)
    service = service_of(request)
    limit, short = service.rows(limit)
    values = {
        "q": _plain("q", q),
        "type": filter,
        "namespace": _plain("namespace", namespace),
        "before": _day("before", before),
        "after": _day("after", after),
        "limit": limit,
    }
    async with service.question() as connection:
        found = await catalogue.search(connection, sort, values)
    answer = {"results": found, "totalCount": len(found)}
    return json_response(cut(answer, "results", limit, short))


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


v2_router = APIRouter(prefix="/api/v2beta", tags=["catalog"])


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

    ASC = "asc"
    DESC = "desc"


@router.get("/events/lineage", response_model=shapes.Events)
async def list_events(
    request: Request,
    before: str = "2030-01-01T00:00:00+00:00",
    after: str = "1970-01-01T00:00:00+00:00",
    sortDirection: Direction = Direction.DESC,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """The events as they were sent, by their time."""
    service = service_of(request)
    limit, short = service.rows(limit)
    end, begin = time_param("before", before), time_param("after", after)
    async with service.question() as connection:
        rows, count = await catalogue.events(
            connection,
            before=end,
            after=begin,
            ascending=sortDirection is Direction.ASC,
            limit=limit,
            offset=offset,
        )
    answer = {"totalCount": count, "events": [told(row) for row in rows]}
    return json_response(cut(answer, "events", limit, short))


class Period(StrEnum):
    """Over which time to count."""

    DAY = "DAY"
    WEEK = "WEEK"


PeriodParam = Annotated[Period | None, Query()]
Zone = Annotated[str | None, Query(description="Needed for WEEK, such as `Europe/Berlin`.")]


def _period(period: Period | None, zone: str | None) -> str | None:
    if period is None:
        raise refused(400, "Invalid period", "query param period must not be null")
    if period is Period.WEEK and zone is None:
        return None
    try:
        zoneinfo.ZoneInfo(zone or "UTC")
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise bad_fields(
            "query param timezone must be the name of a time zone", status=400
        ) from None
    return zone or "UTC"


@router.get("/stats/lineage-events", response_model=list[shapes.EventCount])
async def count_events(
    request: Request, period: PeriodParam = None, timezone: Zone = None
) -> Response:
    """Events by type, hour by hour or day by day."""
    zone = _period(period, timezone)
    if zone is None or period is None:
        return json_response([])
    async with service_of(request).question() as connection:
        return json_response(await stats.lineage_events(connection, period, zone))


async def _count(request: Request, kind: str, period: Period | None, zone: str | None) -> Response:
    known = _period(period, zone)
    if known is None or period is None:
        return json_response([])
    async with service_of(request).question() as connection:
        return json_response(await stats.things(connection, kind, period, known))


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
