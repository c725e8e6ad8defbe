"""Metrics, their history, alerts and incidents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel

from headwater.catalog.alerting.service_metrics import metrics_json
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
Hours = Annotated[float, Query(gt=0, le=_MAX_HOURS, description="Length of the period.")]


AlertState = Literal["ok", "pending", "firing", "no data", "error"]


class Freshness(BaseModel):
    namespace: str
    name: str
    seconds: float


class Coverage(BaseModel):
    jobs: float | None
    records: float | None


class Quantiles(BaseModel):
    p50: float | None
    p99: float | None


class MetricsNow(BaseModel):
    at: str
    jobSuccessRatio: float | None
    recentJobSuccessRatio: float | None
    lineageCoverageRatio: Coverage
    jobsWithoutLineage: int
    datasetFreshnessSeconds: list[Freshness]
    stalestOtherSeconds: float | None
    datasets: int
    jobs: int
    runsByState: dict[str, int]
    consumerLag: int | None
    lateRecords: int
    deadLettered: int
    orderViolations: int
    eventsPerSecond: float
    ingestSeconds: Quantiles


class MetricsPoint(BaseModel):
    at: str
    jobSuccessRatio: float | None
    lineageCoverageRatio: Coverage
    datasets: int | None
    jobs: int | None
    events: int
    runsByState: dict[str, int] | None
    openAlerts: int | None
    lag: int | None
    stalestSeconds: float | None


class MetricsHistory(BaseModel):
    points: list[MetricsPoint]


class Alert(BaseModel):
    name: str
    state: AlertState
    severity: str | None
    summary: str | None
    condition: str | None
    runbook: str | None
    channels: list[str]
    since: str
    value: str | None
    subject: str | None
    downstream: list[str]
    downstreamCount: int
    problem: str | None
    withoutData: int
    heldBack: int


class Alerts(BaseModel):
    alerts: list[Alert]
    totalCount: int
    states: dict[AlertState, int]
    truncated: bool | None = None


class Incident(BaseModel):
    id: str
    alert: str
    subject: str | None
    state: Literal["open", "ended"]
    startedAt: str
    endedAt: str | None
    severity: str
    message: str
    value: str | None
    downstream: list[str]
    downstreamCount: int


class Incidents(BaseModel):
    incidents: list[Incident]
    truncated: bool | None = None


@plain_router.get("/metrics", include_in_schema=False)
async def prometheus(request: Request) -> Response:
    """All metrics in the Prometheus text format."""
    service = service_of(request)
    ready = await service.readiness.problem() is None
    snapshot = await service.metrics.snapshot(ready=ready)
    return Response(exposition(snapshot), media_type=CONTENT_TYPE)


@router.get("/metrics/now", response_model=MetricsNow)
async def metrics_now(request: Request) -> Response:
    """Current metrics."""
    service = service_of(request)
    return json_response(metrics_json(await service.metrics.current(), service.metrics.ingest))


@router.get("/metrics/history", response_model=MetricsHistory)
async def metrics_history(request: Request, hours: Hours = 24) -> Response:
    """One point per minute, oldest first; fewer if the period is longer than a day."""
    now = datetime.now(UTC)
    async with service_of(request).query_connection() as connection:
        history = await points.history(connection, now - timedelta(hours=hours), now)
    return json_response({"points": history})


@router.get("/alerts", response_model=Alerts)
async def list_alerts(request: Request, limit: Limit = 100) -> Response:
    """Every alert of the rules file, and every job or dataset for which one is not ok, the most
    severe first; with counts by state."""
    return await list_response(request, "alerts", limit, incidents.alerts_json)


@router.get("/alerts/incidents", response_model=Incidents)
async def list_incidents(request: Request, limit: Limit = 100) -> Response:
    """The latest incidents, newest first."""

    async def fetch(connection: Connection, max_rows: int) -> Json:
        return {"incidents": await incidents.incidents_json(connection, max_rows)}

    return await list_response(request, "incidents", limit, fetch)
