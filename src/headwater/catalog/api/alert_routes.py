"""How the service and what it watches stand: metrics, their history, alerts and incidents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from headwater.catalog.alerting.service_metrics import now_json
from headwater.catalog.api import alert_schemas as watch_shapes
from headwater.catalog.api.params import Limit
from headwater.catalog.api.problems import json_response
from headwater.catalog.api.responses import list_response
from headwater.catalog.api.service import service_of
from headwater.catalog.metrics.prometheus import CONTENT_TYPE, exposition
from headwater.catalog.store import incidents, points
from headwater.catalog.store.pool import Connection
from headwater.catalog.store.values import Json

router = APIRouter(prefix="/api/v1", tags=["metrics and alerts"])
plain_router = APIRouter()

_MAX_HOURS = int(points.KEPT / timedelta(hours=1))
Hours = Annotated[float, Query(gt=0, le=_MAX_HOURS, description="How far to look back.")]


@plain_router.get("/metrics", include_in_schema=False)
async def prometheus(request: Request) -> Response:
    """All figures in Prometheus' text form."""
    figures = await service_of(request).figures.service_figures()
    return Response(exposition(figures), media_type=CONTENT_TYPE)


@router.get("/metrics/now", response_model=watch_shapes.MetricsNow)
async def metrics_now(request: Request) -> Response:
    """The figures of this moment."""
    service = service_of(request)
    return json_response(now_json(await service.figures.measures(), service.figures.pace))


@router.get("/metrics/history", response_model=watch_shapes.MetricsHistory)
async def metrics_history(request: Request, hours: Hours = 24) -> Response:
    """A point a minute, oldest first; over more than a day fewer."""
    now = datetime.now(UTC)
    async with service_of(request).question() as connection:
        found = await points.history(connection, now - timedelta(hours=hours), now)
    return json_response({"points": found})


@router.get("/alerts", response_model=watch_shapes.Alerts)
async def list_alerts(request: Request, limit: Limit = 100) -> Response:
    """Each alert of the rules file, and each job or dataset for which one is not ok; the worst
    first, and how many stand how."""
    return await list_response(request, "alerts", limit, incidents.alerts_json)


@router.get("/alerts/incidents", response_model=watch_shapes.Incidents)
async def list_incidents(request: Request, limit: Limit = 100) -> Response:
    """The latest incidents, newest first."""

    async def fetch(connection: Connection, most: int) -> Json:
        return {"incidents": await incidents.incidents_json(connection, most)}

    return await list_response(request, "incidents", limit, fetch)
