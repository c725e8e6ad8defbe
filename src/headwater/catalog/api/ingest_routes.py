"""Events come in: one by one, or many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headwater.catalog.api import openapi as documented
from headwater.catalog.api import schemas as shapes
from headwater.catalog.api.bodies import read_body, require_type
from headwater.catalog.api.guard import Caller, authorise
from headwater.catalog.api.problems import ApiError, json_response, refused
from headwater.catalog.api.service import Service, service_of
from headwater.catalog.ingest import BadEventError, Event, parse_json, read_event
from headwater.catalog.ingest.json_text import json_text
from headwater.catalog.store import runs

router = APIRouter(prefix="/api/v1", tags=["lineage"])
Who = Annotated[Caller, Depends(authorise)]

# One transaction of a batch: its statements stay well below the time that a query may take.
_TOGETHER = 200
_JSON = ("application/json", "application/x-ndjson", "application/ndjson")
# Reading a large event takes long enough for others to notice: a thread does it.
_LARGE = 256 * 1024
_MAX_SHOWN = 1000

# An event as it was sent, with its text.
Item = tuple[Event, str]


@router.post("/lineage", status_code=201, openapi_extra=documented.EVENT)
async def post_event(request: Request, caller: Who) -> Response:
    """Take one OpenLineage event: a RunEvent, JobEvent or DatasetEvent.

    It is on disk, with all that follows from it, when the answer comes. The same event again
    changes nothing.
    """
    service = service_of(request)
    require_type(request, "application/json")
    body = await read_body(request, service.settings)
    if len(body) < _LARGE:
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
    response_model=shapes.BatchAnswer,
    openapi_extra=documented.EVENTS,
)
async def post_events(request: Request, caller: Who) -> Response:
    """Take many events: a JSON array, or one event a line (`application/x-ndjson`).

    Good events are stored; the answer names the others by their position. 201 if all were good,
    207 if some were, 422 if none was.
    """
    service = service_of(request)
    kind = require_type(request, *_JSON)
    body = await read_body(request, service.settings)
    values = _lines(body, service) if "ndjson" in kind else _array(body, service)
    failed: list[dict[str, Any]] = []
    for start in range(0, len(values), _TOGETHER):
        # In a thread: a batch of many megabytes must not keep others from being answered.
        some = enumerate(values[start : start + _TOGETHER], start)
        good, bad = await asyncio.to_thread(_read_all, list(some), service)
        failed += bad
        problems = await _not_allowed(service, caller, [item for _, item in good])
        failed += [_failure(good[i][0], problem) for i, problem in problems.items()]
        await service.writer.store([item for i, (_, item) in enumerate(good) if i not in problems])
    failed.sort(key=lambda each: each["index"])
    return _batch_answer(len(values), failed)


def _batch_answer(received: int, failed: list[dict[str, Any]]) -> Response:
    good = received - len(failed)
    status = "success" if not failed else "partial_success" if good else "failure"
    summary = {
        "received": received,
        "successful": good,
        "failed": len(failed),
        "retriable": 0,
        "non_retriable": len(failed),
    }
    codes = {"success": 201, "partial_success": 207, "failure": 422}
    answer: dict[str, Any] = {
        "status": status,
        "summary": summary,
        "failed_events": failed[:_MAX_SHOWN],
    }
    if status == "failure":
        answer |= {"code": 422, "message": "no event could be taken"}
        answer["errors"] = [f"[{each['index']}] {each['reason']}" for each in failed[:20]]
    return json_response(answer, codes[status])


def _read(value: Any, service: Service) -> Item:
    if isinstance(value, bytes):
        parsed = parse_json(value, service.settings.max_depth)
        return read_event(parsed), value.decode()
    return read_event(value), json_text(value)


def _read_all(
    values: list[tuple[int, Any]], service: Service
) -> tuple[list[tuple[int, Item]], list[dict[str, Any]]]:
    good: list[tuple[int, Item]] = []
    bad: list[dict[str, Any]] = []
    for index, value in values:
        try:
            good.append((index, _read(value, service)))
        except BadEventError as problem:
            bad.append(_failure(index, problem))
    return good, bad


def _failure(index: int, problem: Exception) -> dict[str, Any]:
    return {"index": index, "reason": str(problem), "retriable": False}


async def _not_allowed(
    service: Service, caller: Caller, items: Sequence[Item]
) -> dict[int, ApiError]:
    """By position, what a limited key may not send: other namespaces' events, and their runs.

    A run's id is no secret: under it, an event of one namespace could end a run of another.
    """
    if caller.namespace is None:
        return {}
    ids = {event.run_id for event, _ in items if event.run_id}
    async with service.question() as connection:
        foreign = await runs.of_other_namespaces(connection, ids, caller.namespace)
    found: dict[int, ApiError] = {}
    for i, (event, _) in enumerate(items):
        if event.namespace != caller.namespace or event.run_id in foreign:
            found[i] = caller.outside()
    return found


def _lines(body: bytes, service: Service) -> list[Any]:
    _check_count(body.count(b"\n"), service)
    return [line for line in body.split(b"\n") if line.strip()]


def _array(body: bytes, service: Service) -> list[Any]:
    # One level more: the array itself.
    values = parse_json(body, service.settings.max_depth + 1)
    if not isinstance(values, list):
        raise BadEventError("body must be a JSON array of events", status=400)
    _check_count(len(values), service)
    return values


def _check_count(count: int, service: Service) -> None:
    most = service.settings.max_batch_events
    if count > most:
        raise refused(413, f"a batch may have at most {most} events")
