"""Removes what is older than the set age, in small steps, and keeps the current graph.

Edges, column lineage, jobs, datasets, the latest run of each job and the current version of each
dataset stay, however old they are.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from headwater.catalog.store.pool import Pool
from headwater.errors import UnavailableError

_LOG = logging.getLogger("headwater.catalog")

# Short enough that nobody waits for the locks of a step; the pause leaves the disk to others.
_STEP = 500
_PAUSE_SECONDS = 0.1
_BETWEEN_SECONDS = 600.0

_STEPS = (
    "DELETE FROM events WHERE key IN "
    "(SELECT key FROM events WHERE event_time < %(before)s ORDER BY event_time LIMIT %(step)s)",
    "DELETE FROM record_ranges WHERE ctid IN "
    "(SELECT ctid FROM record_ranges WHERE at < %(before)s LIMIT %(step)s)",
    # A run goes with all that hangs on it.
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
), told AS (
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
            coalesce(sum(order_violations), 0) AS order_violations FROM told) s
    WHERE EXISTS (SELECT FROM told)
)
DELETE FROM runs WHERE id IN (SELECT id FROM old)
""",
    # Texts that no version of their dataset shows any more; those sent lately may be in use.
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
    """Remove all that is older; returns how many rows of its four kinds went."""
    removed = 0
    for statement in _STEPS:
        while True:
            async with pool.connection() as connection:
                done = await connection.execute(statement, {"before": before, "step": _STEP})
            removed += done.rowcount
            if done.rowcount < _STEP:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
    return removed


async def keep_sweeping(pool: Pool, days: float) -> None:
    """Sweep every ten minutes, for as long as the service runs."""
    while True:
        try:
            removed = await sweep(pool, datetime.now(UTC) - timedelta(days=days))
            if removed:
                _LOG.info("retention: %d rows older than %g days removed", removed, days)
        except UnavailableError as error:
            _LOG.warning("retention: %s", error)
        except Exception:
            # Whatever it was, the next sweep may work; silence would let the disk fill up.
            _LOG.exception("retention failed")
        await asyncio.sleep(_BETWEEN_SECONDS)
