"""Ingest of OpenLineage events, single or in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi, schemas
from headwater.catalog.api.bodies import read_body, require_type
from headwater.catalog.api.guard import Caller, authorise
from headwater.catalog.api.problems import ApiError, json_response, refused
from headwater.catalog.api.service import CatalogService, service_of
from headwater.catalog.ingest import (
    BadEventError,
    Event,
    Receipt,
    limit_event,
    parse_json,
    read_event,
)
from headwater.catalog.ingest.json_text import array_texts
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
    items, problems = await _limited(service, caller, [item])
    for problem in problems.values():
        raise problem
    await service.writer.store(items)
    return Response(status_code=201)


@router.post(
    "/lineage/batch",
    response_model=schemas.BatchAnswer,
    openapi_extra=openapi.EVENTS,
)
async def post_events(request: Request, caller: AuthorizedCaller) -> Response:
    """Store many events: a JSON array, or one event per line (`application/x-ndjson`).

    Valid events are stored; the response lists the invalid ones by position. 200 if at least one
    event is valid, with `status` `success` or `partial_success`; 422 if none is.
    """
    service = service_of(request)
    kind = require_type(request, *_JSON)
    body = await read_body(request, service.settings)
    values = (
        _lines(body, service)
        if "ndjson" in kind
        else await asyncio.to_thread(_array, body, service)
    )
    failed: list[dict[str, Any]] = []
    for start in range(0, len(values), _EVENTS_PER_TRANSACTION):
        # In a thread: parsing many megabytes would block the event loop.
        chunk = enumerate(values[start : start + _EVENTS_PER_TRANSACTION], start)
        valid, invalid = await asyncio.to_thread(_read_all, list(chunk), service)
        failed += invalid
        items, problems = await _limited(service, caller, [item for _, item in valid])
        failed += [_failure(valid[i][0], problem) for i, problem in problems.items()]
        await service.writer.store(items)
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
    body: dict[str, Any] = {
        "status": status,
        "summary": summary,
        "failed_events": failed[:_MAX_FAILURES_SHOWN],
    }
    if status == "failure":
        body |= {"code": 422, "message": "no event was accepted"}
        body["errors"] = [f"[{each['index']}] {each['reason']}" for each in failed[:20]]
    return json_response(body, 422 if status == "failure" else 200)


def _read(text: bytes, service: CatalogService) -> Item:
    limit = timedelta(seconds=service.settings.max_future_seconds)
    event = read_event(
        parse_json(text, service.settings.max_depth), Receipt(datetime.now(UTC), limit)
    )
    return event, text.decode()


def _read_all(
    values: list[tuple[int, bytes]], service: CatalogService
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


async def _limited(
    service: CatalogService, caller: Caller, items: Sequence[Item]
) -> tuple[list[Item], dict[int, ApiError]]:
    """The events as a limited key may send them, and errors by position for the others.

    Run ids are not secret: without this check an event of one namespace could end a run of another.
    """
    granted = caller.namespaces
    if granted is None:
        return list(items), {}
    ids = {event.run_id for event, _ in items if event.run_id}
    parents = {event.parent.run_id for event, _ in items if event.parent and event.parent.run_id}
    async with service.query_connection() as connection:
        foreign = await runs.of_other_namespaces(connection, ids | parents, granted)
    limited: list[Item] = []
    problems: dict[int, ApiError] = {}
    for i, (event, text) in enumerate(items):
        if event.namespace not in granted:
            problems[i] = caller.outside()
        elif event.run_id is not None and foreign.get(event.run_id):
            reason = f"run {event.run_id} belongs to a job of another namespace"
            problems[i] = refused(409, reason)
        else:
            limited.append((limit_event(event, granted, foreign), text))
    return limited, problems


def _lines(body: bytes, service: CatalogService) -> list[bytes]:
    _check_count(body.count(b"\n"), service)
    return [line for line in body.split(b"\n") if line.strip()]


def _array(body: bytes, service: CatalogService) -> list[bytes]:
    # The array itself is one more level.
    values = parse_json(body, service.settings.max_depth + 1)
    if not isinstance(values, list):
        raise BadEventError("body must be a JSON array of events", status=400)
    _check_count(len(values), service)
    # The texts, not the values: an event is stored as it was sent.
    return [text.encode() for text in array_texts(body)]


def _check_count(count: int, service: CatalogService) -> None:
    max_events = service.settings.max_batch_events
    if count > max_events:
        raise refused(413, f"a batch may have at most {max_events} events")
