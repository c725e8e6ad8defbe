"""The service's metrics: collected by a timer, and again for a request if that is cheap."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from math import nan

from headwater.catalog.metrics.prometheus import MetricsSnapshot
from headwater.catalog.metrics.values import CatalogMetrics, IngestMetrics
from headwater.catalog.store import incidents, metrics, points
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Json, to_rfc3339
from headwater.catalog.version import VERSION
from headwater.errors import DatabaseUnavailableError, QueryTimeoutError, UnavailableError

_LOG = logging.getLogger("headwater.catalog")

# The pause between two collections: a fixed time, and at least ten times the duration of the last
# one, so that at most a tenth of the database's time is spent on counting.
_INTERVAL_SECONDS = 15.0
_PAUSE_FACTOR = 10.0
# A request gets metrics that are at most this old and not older than the last event, as far as the
# pause allows; but it does not wait longer than this for a collection.
_FRESH_SECONDS = 1.0
_WAIT_SECONDS = 0.25
# Metrics older than this many intervals are not served.
_MAX_MISSED = 3

UNREACHABLE: Json = {"marquez_health_check_failed": True}
_REACHABLE: Json = {"marquez_health_check_failed": False}


class ServiceMetrics:
    """One per service. `start` it after the pool is opened."""

    def __init__(self, pool: Pool, ingest: IngestMetrics, *, max_named: int) -> None:
        self.ingest = ingest
        self.messages: dict[str, int] = {}
        # When this service last evaluated the alert rules; 0 if it has not yet, NaN without rules.
        self.alerts_evaluated = nan
        self._pool = pool
        self._max_named = max_named
        self._current = CatalogMetrics(datetime.now(UTC))
        self._alerts: Mapping[str, int] = {}
        self._open_alerts = 0
        self._started = self._collected = float("-inf")
        self._transactions = 0
        self._duration = 0.0
        # No collection starts before this time, whether the last one succeeded or not.
        self._paused_until = float("-inf")
        self._lock = asyncio.Lock()
        self._minute: datetime | None = None
        self._recorded_events = 0
        self._task: asyncio.Task[None] | None = None
        self._requested: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        tasks = [task for task in (self._task, self._requested) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def current(self) -> CatalogMetrics:
        """Metrics that are at most a moment old; older ones if collecting takes longer.

        Raises:
            UnavailableError: the database does not respond, or the last metrics are too old.
        """
        stale = self._transactions != self.ingest.stores or self._age() > _FRESH_SECONDS
        if stale and time.monotonic() > self._paused_until:
            if self._requested is None or self._requested.done():
                self._requested = asyncio.create_task(self._collect())
                # Retrieve the exception, so that asyncio does not log it if no request waits.
                self._requested.add_done_callback(lambda task: task.cancelled() or task.exception())
            timeout = None if self._collected == float("-inf") else _WAIT_SECONDS
            done, _ = await asyncio.wait({self._requested}, timeout=timeout)
            for task in done:
                task.result()
        if self._age() > _MAX_MISSED * max(_INTERVAL_SECONDS, _PAUSE_FACTOR * self._duration):
            raise DatabaseUnavailableError(
                f"the database did not respond: the last metrics are {self._age():.0f} s old",
                hint="see the service's log",
            )
        return self._current

    async def snapshot(self, *, ready: bool) -> MetricsSnapshot:
        """All metrics for Prometheus."""
        current = await self.current()
        return MetricsSnapshot(
            current, self.ingest, VERSION, self._alerts, self.messages, self.alerts_evaluated, ready
        )

    def _age(self) -> float:
        return time.monotonic() - self._collected

    async def _collect(self) -> None:
        requested = time.monotonic()
        async with self._lock:
            # Several callers may wait for one collection that started after their request.
            if self._started > requested:
                return
            started, transactions = time.monotonic(), self.ingest.stores
            try:
                await self._read(datetime.now(UTC))
            except DatabaseUnavailableError:
                # The database did no work, so the next collection may start at once.
                raise
            except BaseException:
                self._pause_after(started)
                raise
            self._pause_after(started)
            self._collected = time.monotonic()
            self._started, self._transactions = started, transactions
            self._duration = self._collected - started

    async def _read(self, now: datetime) -> None:
        async with self._pool.connection() as connection:
            self._current = await metrics.collect(connection, self._max_named, now)
            self._alerts = await incidents.counts_by_state(connection)
            self._open_alerts = await incidents.count_open(connection)

    def _pause_after(self, started: float) -> None:
        now = time.monotonic()
        self._paused_until = now + _PAUSE_FACTOR * (now - started)

    async def _run(self) -> None:
        while True:
            try:
                await self._collect()
                await self._record_point()
            except UnavailableError as error:
                _LOG.warning("metrics: %s", error)
            except Exception:
                _LOG.exception("metrics: collection failed")
            await asyncio.sleep(max(_INTERVAL_SECONDS, self._paused_until - time.monotonic()))

    async def _record_point(self) -> None:
        minute = self._current.at.replace(second=0, microsecond=0)
        if minute == self._minute:
            return
        events = self.ingest.events
        async with self._pool.connection() as connection:
            await points.record_point(
                connection,
                self._current,
                events=events - self._recorded_events,
                open_alerts=self._open_alerts,
            )
        self._minute, self._recorded_events = minute, events


async def service_values(service_metrics: ServiceMetrics, pool: Pool) -> Json:
    """The values of the service fields of conditions.

    Raises:
        DatabaseUnavailableError: the database does not respond.
    """
    try:
        current = await service_metrics.current()
        async with pool.connection() as connection:
            typical = await points.typical(connection, datetime.now(UTC))
    except QueryTimeoutError as error:
        # Counting takes too long; job and dataset rules can still be evaluated.
        _LOG.warning("alerts: no service metrics: %s", error)
        return _REACHABLE
    return {
        **_REACHABLE,
        "job_without_lineage_percentage": current.without_lineage_percentage,
        "job_lineage_coverage_ratio": current.job_coverage,
        "record_lineage_coverage_ratio": current.record_coverage,
        "typical_record_lineage_coverage_ratio": typical.get("coverage"),
        "job_success_ratio": current.success_ratio,
        "recent_job_success_ratio": current.recent_success_ratio,
        "consumer_lag": current.consumer_lag,
        "typical_consumer_lag": typical.get("lag"),
        "late_records": current.late,
        "dead_lettered_records": current.dead_lettered,
        "out_of_order_records": current.order_violations,
        "failed_runs": current.runs.get("FAILED", 0),
        "running_runs": current.runs.get("RUNNING", 0),
        "jobs": current.jobs,
        "datasets": current.datasets,
    }


def metrics_json(current: CatalogMetrics, ingest: IngestMetrics) -> Json:
    """The current metrics for the dashboard."""
    now = time.monotonic()
    stalest_first = sorted(current.freshness, key=lambda each: -each.value)
    return {
        "at": to_rfc3339(current.at),
        "jobSuccessRatio": current.success_ratio,
        "recentJobSuccessRatio": current.recent_success_ratio,
        "lineageCoverageRatio": {"jobs": current.job_coverage, "records": current.record_coverage},
        "jobsWithoutLineage": current.jobs_without_lineage,
        "datasetFreshnessSeconds": [
            {"namespace": each.namespace, "name": each.name, "seconds": each.value}
            for each in stalest_first
        ],
        "stalestOtherSeconds": current.stalest_other,
        "datasets": current.datasets,
        "jobs": current.jobs,
        "runsByState": current.runs,
        "consumerLag": current.consumer_lag,
        "lateRecords": current.late,
        "deadLettered": current.dead_lettered,
        "orderViolations": current.order_violations,
        "eventsPerSecond": ingest.events_per_second(now),
        "ingestSeconds": {"p50": ingest.quantile(0.5), "p99": ingest.quantile(0.99)},
    }
