"""Datasets, their versions and tags."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi, schemas
from headwater.catalog.api.bodies import Fields
from headwater.catalog.api.guard import caller_of
from headwater.catalog.api.params import IdInPath, Limit, NameInPath, Offset
from headwater.catalog.api.problems import json_response, not_found, refused
from headwater.catalog.api.responses import (
    dataset_response,
    find_dataset,
    find_own_dataset,
    find_run,
    granted_to,
    list_response,
    require_namespace,
    tag_name,
)
from headwater.catalog.api.service import service_of
from headwater.catalog.store import dataset_versions, datasets, edits, namespaces, quality
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json, Row

router = APIRouter(prefix="/api/v1/namespaces/{namespace}/datasets", tags=["datasets"])
_PATH = "/{dataset}"


@router.get("", response_model=schemas.Datasets)
async def list_datasets(
    request: Request, namespace: NameInPath, limit: Limit = 100, offset: Offset = 0
) -> Response:
    """Datasets of a namespace by name."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        await require_namespace(connection, namespace)
        granted = granted_to(request)
        rows, count = await datasets.page(connection, namespace, max_rows, offset, granted)
        return {"totalCount": count, "datasets": await datasets.shaped(connection, rows)}

    return await list_response(request, "datasets", limit, fetch)


@router.get(_PATH, response_model=schemas.Dataset)
async def get_dataset(request: Request, namespace: NameInPath, dataset: NameInPath) -> Response:
    """A dataset by its name, by a symlink, or by the namespace of a job that uses it."""
    async with service_of(request).query_connection() as connection:
        return await dataset_response(request, connection, namespace, dataset)


@router.put(_PATH, response_model=schemas.Dataset, openapi_extra=openapi.DATASET, deprecated=True)
async def put_dataset(request: Request, namespace: NameInPath, dataset: NameInPath) -> Response:
    """Create or update a dataset."""
    service = service_of(request)
    fields = await Fields.of(request, service.settings)
    body: dict[str, Any] = {
        "type": fields.choice("type", "DB_TABLE", "STREAM"),
        "physicalName": fields.name("physicalName"),
        "sourceName": fields.name("sourceName"),
        "fields": fields.columns("fields"),
        "tags": fields.names("tags"),
        "description": fields.text("description"),
        "schemaLocation": fields.text("schemaLocation"),
        "runId": fields.uuid("runId"),
    }
    fields.done()
    for tags in (body["tags"], *(column["tags"] for column in body["fields"] or [])):
        for tag in tags:
            tag_name(tag)
    async with service.query_connection() as connection:
        await require_namespace(connection, namespace)
        if await namespaces.source(connection, body["sourceName"]) is None:
            raise not_found("Source", body["sourceName"])
        if body["runId"]:
            run, _ = await find_run(connection, body["runId"])
            caller_of(request).require_namespace(run["job_namespace"])
        await edits.put_dataset(connection, (namespace, dataset), body, datetime.now(UTC))
        return await dataset_response(request, connection, namespace, dataset)


@router.delete(_PATH, response_model=schemas.Dataset)
async def delete_dataset(request: Request, namespace: NameInPath, dataset: NameInPath) -> Response:
    """Delete a dataset; a new event about it restores it."""
    async with service_of(request).query_connection() as connection:
        row = await find_own_dataset(request, connection, namespace, dataset)
        (shown,) = await datasets.shaped(connection, [row])
        await edits.hide(connection, "datasets", [row["id"]])
    return json_response(shown)


