"""The values on which alert conditions are evaluated: jobs, their runs, and datasets.

History is only queried if a condition uses it: it costs an index scan per job or dataset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from headwater.catalog.store.metrics import age
from headwater.catalog.store.queries import fetch
from headwater.catalog.store.runs import run_state
from headwater.catalog.store.values import Json, Row, facet

# Earlier runs or versions that a typical value is computed from, and the minimum number.
_MAX_HISTORY = 20
_MIN_HISTORY = 3
# The id before all others, for `ids_after`.
FIRST = UUID(int=0)

# The two latest runs of each job, by index: a run that has just started has no values yet, and
# the previous one is used instead.
_RUNS = """
SELECT j.id AS job_id, j.namespace, j.name, r.*, p.rows_in, p.rows_out, p.rows_with_lineage,
    p.late_rows, p.dead_lettered, p.order_violations, p.lag,
    CASE WHEN p.run_id IS NOT NULL THEN coalesce(p.events_lost, 0) END AS events_lost
FROM jobs j
CROSS JOIN LATERAL (
    SELECT l.id, l.seen_at, l.last_event_at, l.started_at, l.running_at, l.ended_at, l.end_state,
        l.streaming, CASE WHEN octet_length(l.facets->'errorMessage'->>1) <= 100000
            THEN l.facets->'errorMessage' END AS error
    FROM runs l WHERE l.job_id = j.id
    ORDER BY coalesce(l.ended_at, l.seen_at) DESC, l.id DESC LIMIT 2
) r
LEFT JOIN run_progress p ON p.run_id = r.id
WHERE j.id = ANY(%s) AND NOT j.hidden
ORDER BY j.id, coalesce(r.ended_at, r.seen_at) DESC, r.id DESC
"""

_TYPICAL_RUNS = f"""
SELECT j.id AS job_id, count(*) AS n,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM r.ended_at
        - coalesce(r.started_at, r.running_at))) AS duration,
    count(p.rows_out) AS counted,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY p.rows_out) AS rows_out
FROM unnest(%(jobs)s::uuid[], %(runs)s::uuid[]) AS j(id, run)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT * FROM runs WHERE job_id = j.id ORDER BY seen_at DESC, id DESC LIMIT 100
    ) l WHERE l.end_state = 'COMPLETED' AND l.id <> j.run LIMIT {_MAX_HISTORY}
) r
LEFT JOIN run_progress p ON p.run_id = r.id
GROUP BY j.id
"""

_DATASETS = """
SELECT d.id, d.namespace, d.name, d.written_at,
    d.facets->'dataQualityAssertions' AS assertions,
    v.facets->'dataQualityAssertions' AS version_assertions
FROM datasets d LEFT JOIN LATERAL (
    SELECT facets FROM dataset_versions WHERE dataset_id = d.id
    ORDER BY created_at DESC, id DESC LIMIT 1
) v ON true
WHERE d.id = ANY(%s) AND NOT d.hidden AND d.canonical_id = d.id AND NOT d.reference
"""

# Newest first: when each version was written, and the row count that its run reported.
_VERSIONS = f"""
SELECT d.id, v.created_at, rd.facets->'outputStatistics'->>1 AS statistics
FROM unnest(%s::uuid[]) AS d(id)
CROSS JOIN LATERAL (
    SELECT created_at, run_id FROM dataset_versions WHERE dataset_id = d.id AND run_id IS NOT NULL
    ORDER BY created_at DESC, id DESC LIMIT {_MAX_HISTORY + 1}
) v
LEFT JOIN run_datasets rd ON rd.run_id = v.run_id AND rd.dataset_id = d.id AND rd.output
ORDER BY d.id, v.created_at DESC
"""

_TEXTS = """
SELECT dataset_id, hash, body FROM documents
WHERE (dataset_id, hash) IN (SELECT * FROM unnest(%s::uuid[], %s::uuid[]))
"""


@dataclass(slots=True)
class JobFacts:
    """The values of a job's latest run and of the previous one."""

    id: UUID
    subject: str
    namespace: str
    name: str
    latest: Json
    # Age of the latest run; None if it has ended.
    running_seconds: float | None
    previous: Json | None = None


@dataclass(slots=True)
class DatasetFacts:
    id: UUID
    subject: str
    namespace: str
    name: str
    values: Json = field(default_factory=dict)


async def ids_after(
    connection: AsyncConnection[Any], table: str, after: UUID, limit: int
) -> list[Any]:
    """The next ids of jobs or datasets in order, to walk over all of them in pages."""
    only = " AND canonical_id = id AND NOT reference" if table == "datasets" else ""
    cursor = await connection.execute(
        f"SELECT id FROM {table} WHERE id > %s AND NOT hidden{only} ORDER BY id LIMIT %s",
        (after, limit),
    )
    return [key for (key,) in await cursor.fetchall()]


async def jobs_of_runs(connection: AsyncConnection[Any], runs: Collection[UUID]) -> list[UUID]:
    cursor = await connection.execute(
        "SELECT DISTINCT job_id FROM runs WHERE id = ANY(%s)", (list(runs),)
    )
    return [key for (key,) in await cursor.fetchall()]


