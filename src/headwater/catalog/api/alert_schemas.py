"""The shapes of answers about metrics and alerts, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

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
