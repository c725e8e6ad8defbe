"""Namespaces, sources and tags."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi, schemas
from headwater.catalog.api.bodies import Fields
from headwater.catalog.api.params import Limit, NameInPath, Offset
from headwater.catalog.api.problems import json_response, not_found, refused
from headwater.catalog.api.responses import granted_to, list_response, tag_name
from headwater.catalog.api.service import CatalogService, service_of
from headwater.catalog.store import edits, namespaces
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json

router = APIRouter(prefix="/api/v1", tags=["catalog"])


@router.get("/namespaces", response_model=schemas.Namespaces)
async def list_namespaces(request: Request, limit: Limit = 100, offset: Offset = 0) -> Response:
    """All namespaces by name."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        return {"namespaces": await namespaces.namespaces(connection, max_rows, offset)}

    return await list_response(request, "namespaces", limit, fetch)


@router.get("/namespaces/{namespace}", response_model=schemas.Namespace)
async def get_namespace(request: Request, namespace: NameInPath) -> Response:
    """One namespace."""
    return json_response(await _namespace(service_of(request), namespace))


async def _namespace(service: CatalogService, name: str) -> dict[str, Any]:
    async with service.query_connection() as connection:
        namespace = await namespaces.namespace(connection, name)
    if namespace is None:
        raise not_found("Namespace", name)
    return namespace


@router.put(
    "/namespaces/{namespace}", response_model=schemas.Namespace, openapi_extra=openapi.NAMESPACE
)
async def put_namespace(request: Request, namespace: NameInPath) -> Response:
    """Create or update a namespace."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    owner, description = fields.text("ownerName"), fields.text("description")
    fields.done()
    if not set(namespace) <= _NAME_CHARACTERS and not namespace.isalnum():
        raise refused(404, "HTTP 404 Not Found")
    async with service.query_connection() as connection:
        await edits.put_namespace(connection, namespace, owner, description)
    return json_response(await _namespace(service, namespace))


# Characters allowed in the name of a namespace that is created by PUT: those that Marquez allows,
# and those that occur in URLs.
_NAME_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:;/@+=?&%,'()"
)


@router.delete("/namespaces/{namespace}", response_model=schemas.Namespace)
async def delete_namespace(request: Request, namespace: NameInPath) -> Response:
    """Delete a namespace with its jobs and datasets; new events restore it."""
    service = service_of(request)
    deleted = await _namespace(service, namespace)
    async with service.query_connection() as connection:
        await edits.hide_namespace(connection, namespace, granted_to(request))
    return json_response(deleted)


@router.get("/sources", response_model=schemas.Sources)
async def list_sources(request: Request, limit: Limit = 100, offset: Offset = 0) -> Response:
    """All sources by name."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        return {"sources": await namespaces.sources(connection, max_rows, offset)}

    return await list_response(request, "sources", limit, fetch)


@router.get("/sources/{source}", response_model=schemas.Source)
async def get_source(request: Request, source: NameInPath) -> Response:
    """One source."""
    async with service_of(request).query_connection() as connection:
        row = await namespaces.source(connection, source)
    if row is None:
        raise not_found("Source", source)
    return json_response(row)


@router.put(
    "/sources/{source}",
    response_model=schemas.Source,
    openapi_extra=openapi.SOURCE,
    deprecated=True,
)
async def put_source(request: Request, source: NameInPath) -> Response:
    """Create or update a source."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    kind, url = fields.name("type"), fields.name("connectionUrl")
    description = fields.text("description")
    fields.done()
    async with service.query_connection() as connection:
        await edits.put_source(connection, source, kind, url, description)
        row = await namespaces.source(connection, source)
    return json_response(row)


@router.get("/tags", response_model=schemas.Tags)
async def list_tags(request: Request, limit: Limit = 100, offset: Offset = 0) -> Response:
    """All tags by name."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        return {"tags": await namespaces.tags(connection, max_rows, offset)}

    return await list_response(request, "tags", limit, fetch)


@router.put("/tags/{name}", response_model=schemas.Tag, openapi_extra=openapi.TAG)
async def put_tag(request: Request, name: NameInPath) -> Response:
    """Create or update a tag; without a description the old one is kept."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    description = fields.text("description")
    fields.done()
    async with service.query_connection() as connection:
        return json_response(await edits.put_tag(connection, tag_name(name), description))
