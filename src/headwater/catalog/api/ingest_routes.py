"""Ingest of OpenLineage events, single or in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi, schemas
from headwater.catalog.api.bodies import read_body, require_type
from headwater.catalog.api.guard import Caller, authorise
from headwater.catalog.api.problems import ApiError, json_response, refused
from headwater.catalog.api.service import CatalogService, service_of
from headwater.catalog.ingest import BadEventError, Event, parse_json, read_event
from headwater.catalog.ingest.json_text import json_text
from headwater.catalog.store import runs

router = APIRouter(prefix="/api/v1", tags=["lineage"])
AuthorizedCaller = Annotated[Caller, Depends(authorise)]

# Events per transaction of a batch: its statements stay well below the query timeout.
_EVENTS_PER_TRANSACTION = 200
_JSON = ("application/json", "application/x-ndjson", "application/ndjson")
# Larger events are parsed in a thread: on the event loop they would delay other requests.
_LARGE_BYTES = 256 * 1024
_MAX_FAILURES_SHOWN = 1000

# An event and its original text.
Item = tuple[Event, str]


@router.post("/lineage", status_code=201, openapi_extra=openapi.EVENT)
async def post_event(request: Request, caller: AuthorizedCaller) -> Response:
    """Store one OpenLineage event: a RunEvent, JobEvent or DatasetEvent.

    The event and everything derived from it are committed before the response. Sending the same
    event again changes nothing.
    """
    service = service_of(request)
    require_type(request, "application/json")
    body = await read_body(request, service.settings)
    if len(body) < _LARGE_BYTES:
        item = _read(body, service)
    else:
        item = await asyncio.to_thread(_read, body, service)
    for problem in (await _not_allowed(service, caller, [item])).values():
        raise problem
    await service.writer.store([item])
    return Response(status_code=201)


@router.post(
    "/lineage/batch",
    status_code=201,
    response_model=schemas.BatchAnswer,
    openapi_extra=openapi.EVENTS,
)
async def post_events(request: Request, caller: AuthorizedCaller) -> Response:
    """Store many events: a JSON array, or one event per line (`application/x-ndjson`).

    Valid events are stored; the response lists the invalid ones by position. 201 if all are valid,
    207 if some are, 422 if none is.
    """
    service = service_of(request)
    kind = require_type(request, *_JSON)
    body = await read_body(request, service.settings)
    values = _lines(body, service) if "ndjson" in kind else _array(body, service)
    failed: list[dict[str, Any]] = []
    for start in range(0, len(values), _EVENTS_PER_TRANSACTION):
        # In a thread: parsing many megabytes would block the event loop.
        chunk = enumerate(values[start : start + _EVENTS_PER_TRANSACTION], start)
        valid, invalid = await asyncio.to_thread(_read_all, list(chunk), service)
        failed += invalid
        problems = await _not_allowed(service, caller, [item for _, item in valid])
        failed += [_failure(valid[i][0], problem) for i, problem in problems.items()]
        await service.writer.store([item for i, (_, item) in enumerate(valid) if i not in problems])
    failed.sort(key=lambda each: each["index"])
    return _batch_response(len(values), failed)


def _batch_response(received: int, failed: list[dict[str, Any]]) -> Response:
    stored = received - len(failed)
    status = "success" if not failed else "partial_success" if stored else "failure"
    summary = {
        "received": received,
        "successful": stored,
        "failed": len(failed),
        "retriable": 0,
        "non_retriable": len(failed),
    }
    codes = {"success": 201, "partial_success": 207, "failure": 422}
    body: dict[str, Any] = {
        "status": status,
        "summary": summary,
        "failed_events": failed[:_MAX_FAILURES_SHOWN],
    }
    if status == "failure":
        body |= {"code": 422, "message": "no event was accepted"}
        body["errors"] = [f"[{each['index']}] {each['reason']}" for each in failed[:20]]
    return json_response(body, codes[status])


def _read(value: Any, service: CatalogService) -> Item:
    if isinstance(value, bytes):
        parsed = parse_json(value, service.settings.max_depth)
        return read_event(parsed), value.decode()
    return read_event(value), json_text(value)


def _read_all(
    values: list[tuple[int, Any]], service: CatalogService
) -> tuple[list[tuple[int, Item]], list[dict[str, Any]]]:
    valid: list[tuple[int, Item]] = []
    invalid: list[dict[str, Any]] = []
    for index, value in values:
        try:
            valid.append((index, _read(value, service)))
        except BadEventError as problem:
            invalid.append(_failure(index, problem))
    return valid, invalid


def _failure(index: int, problem: Exception) -> dict[str, Any]:
    return {"index": index, "reason": str(problem), "retriable": False}


async def _not_allowed(
    service: CatalogService, caller: Caller, items: Sequence[Item]
) -> dict[int, ApiError]:
    """Errors by position for events that a limited key may not send: of other namespaces or runs.

    Run ids are not secret: without this check an event of one namespace could end a run of another.
    """
    if caller.namespace is None:
        return {}
    ids = {event.run_id for event, _ in items if event.run_id}
    async with service.query_connection() as connection:
        foreign = await runs.of_other_namespaces(connection, ids, caller.namespace)
    return {
        i: caller.outside()
        for i, (event, _) in enumerate(items)
        if event.namespace != caller.namespace or event.run_id in foreign
    }


def _lines(body: bytes, service: CatalogService) -> list[Any]:
    _check_count(body.count(b"\n"), service)
    return [line for line in body.split(b"\n") if line.strip()]


def _array(body: bytes, service: CatalogService) -> list[Any]:
    # The array itself is one more level.
    values = parse_json(body, service.settings.max_depth + 1)
    if not isinstance(values, list):
        raise BadEventError("body must be a JSON array of events", status=400)
    _check_count(len(values), service)
    return values


def _check_count(count: int, service: CatalogService) -> None:
    max_events = service.settings.max_batch_events
    if count > max_events:
        raise refused(413, f"a batch may have at most {max_events} events")
