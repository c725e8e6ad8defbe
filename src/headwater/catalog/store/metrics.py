"""Collects the metrics of the catalog: counts, ratios, freshness and lag.

They are collected by a timer; `/metrics` and the dashboard show the last result.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from psycopg import AsyncConnection

from headwater.catalog.identity import namespace_id
from headwater.catalog.metrics.values import (
    ROW_COVERAGES,
    RUN_STATES,
    CatalogMetrics,
    NamedValue,
)
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.runs import STATE
from headwater.catalog.store.values import Row
from headwater.model import CHECKS_NAMESPACE

# A job is complete if its inputs and outputs are known. Jobs that only start others don't count,
# nor does the job that `headwater doctor` uses for its checks.
_JOBS = """
SELECT count(*) AS jobs, count(*) FILTER (WHERE reads AND writes) AS complete,
    count(*) FILTER (WHERE NOT reads AND NOT writes) AS without
FROM (
    SELECT j.id, coalesce(bool_or(NOT e.output), false) AS reads,
        coalesce(bool_or(e.output), false) AS writes
    FROM jobs j LEFT JOIN edges e ON e.job_id = j.id
    WHERE NOT j.hidden AND j.namespace <> %s GROUP BY j.id
) each
WHERE reads OR writes OR NOT EXISTS (SELECT FROM jobs child WHERE child.parent_id = each.id)
"""

# The last run of each job, as the job's page shows it. Facets are stored as text: a cast of one
# that PostgreSQL refuses would fail all metrics.
_ROW_LINEAGE = r"""
SELECT last.coverage, count(*) AS n
FROM jobs j CROSS JOIN LATERAL (
    SELECT substring(
        r.facets -> 'headwater_rowLineage' ->> 1 FROM '"coverage":\s*"([a-z]+)"'
    ) AS coverage
    FROM runs r
    WHERE r.job_id = j.id ORDER BY r.seen_at DESC, r.id DESC LIMIT 1
) last
WHERE NOT j.hidden AND last.coverage = ANY(%s) GROUP BY 1
"""

_DATASETS = """
SELECT count(*) AS n FROM datasets WHERE NOT hidden AND canonical_id = id AND NOT reference
"""

_NOT_A_CHECK = "r.job_id <> ALL(ARRAY(SELECT id FROM jobs WHERE namespace_id = %s))"

_RUNS = f"SELECT {STATE} AS state, count(*) AS n FROM runs r WHERE {_NOT_A_CHECK} GROUP BY 1"

_RECENT = f"""
SELECT count(*) AS ended, count(*) FILTER (WHERE end_state = 'COMPLETED') AS completed
FROM (
    SELECT r.end_state FROM runs r WHERE {_NOT_A_CHECK}
    ORDER BY r.seen_at DESC, r.id DESC LIMIT 100
) latest
WHERE end_state IN ('COMPLETED', 'FAILED')
"""

_PROGRESS = """
SELECT coalesce(sum(p.rows_out) FILTER (WHERE p.rows_with_lineage IS NOT NULL), 0)
        + (SELECT rows_told FROM removed_progress) AS records,
    coalesce(sum(p.rows_with_lineage), 0)
        + (SELECT rows_with_lineage FROM removed_progress) AS with_lineage,
    coalesce(sum(p.late_rows), 0) + (SELECT late_rows FROM removed_progress) AS late,
    coalesce(sum(p.dead_lettered), 0) + (SELECT dead_lettered FROM removed_progress) AS dead,
    coalesce(sum(p.order_violations), 0)
        + (SELECT order_violations FROM removed_progress) AS violations
FROM run_progress p
"""

# Only running runs have a lag. Of several of one job, the latest.
_LAG = """
SELECT j.namespace, j.name, latest.lag FROM (
    SELECT DISTINCT ON (r.job_id) r.job_id, p.lag
    FROM run_progress p JOIN runs r ON r.id = p.run_id
    WHERE p.lag IS NOT NULL AND r.end_state IS NULL
    ORDER BY r.job_id, r.seen_at DESC, r.id DESC
) latest JOIN jobs j ON j.id = latest.job_id AND NOT j.hidden
ORDER BY j.created_at, j.id
"""

# By age: the same datasets are named every time.
_FRESHNESS = """
SELECT namespace, name, written_at FROM datasets
WHERE NOT hidden AND canonical_id = id AND written_at IS NOT NULL
ORDER BY created_at, id
"""


async def collect(
    connection: AsyncConnection[Any], max_named: int, now: datetime
) -> CatalogMetrics:
    """Query all metrics; `max_named` jobs and datasets get their own values."""
    (jobs,) = await fetch(connection, _JOBS, (CHECKS_NAMESPACE,))
    coverages = await fetch(connection, _ROW_LINEAGE, (list(ROW_COVERAGES),))
    (datasets,) = await fetch(connection, _DATASETS)
    checks = (namespace_id(CHECKS_NAMESPACE),)
    states = {row["state"]: row["n"] for row in await fetch(connection, _RUNS, checks)}
    (recent,) = await fetch(connection, _RECENT, checks)
    (progress,) = await fetch(connection, _PROGRESS)
    lag = await _bounded(connection, _LAG, "sum(lag)", max_named)
    fresh = await _bounded(connection, _FRESHNESS, "min(written_at)", max_named)
    return CatalogMetrics(
        at=now,
        jobs=jobs["jobs"],
        jobs_complete=jobs["complete"],
        jobs_without_lineage=jobs["without"],
        row_lineage=dict.fromkeys(ROW_COVERAGES, 0)
        | {row["coverage"]: row["n"] for row in coverages},
        datasets=datasets["n"],
        runs=dict.fromkeys(RUN_STATES, 0) | states,
        recent_ended=recent["ended"],
        recent_completed=recent["completed"],
        records=int(progress["records"]),
        records_with_lineage=int(progress["with_lineage"]),
        late=int(progress["late"]),
        dead_lettered=int(progress["dead"]),
        order_violations=int(progress["violations"]),
        freshness=tuple(
            NamedValue(row["namespace"], row["name"], age(row["written_at"], now))
            for row in fresh[0]
        ),
        stalest_other=None if fresh[1] is None else age(fresh[1], now),
        lag=tuple(NamedValue(row["namespace"], row["name"], row["lag"]) for row in lag[0]),
        lag_of_others=None if lag[1] is None else int(lag[1]),
        lag_known=bool(lag[0]),
    )


async def _bounded(
    connection: AsyncConnection[Any], statement: str, aggregate: str, limit: int
) -> tuple[list[Row], Any]:
    """The first rows, and an aggregate over all others; None if there are none."""
    rows = await fetch(connection, f"{statement} LIMIT %s", (limit + 1,))
    if len(rows) <= limit:
        return rows, None
    (other,) = await fetch(
        connection, f"SELECT {aggregate} AS value FROM ({statement} OFFSET %s) others", (limit,)
    )
    return rows[:limit], other["value"]


def age(at: datetime, now: datetime) -> float:
    """Seconds since a time; 0 for a time in the future, which another clock may give."""
    return max(0.0, (now - at.astimezone(UTC)).total_seconds())
