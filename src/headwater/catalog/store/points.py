"""History of the metrics: one point per minute, kept for a week."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from headwater.catalog.metrics.values import CatalogMetrics
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, to_rfc3339

# The maximum number of points of a response is a day in minutes.
KEPT = timedelta(days=7)
MAX_POINTS = 1440
# The time that typical values are computed from: long enough for the daily pattern.
_TYPICAL = timedelta(days=1)
_MIN_POINTS = 10

_TYPICAL_VALUES = """
SELECT count(*) AS n,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY (figures->>'lag')::float8) AS lag,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY (figures->>'recordCoverage')::float8) AS coverage
FROM metric_points WHERE at > %s
"""

_RECORD = """
INSERT INTO metric_points (at, events, figures) VALUES (%s, %s, %s)
ON CONFLICT (at) DO UPDATE SET events = metric_points.events + excluded.events,
    figures = coalesce(metric_points.figures, excluded.figures)
"""

# Per interval, the last metrics and the sum of the events.
_POINTS = """
SELECT max(at) AS at, sum(events)::bigint AS events,
    (array_agg(figures ORDER BY at DESC) FILTER (WHERE figures IS NOT NULL))[1] AS metrics
FROM metric_points WHERE at > %(since)s
GROUP BY floor(extract(epoch FROM at) / %(step)s) ORDER BY 1
"""


async def record_point(
    connection: AsyncConnection[Any], metrics: CatalogMetrics, *, events: int, open_alerts: int
) -> None:
    """Record the metrics of this minute, add the stored events, and delete old points."""
    minute = metrics.at.replace(second=0, microsecond=0)
    values = {
        "jobSuccessRatio": metrics.success_ratio,
        "jobCoverage": metrics.job_coverage,
        "recordCoverage": metrics.record_coverage,
        "datasets": metrics.datasets,
        "jobs": metrics.jobs,
        "runsByState": metrics.runs,
        "openAlerts": open_alerts,
        "lag": metrics.consumer_lag,
        "stalestSeconds": metrics.stalest_seconds,
    }
    await connection.execute(_RECORD, (minute, events, Jsonb(values)))
    await connection.execute("DELETE FROM metric_points WHERE at < %s", (minute - KEPT,))


async def history(connection: AsyncConnection[Any], since: datetime, now: datetime) -> list[Json]:
    """Points since a time, oldest first; over a long time, one point per several minutes."""
    minutes = max(1.0, (now - since).total_seconds() / 60)
    step = 60 * max(1, -(-int(minutes) // MAX_POINTS))
    rows = await fetch(connection, _POINTS, {"since": since, "step": step})
    return [_point(row) for row in rows[-MAX_POINTS:]]


def _point(row: Json) -> Json:
    metrics = row["metrics"] or {}
    return {
        "at": to_rfc3339(row["at"]),
        "jobSuccessRatio": metrics.get("jobSuccessRatio"),
        "lineageCoverageRatio": {
            "jobs": metrics.get("jobCoverage"),
            "records": metrics.get("recordCoverage"),
        },
        "datasets": metrics.get("datasets"),
        "jobs": metrics.get("jobs"),
        "events": row["events"],
        "runsByState": metrics.get("runsByState"),
        "openAlerts": metrics.get("openAlerts"),
        "lag": metrics.get("lag"),
        "stalestSeconds": metrics.get("stalestSeconds"),
    }


async def typical(connection: AsyncConnection[Any], now: datetime) -> dict[str, float]:
    """Medians of the last day; empty if there are too few points."""
    (row,) = await fetch(connection, _TYPICAL_VALUES, (now - _TYPICAL,))
    if row["n"] < _MIN_POINTS:
        return {}
    return {name: row[name] for name in ("lag", "coverage") if row[name] is not None}
