"""What routes share: how things are found, and how lists are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from fastapi import Request
from fastapi.responses import Response

from headwater.catalog.api.guard import caller_of
from headwater.catalog.api.problems import bad_fields, json_response, not_found
from headwater.catalog.api.service import service_of
from headwater.catalog.store import datasets, jobs, runs
from headwater.catalog.store import namespaces as catalogue
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json, Row

MAX_TAG_CHARACTERS = 255

# Asks for at most so many entries.
Fetch = Callable[[Connection, int], Awaitable[Json]]


async def list_response(request: Request, name: str, limit: int, fetch: Fetch) -> Response:
    """A list; one that the service's own limit has cut says `truncated`."""
    service = service_of(request)
    limit, short = service.rows(limit)
    async with service.question() as connection:
        answer: dict[str, Any] = await fetch(connection, limit)
    if short and len(answer[name]) >= limit:
        answer["truncated"] = True
    return json_response(answer)


async def require_namespace(connection: Connection, name: str) -> None:
    if await catalogue.namespace(connection, name) is None:
        raise not_found("Namespace", name)


async def find_job(connection: Connection, namespace: str, name: str) -> Row:
    row = await jobs.by_name(connection, namespace, name)
    if row is None:
        await require_namespace(connection, namespace)
        raise not_found("Job", name)
    return row


async def job_response(connection: Connection, namespace: str, name: str) -> Response:
    row = await find_job(connection, namespace, name)
    return json_response((await jobs.shaped(connection, [row]))[0])


async def find_dataset(request: Request, connection: Connection, namespace: str, name: str) -> Row:
    """A dataset by its name, by another name of it, or by a job's namespace.

    Such a name may lead out of the namespace that the path gives: to where a limited key, which
    could have made up the name, has no business.
    """
    row = await datasets.by_name(connection, namespace, name)
    if row is None:
        await require_namespace(connection, namespace)
        raise not_found("Dataset", name)
    caller_of(request).require_namespace(row["namespace"])
    return row


async def dataset_response(
    request: Request, connection: Connection, namespace: str, name: str
) -> Response:
    row = await find_dataset(request, connection, namespace, name)
    return json_response((await datasets.shaped(connection, [row]))[0])


async def find_run(connection: Connection, run: UUID) -> tuple[Row, Json]:
    """The row of a run, and the run as it is shown."""
    rows = await runs.rows_by_id(connection, [run])
    if not rows:
        raise not_found("Run", run)
    return rows[0], (await runs.shaped(connection, rows))[run]


def tag_name(name: str) -> str:
    if len(name) > MAX_TAG_CHARACTERS:
        raise bad_fields(f"a tag must have at most {MAX_TAG_CHARACTERS} characters", status=400)
    return name
