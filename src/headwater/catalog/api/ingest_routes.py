"""Events come in: one by one, or many at once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headwater.catalog.api import documented, shapes
from headwater.catalog.api.bodies import read_body, require_type
from headwater.catalog.api.guard import Caller, authorise
from headwater.catalog.api.problems import ApiError, json_response
from headwater.catalog.api.service import Service, service_of
from headwater.catalog.ingest import BadEventError, Event, parse_json, read_event
from headwater.catalog.ingest.json_text import json_text

router = APIRouter(prefix="/api/v1", tags=["lineage"])
Who = Annotated[Caller, Depends(authorise)]

# One transaction of a batch: its statements stay well below the time that a query may take.
_TOGETHER = 200
_JSON = ("application/json", "application/x-ndjson", "application/ndjson")


@router.post("/lineage", status_code=201, openapi_extra=documented.EVENT)
async def post_event(request: Request, caller: Who) -> Response:
    """Take one OpenLineage event: a RunEvent, JobEvent or DatasetEvent.

    It is on disk, with all that follows from it, when the answer comes. The same event again
    changes nothing.
    """
    service = service_of(request)
    require_type(request, "application/json")
    body = await read_body(request, service.settings)
    event = read_event(parse_json(body, service.settings.max_depth))
    caller.require_namespace(event.namespace)
    await service.writer.store([(event, body.decode())])
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
    values = _lines(body) if "ndjson" in kind else _array(body, service.settings.max_depth)
    good: list[tuple[Event, str]] = []
    failed: list[dict[str, Any]] = []
    for index, value in enumerate(values):
        try:
            event, text = _read(value, service)
            caller.require_namespace(event.namespace)
            good.append((event, text))
        except (BadEventError, ApiError) as problem:
            failed.append({"index": index, "reason": str(problem), "retriable": False})
    for start in range(0, len(good), _TOGETHER):
        await service.writer.store(good[start : start + _TOGETHER])
    status = "success" if not failed else "partial_success" if good else "failure"
    summary = {
        "received": len(values),
        "successful": len(good),
        "failed": len(failed),
        "retriable": 0,
        "non_retriable": len(failed),
    }
    codes = {"success": 201, "partial_success": 207, "failure": 422}
    answer: dict[str, Any] = {"status": status, "summary": summary, "failed_events": failed[:1000]}
    if status == "failure":
        answer |= {"code": 422, "message": "no event could be taken"}
        answer["errors"] = [f"[{each['index']}] {each['reason']}" for each in failed[:20]]
    return json_response(answer, codes[status])


def _read(value: Any, service: Service) -> tuple[Event, str]:
    if isinstance(value, bytes):
        parsed = parse_json(value, service.settings.max_depth)
        return read_event(parsed), value.decode()
    return read_event(value), json_text(value)


def _lines(body: bytes) -> list[Any]:
    return [line for line in body.split(b"\n") if line.strip()]


def _array(body: bytes, max_depth: int) -> list[Any]:
    # One level more: the array itself.
    values = parse_json(body, max_depth + 1)
    if not isinstance(values, list):
        raise BadEventError("body must be a JSON array of events", status=400)
    return values
