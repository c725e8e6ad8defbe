"""Deletes rows that are older than the retention time, in small steps.

Edges, column lineage, jobs, datasets, the latest run of each job and the current version of each
dataset are kept, regardless of their age.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from headwater.catalog.store.pool import Pool
from headwater.errors import UnavailableError

_LOG = logging.getLogger("headwater.catalog")

# Small enough that writers hardly wait for the locks of a step; the pause limits the disk load.
_STEP = 500
_PAUSE_SECONDS = 0.1
_INTERVAL_SECONDS = 600.0

_STEPS = (
    "DELETE FROM events WHERE key IN "
    "(SELECT key FROM events WHERE event_time < %(before)s ORDER BY event_time LIMIT %(step)s)",
    "DELETE FROM record_ranges WHERE ctid IN "
    "(SELECT ctid FROM record_ranges WHERE at < %(before)s LIMIT %(step)s)",
    # A run is deleted with its dependent rows.
    """
WITH old AS (
    SELECT r.id FROM runs r
    WHERE coalesce(r.ended_at, r.last_event_at, r.seen_at) < %(before)s
        AND (r.end_state IS NOT NULL OR NOT r.streaming)
        AND EXISTS (SELECT FROM runs later WHERE later.job_id = r.job_id
            AND (later.seen_at, later.id) > (r.seen_at, r.id))
    ORDER BY r.seen_at LIMIT %(step)s
), io AS (
    DELETE FROM run_datasets WHERE run_id IN (SELECT id FROM old)
), versions AS (
    DELETE FROM dataset_versions v WHERE v.run_id IN (SELECT id FROM old)
        AND NOT EXISTS (SELECT FROM datasets d WHERE d.current_version = v.id)
), removed AS (
    DELETE FROM run_progress WHERE run_id IN (SELECT id FROM old) RETURNING *
), sums AS (
    UPDATE removed_progress p SET rows_out = p.rows_out + s.rows_out,
        rows_told = p.rows_told + s.rows_told,
        rows_with_lineage = p.rows_with_lineage + s.rows_with_lineage,
        late_rows = p.late_rows + s.late_rows,
        dead_lettered = p.dead_lettered + s.dead_lettered,
        order_violations = p.order_violations + s.order_violations
    FROM (SELECT coalesce(sum(rows_out), 0) AS rows_out,
            coalesce(sum(rows_out) FILTER (WHERE rows_with_lineage IS NOT NULL), 0) AS rows_told,
            coalesce(sum(rows_with_lineage), 0) AS rows_with_lineage,
            coalesce(sum(late_rows), 0) AS late_rows,
            coalesce(sum(dead_lettered), 0) AS dead_lettered,
            coalesce(sum(order_violations), 0) AS order_violations FROM removed) s
    WHERE EXISTS (SELECT FROM removed)
)
DELETE FROM runs WHERE id IN (SELECT id FROM old)
""",
    # Texts that no version of their dataset uses. An open transaction may use a recent one.
    """
DELETE FROM documents WHERE (dataset_id, hash) IN (
    SELECT t.dataset_id, t.hash FROM documents t
    JOIN datasets d ON d.id = t.dataset_id
    WHERE t.sent_at < least(%(before)s, now() - interval '1 day')
        AND d.fields IS DISTINCT FROM t.hash
        AND NOT EXISTS (SELECT FROM jsonb_each(d.facets) f WHERE f.value->>1 = t.hash::text)
        AND NOT EXISTS (SELECT FROM dataset_versions v WHERE v.dataset_id = t.dataset_id
            AND (v.fields = t.hash
                OR EXISTS (SELECT FROM jsonb_each(v.facets) f WHERE f.value->>1 = t.hash::text)))
    LIMIT %(step)s)
""",
)


async def sweep(pool: Pool, before: datetime) -> int:
    """Delete older rows; returns the number of events, ranges, runs and texts."""
    removed = 0
    for statement in _STEPS:
        while True:
            async with pool.connection() as connection:
                result = await connection.execute(statement, {"before": before, "step": _STEP})
            removed += result.rowcount
            if result.rowcount < _STEP:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
    return removed


async def sweep_periodically(
    pool: Pool, days: float, interval_seconds: float = _INTERVAL_SECONDS
) -> None:
    """Sweep until cancelled."""
    while True:
        try:
            removed = await sweep(pool, datetime.now(UTC) - timedelta(days=days))
            if removed:
                _LOG.info("retention: deleted %d rows older than %g days", removed, days)
        except UnavailableError as error:
            _LOG.warning("retention: %s", error)
        except Exception:
            # The next sweep may succeed; without one the disk would fill up.
            _LOG.exception("retention: sweep failed")
        await asyncio.sleep(interval_seconds)
