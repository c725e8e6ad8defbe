"""Errors of the API: one JSON shape, with the status codes of Marquez.

    {"code": 404, "message": "Job 'nope' not found."}
    {"code": 422, "message": "…", "errors": ["run.runId must not be null"]}

`errors` lists invalid fields. No response contains a stack trace, SQL or an address.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from headwater.catalog.ingest import BadEventError
from headwater.errors import (
    DatabaseUnavailableError,
    HeadwaterError,
    QueryTimeoutError,
    SchemaMismatchError,
    TooBusyError,
)

_LOG = logging.getLogger("headwater.catalog")


class ApiError(HeadwaterError):
    """An HTTP error response."""

    status: int = 400
    errors: Sequence[str] = ()
    headers: dict[str, str] | None = None


def refused(
    status: int, message: str, *errors: str, headers: dict[str, str] | None = None
) -> ApiError:
    """An error response with this status; `errors` list invalid fields."""
    return ApiError(message, status=status, errors=errors, headers=headers)


def not_found(what: str, name: object) -> ApiError:
    return refused(404, f"{what} '{name}' not found.")


def bad_fields(*errors: str, status: int = 422) -> ApiError:
    return refused(status, "; ".join(errors), *errors)


def json_response(value: Any, status: int = 200) -> Response:
    """A JSON response, serialized once and without response models."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def problem_response(
    status: int, message: str, errors: Any = (), headers: dict[str, str] | None = None
) -> Response:
    body: dict[str, Any] = {"code": status, "message": message}
    if errors:
        body["errors"] = list(errors)
    response = json_response(body, status)
    response.headers.update(headers or {})
    return response


def install(app: FastAPI) -> None:
    """Register handlers that give every error the same JSON shape."""

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return problem_response(error.status, error.message, error.errors, error.headers)

    @app.exception_handler(BadEventError)
    async def event_problem(request: Request, error: BadEventError) -> Response:
        return problem_response(error.status, str(error), error.errors or [error.message])

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        phrase = {404: "Not Found", 405: "Method Not Allowed"}.get(error.status_code, error.detail)
        headers = dict(error.headers or {})
        message = f"HTTP {error.status_code} {phrase}"
        return problem_response(error.status_code, message, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: Request, error: RequestValidationError) -> Response:
        return _invalid(error.errors())

    @app.exception_handler(HeadwaterError)
    async def headwater_error(request: Request, error: HeadwaterError) -> Response:
        if isinstance(error, TooBusyError | QueryTimeoutError):
            return problem_response(429, error.message, headers={"Retry-After": "1"})
        if isinstance(error, DatabaseUnavailableError | SchemaMismatchError):
            return problem_response(503, error.message, headers={"Retry-After": "2"})
        return _unexpected(error)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return _unexpected(error)


def _unexpected(error: Exception) -> Response:
    _LOG.error("a request failed", exc_info=error)
    return problem_response(500, "There was an error processing your request. It has been logged.")


def _invalid(errors: Any) -> Response:
    """Status codes of Marquez: 404 for an invalid number or id, 400 for one out of range."""
    first = errors[0]
    location, kind = first["loc"][0], first["type"]
    name = first["loc"][-1]
    numbers = ("int_parsing", "int_type", "int_from_float", "int_parsing_size", "less_than_equal")
    if location == "path" or kind in numbers or kind.startswith("uuid"):
        return problem_response(404, "HTTP 404 Not Found")
    if kind == "missing":
        reason = "must not be blank" if name == "q" else "must not be null"
    elif kind == "greater_than_equal":
        reason = f"must be greater than or equal to {first['ctx']['ge']}"
    elif kind in ("enum", "literal_error"):
        expected = str(first["ctx"]["expected"]).replace(" or ", ", ").replace("'", "")
        reason = f"must be one of [{expected}]"
    else:
        reason = first["msg"].removeprefix("Value error, ")
    message = f"query param {name} {reason}"
    return problem_response(400, message, [message])
