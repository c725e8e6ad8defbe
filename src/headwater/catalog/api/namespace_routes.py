"""Namespaces, sources, tags and health."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi as documented
from headwater.catalog.api import schemas as shapes
from headwater.catalog.api.bodies import Fields
from headwater.catalog.api.params import Limit, NameInPath, Offset
from headwater.catalog.api.problems import json_response, not_found, refused
from headwater.catalog.api.responses import list_response, tag_name
from headwater.catalog.api.service import Service, service_of
from headwater.catalog.store import edits
from headwater.catalog.store import namespaces as catalogue
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json
from headwater.catalog.version import VERSION
from headwater.errors import HeadwaterError

router = APIRouter(prefix="/api/v1", tags=["catalog"])


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

    async def fetch(connection: Connection, most: int) -> Json:
        return {"namespaces": await catalogue.namespaces(connection, most, offset)}

    return await list_response(request, "namespaces", limit, fetch)


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


# What may stand in the name of a namespace that is made by hand: all that Marquez takes, and
# marks that are met in addresses.
_NAME_MARKS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:;/@+=?&%,'()"
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

    async def fetch(connection: Connection, most: int) -> Json:
        return {"sources": await catalogue.sources(connection, most, offset)}

    return await list_response(request, "sources", limit, fetch)


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

    async def fetch(connection: Connection, most: int) -> Json:
        return {"tags": await catalogue.tags(connection, most, offset)}

    return await list_response(request, "tags", limit, fetch)


@router.put("/tags/{name}", response_model=shapes.Tag, openapi_extra=documented.TAG)
async def put_tag(request: Request, name: NameInPath) -> Response:
    """Make or change a tag; a description that is not given stays."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    description = fields.text("description")
    fields.done()
    async with service.question() as connection:
        return json_response(await edits.put_tag(connection, tag_name(name), description))