@router.get(f"{_PATH}/versions", response_model=schemas.DatasetVersions)
async def list_versions(
    request: Request,
    namespace: NameInPath,
    dataset: NameInPath,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Response:
    """Versions of a dataset, newest first."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        row = await find_dataset(request, connection, namespace, dataset)
        versions, count = await dataset_versions.versions(
            connection, row, limit=max_rows, offset=offset, granted=granted_to(request)
        )
        return {"versions": versions, "totalCount": count}

    return await list_response(request, "versions", limit, fetch)


@router.get(f"{_PATH}/versions/{{version}}", response_model=schemas.DatasetVersion)
async def get_version(
    request: Request, namespace: NameInPath, dataset: NameInPath, version: IdInPath
) -> Response:
    """One version of a dataset."""
    async with service_of(request).query_connection() as connection:
        row = await find_dataset(request, connection, namespace, dataset)
        versions, _ = await dataset_versions.versions(
            connection, row, version=version, granted=granted_to(request)
        )
    if not versions:
        raise not_found("Dataset version", version)
    return json_response(versions[0])


@router.get(f"{_PATH}/quality", response_model=schemas.QualityOverTime)
async def get_quality(
    request: Request, namespace: NameInPath, dataset: NameInPath, limit: Limit = 100
) -> Response:
    """Quality metrics and test results over time, newest first.

    `written` is false for those that a run reported on its input, such as the tests of dbt.
    """

    async def fetch(connection: Connection, max_rows: int) -> Json:
        row = await find_dataset(request, connection, namespace, dataset)
        granted = granted_to(request)
        return {"quality": await quality.quality(connection, row["id"], max_rows, granted)}

    return await list_response(request, "quality", limit, fetch)


@router.post(f"{_PATH}/tags/{{tag}}", response_model=schemas.Dataset)
async def tag_dataset(
    request: Request, namespace: NameInPath, dataset: NameInPath, tag: NameInPath
) -> Response:
    """Tag a dataset; an unknown tag is created."""
    async with service_of(request).query_connection() as connection:
        row = await find_dataset(request, connection, namespace, dataset)
        await edits.tag_dataset(connection, row["id"], [("", tag_name(tag))])
        return await dataset_response(request, connection, namespace, dataset)


@router.delete(f"{_PATH}/tags/{{tag}}", response_model=schemas.Dataset)
async def untag_dataset(
    request: Request, namespace: NameInPath, dataset: NameInPath, tag: NameInPath
) -> Response:
    """Remove a tag from a dataset."""
    async with service_of(request).query_connection() as connection:
        row = await find_dataset(request, connection, namespace, dataset)
        await edits.untag_dataset(connection, row["id"], "", tag)
        return await dataset_response(request, connection, namespace, dataset)


async def _find_field(
    request: Request, connection: Connection, namespace: str, name: str, field: str
) -> Row:
    row = await find_dataset(request, connection, namespace, name)
    (shown,) = await datasets.shaped(connection, [row])
    if field not in [each["name"] for each in shown["fields"]]:
        raise refused(404, f"Field '{field}' not found for dataset '{name}'.")
    return row


@router.post(f"{_PATH}/fields/{{field}}/tags/{{tag}}", response_model=schemas.Dataset)
async def tag_field(
    request: Request,
    namespace: NameInPath,
    dataset: NameInPath,
    field: NameInPath,
    tag: NameInPath,
) -> Response:
    """Tag a column; an unknown tag is created. As in Marquez, tags of columns are upper case."""
    async with service_of(request).query_connection() as connection:
        row = await _find_field(request, connection, namespace, dataset, field)
        await edits.tag_dataset(connection, row["id"], [(field, tag_name(tag.upper()))])
        return await dataset_response(request, connection, namespace, dataset)


@router.delete(f"{_PATH}/fields/{{field}}/tags/{{tag}}", response_model=schemas.Dataset)
async def untag_field(
    request: Request,
    namespace: NameInPath,
    dataset: NameInPath,
    field: NameInPath,
    tag: NameInPath,
) -> Response:
    """Remove a tag from a column."""
    async with service_of(request).query_connection() as connection:
        row = await _find_field(request, connection, namespace, dataset, field)
        await edits.untag_dataset(connection, row["id"], field, tag, tag.upper())
        return await dataset_response(request, connection, namespace, dataset)
