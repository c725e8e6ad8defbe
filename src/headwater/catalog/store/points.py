"""The figures over time: a point a minute, bounded by age."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from headwater.catalog.metrics.values import Measures
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.values import Json, to_rfc3339

# A week in minutes, and the most points that a question gets: a day in minutes.
KEPT = timedelta(days=7)
MAX_POINTS = 1440
# Over what the typical value of a figure is taken: long enough for a day's rhythm.
_TYPICAL = timedelta(days=1)
_FEWEST = 10

_TYPICAL_VALUES = """
SELECT count(*) AS n,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY (figures->>'lag')::float8) AS lag,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY (figures->>'recordCoverage')::float8) AS coverage
FROM metric_points WHERE at > %s
"""

_KEEP = """
INSERT INTO metric_points (at, events, figures) VALUES (%s, %s, %s)
ON CONFLICT (at) DO UPDATE SET events = metric_points.events + excluded.events,
    figures = coalesce(metric_points.figures, excluded.figures)
"""

# Each of as many spans as points are wanted gives its last point, and the sum of its events.
_POINTS = """
SELECT max(at) AS at, sum(events)::bigint AS events,
    (array_agg(figures ORDER BY at DESC) FILTER (WHERE figures IS NOT NULL))[1] AS figures
FROM metric_points WHERE at > %(since)s
GROUP BY floor(extract(epoch FROM at) / %(step)s) ORDER BY 1
"""


async def keep_point(
    connection: AsyncConnection[Any], measures: Measures, *, events: int, open_alerts: int
) -> None:
    """Note the figures of this minute and add the events that were stored; drop old points."""
    minute = measures.at.replace(second=0, microsecond=0)
    figures = {
        "jobSuccessRatio": measures.success_ratio,
        "jobCoverage": measures.job_coverage,
        "recordCoverage": measures.record_coverage,
        "datasets": measures.datasets,
        "jobs": measures.jobs,
        "runsByState": measures.runs,
        "openAlerts": open_alerts,
        "lag": measures.consumer_lag,
        "stalestSeconds": measures.stalest_seconds,
    }
    await connection.execute(_KEEP, (minute, events, Jsonb(figures)))
    await connection.execute("DELETE FROM metric_points WHERE at < %s", (minute - KEPT,))


async def history(connection: AsyncConnection[Any], since: datetime, now: datetime) -> list[Json]:
    """Points since a moment, oldest first; of a long time, every so many minutes one."""
    minutes = max(1.0, (now - since).total_seconds() / 60)
    step = 60 * max(1, -(-int(minutes) // MAX_POINTS))
    rows = await fetch(connection, _POINTS, {"since": since, "step": step})
    return [_point(row) for row in rows[-MAX_POINTS:]]


def _point(row: Json) -> Json:
    figures = row["figures"] or {}
    return {
        "at": to_rfc3339(row["at"]),
        "jobSuccessRatio": figures.get("jobSuccessRatio"),
        "lineageCoverageRatio": {
            "jobs": figures.get("jobCoverage"),
            "records": figures.get("recordCoverage"),
        },
        "datasets": figures.get("datasets"),
        "jobs": figures.get("jobs"),
        "events": row["events"],
        "runsByState": figures.get("runsByState"),
        "openAlerts": figures.get("openAlerts"),
        "lag": figures.get("lag"),
        "stalestSeconds": figures.get("stalestSeconds"),
    }


async def typical(connection: AsyncConnection[Any], now: datetime) -> dict[str, float]:
    """Medians of the last day, where there are points enough to speak of any."""
    (row,) = await fetch(connection, _TYPICAL_VALUES, (now - _TYPICAL,))
    if row["n"] < _FEWEST:
        return {}
    return {name: row[name] for name in ("lag", "coverage") if row[name] is not None}