async def jobs(
    connection: AsyncConnection[Any], ids: Sequence[UUID], names: Collection[str], now: datetime
) -> list[JobFacts]:
    """The values of `job_run.` for each job that has a run."""
    by_id: dict[UUID, JobFacts] = {}
    for row in await fetch(connection, _RUNS, (list(ids),)):
        values = _run_values(row, now)
        latest = by_id.get(row["job_id"])
        if latest is not None:
            latest.previous = values
            continue
        ended = row["end_state"] is not None
        namespace, name = row["namespace"], row["name"]
        running = None if ended else age(row["seen_at"], now)
        by_id[row["job_id"]] = JobFacts(
            row["job_id"], f"job:{namespace}:{name}", namespace, name, values, running
        )
    if any(name.startswith("job_run.typical_") for name in names):
        await _add_typical_runs(connection, by_id)
    return list(by_id.values())


def _run_values(row: Row, now: datetime) -> Json:
    started = row["started_at"] or row["running_at"]
    duration = None if started is None else age(started, row["ended_at"] or now)
    error = facet({"error": row["error"]} if row["error"] else {}, "error").get("message")
    written, linked = row["rows_out"], row["rows_with_lineage"]
    coverage = min(1.0, linked / written) if written and linked is not None else None
    return {
        "job_run.id": str(row["id"]),
        "job_run.namespace": row["namespace"],
        "job_run.name": row["name"],
        "job_run.state": run_state(row),
        "job_run.streaming": row["streaming"],
        "job_run.error": error[:1000] if isinstance(error, str) else "",
        "job_run.duration_seconds": duration,
        "job_run.seconds_since_event": age(row["last_event_at"] or row["seen_at"], now),
        "job_run.rows_in": row["rows_in"],
        "job_run.rows_out": written,
        "job_run.lineage_coverage_ratio": coverage,
        "job_run.late_rows": row["late_rows"],
        "job_run.dead_lettered": row["dead_lettered"],
        "job_run.order_violations": row["order_violations"],
        "job_run.events_lost": row["events_lost"],
        "job_run.lag": row["lag"],
    }


async def _add_typical_runs(connection: AsyncConnection[Any], by_id: dict[UUID, JobFacts]) -> None:
    latest = [UUID(each.latest["job_run.id"]) for each in by_id.values()]
    values = {"jobs": list(by_id), "runs": latest}
    for row in await fetch(connection, _TYPICAL_RUNS, values):
        facts = by_id[row["job_id"]]
        typical: Json = {}
        if row["n"] >= _MIN_HISTORY and row["duration"] is not None:
            typical["job_run.typical_duration_seconds"] = float(row["duration"])
        if row["counted"] >= _MIN_HISTORY:
            typical["job_run.typical_rows_out"] = float(row["rows_out"])
        facts.latest |= typical
        if facts.previous is not None:
            facts.previous |= typical


async def datasets(
    connection: AsyncConnection[Any], ids: Sequence[UUID], names: Collection[str], now: datetime
) -> list[DatasetFacts]:
    """The values of `dataset.` for each dataset."""
    rows = await fetch(connection, _DATASETS, (list(ids),))
    by_id = {
        row["id"]: DatasetFacts(
            row["id"],
            f"dataset:{row['namespace']}:{row['name']}",
            row["namespace"],
            row["name"],
            {
                "dataset.namespace": row["namespace"],
                "dataset.name": row["name"],
                "dataset.freshness_seconds": None
                if row["written_at"] is None
                else age(row["written_at"], now),
            },
        )
        for row in rows
    }
    if "dataset.failed_assertions" in names:
        await _add_assertions(connection, rows, by_id)
    if set(names) & {
        "dataset.typical_interval_seconds",
        "dataset.row_count",
        "dataset.typical_row_count",
    }:
        await _add_versions(connection, by_id)
    return list(by_id.values())


async def _add_assertions(
    connection: AsyncConnection[Any], rows: Iterable[Row], by_id: dict[UUID, DatasetFacts]
) -> None:
    hashes: dict[UUID, UUID] = {}
    for row in rows:
        facets = [each for each in (row["assertions"], row["version_assertions"]) if each]
        if facets:
            hashes[row["id"]] = UUID(max(facets)[1])
    texts = await connection.execute(_TEXTS, (list(hashes), list(hashes.values())))
    for dataset, _, body in await texts.fetchall():
        parsed = orjson.loads(body)
        listed = parsed.get("assertions") if isinstance(parsed, dict) else None
        if isinstance(listed, list):
            failed = sum(isinstance(a, dict) and a.get("success") is False for a in listed)
            by_id[dataset].values["dataset.failed_assertions"] = failed


async def _add_versions(connection: AsyncConnection[Any], by_id: dict[UUID, DatasetFacts]) -> None:
    times: dict[UUID, list[datetime]] = {}
    counts: dict[UUID, list[float]] = {}
    for row in await fetch(connection, _VERSIONS, (list(by_id),)):
        times.setdefault(row["id"], []).append(row["created_at"])
        count = _row_count(row["statistics"])
        if count is not None:
            counts.setdefault(row["id"], []).append(count)
    for key, facts in by_id.items():
        intervals = [(a - b) / timedelta(seconds=1) for a, b in pairwise(times.get(key, []))]
        if len(intervals) >= _MIN_HISTORY:
            facts.values["dataset.typical_interval_seconds"] = _median(intervals)
        listed = counts.get(key, [])
        if listed:
            facts.values["dataset.row_count"] = listed[0]
        if len(listed) > _MIN_HISTORY:
            facts.values["dataset.typical_row_count"] = _median(listed[1:])


def _row_count(text: str | None) -> float | None:
    parsed = orjson.loads(text) if text else None
    count = parsed.get("rowCount") if isinstance(parsed, dict) else None
    return float(count) if isinstance(count, int | float) else None


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
