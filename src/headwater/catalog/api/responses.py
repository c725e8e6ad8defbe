"""Lookups and responses that several routes share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from fastapi import Request
from fastapi.responses import Response

from headwater.catalog.api.guard import caller_of
from headwater.catalog.api.problems import bad_fields, json_response, not_found, refused
from headwater.catalog.api.service import service_of
from headwater.catalog.store import datasets, jobs, namespaces, runs
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.symlinks import Granted
from headwater.catalog.store.values import Json, Row

MAX_TAG_CHARACTERS = 255

# Fetches at most the given number of entries.
Fetch = Callable[[Connection, int], Awaitable[Json]]


async def list_response(request: Request, name: str, limit: int, fetch: Fetch) -> Response:
    """A list; `truncated` is set if `max_rows` of the settings cut it, or its entries are cut."""
    service = service_of(request)
    limit, capped = service.capped_limit(limit)
    async with service.query_connection() as connection:
        body: dict[str, Any] = await fetch(connection, limit)
    cut = name != "events" and any("truncated" in each for each in body[name])
    if cut or (capped and len(body[name]) >= limit):
        body["truncated"] = True
    return json_response(body)


async def require_namespace(connection: Connection, name: str) -> None:
    if await namespaces.namespace(connection, name) is None:
        raise not_found("Namespace", name)


async def find_job(connection: Connection, namespace: str, name: str) -> Row:
    row = await jobs.by_name(connection, namespace, name)
    if row is None:
        await require_namespace(connection, namespace)
        raise not_found("Job", name)
    return row


def granted_to(request: Request) -> Granted:
    """The namespaces that the client can access; None: all."""
    return caller_of(request).namespaces


async def job_response(
    request: Request, connection: Connection, namespace: str, name: str
) -> Response:
    row = await find_job(connection, namespace, name)
    return json_response((await jobs.shaped(connection, [row], granted_to(request)))[0])


async def find_dataset(request: Request, connection: Connection, namespace: str, name: str) -> Row:
    """A dataset by its name, by a symlink, or by the namespace of a job that uses it.

    The last two may lead to a dataset of another namespace, which a limited key must not access:
    it could have created the job itself.
    """
    row = await datasets.by_name(connection, namespace, name, granted_to(request))
    if row is None:
        await require_namespace(connection, namespace)
        raise not_found("Dataset", name)
    caller_of(request).require_namespace(row["namespace"])
    return row


async def find_own_dataset(
    request: Request, connection: Connection, namespace: str, name: str
) -> Row:
    """A dataset to delete: a limited key must have all of its names, because all are deleted."""
    row = await find_dataset(request, connection, namespace, name)
    granted = granted_to(request)
    if granted is not None and await datasets.has_other_names(connection, row["id"], granted):
        raise refused(403, "this dataset has names in namespaces that this key does not have")
    return row


async def dataset_response(
    request: Request, connection: Connection, namespace: str, name: str
) -> Response:
    row = await find_dataset(request, connection, namespace, name)
    return json_response((await datasets.shaped(connection, [row]))[0])


async def find_run(connection: Connection, run: UUID, granted: Granted = None) -> tuple[Row, Json]:
    """The row of a run, and its JSON."""
    rows = await runs.rows_by_id(connection, [run])
    if not rows:
        raise not_found("Run", run)
    return rows[0], (await runs.shaped(connection, rows, granted))[run]


def tag_name(name: str) -> str:
    if len(name) > MAX_TAG_CHARACTERS:
        raise bad_fields(f"a tag must have at most {MAX_TAG_CHARACTERS} characters", status=400)
    return name
