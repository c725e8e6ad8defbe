"""Health of the service, for people and for the probes of load balancers. None needs a key."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from headwater.catalog.api import schemas
from headwater.catalog.api.problems import json_response, problem_response
from headwater.catalog.api.service import service_of
from headwater.catalog.store.pool import ping
from headwater.catalog.version import VERSION
from headwater.errors import HeadwaterError

router = APIRouter(prefix="/api/v1/health", tags=["catalog"])


@router.get("", response_model=schemas.Health)
async def get_health(request: Request) -> Response:
    """Health of the service and its database; needs no key."""
    try:
        async with service_of(request).pool.connection() as connection:
            await ping(connection)
    except HeadwaterError:
        down = {"status": "unavailable", "version": VERSION, "database": "unreachable"}
        return json_response(
            {"code": 503, "message": "the catalog's database does not respond", **down}, 503
        )
    return json_response({"status": "healthy", "version": VERSION, "database": "reachable"})


@router.get("/live", response_model=schemas.Probe)
async def get_liveness() -> Response:
    """Whether the process responds; needs neither a key nor the database."""
    return json_response({"status": "alive", "version": VERSION})


@router.get("/ready", response_model=schemas.Probe)
async def get_readiness(request: Request) -> Response:
    """Whether the service can store events: 503 if its database does not respond or has another
    schema, or if the service is stopping; needs no key."""
    problem = await service_of(request).readiness.problem()
    if problem is not None:
        return problem_response(503, problem)
    return json_response({"status": "ready", "version": VERSION})
