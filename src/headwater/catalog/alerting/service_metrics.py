"""The service's figures: taken by a timer, and anew for a question where that is cheap."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from math import nan

from headwater.catalog.metrics.prometheus import ServiceFigures
from headwater.catalog.metrics.values import Measures, Pace
from headwater.catalog.store import incidents, points
from headwater.catalog.store import service_metrics as measures
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Json, to_rfc3339
from headwater.catalog.version import VERSION
from headwater.errors import DatabaseUnavailableError, UnavailableError

_LOG = logging.getLogger("headwater.catalog")

# Between two looks, and how much longer than a look took: at most a tenth of a database's time
# goes into counting, however large it has grown.
_SECONDS = 15.0
_SHARE = 10.0
# A question gets figures that are at most so old, and not older than the last event, within the
# same share; but nobody waits for a look for longer than this.
_FRESH_SECONDS = 1.0
_PATIENCE_SECONDS = 0.25
# Older than this many times the pause between two looks, figures are none of this moment.
_MISSED_LOOKS = 3


class ServiceMetrics:
    """One per service. `start` after the pool was opened."""

    def __init__(self, pool: Pool, pace: Pace, *, max_named: int) -> None:
        self.pace = pace
        self.messages: dict[str, int] = {}
        # When this service last evaluated the rules of alerts; 0 if it has not, NaN without rules.
        self.alerts_evaluated = nan
        self._pool = pool
        self._max_named = max_named
        self._measures = Measures(datetime.now(UTC))
        self._alerts: Mapping[str, int] = {}
        self._open_alerts = 0
        self._began = self._taken = float("-inf")
        self._stores = 0
        self._took = 0.0
        # No look begins before: the last one took long, whatever it came to.
        self._rest_until = float("-inf")
        self._looking = asyncio.Lock()
        self._minute: datetime | None = None
        self._told_events = 0
        self._task: asyncio.Task[None] | None = None
        self._asked: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        tasks = [task for task in (self._task, self._asked) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def measures(self) -> Measures:
        """Figures that are a moment old; older ones where a look takes longer than that.

        Raises:
            UnavailableError: the database does not answer, or has not for so long that the last
                figures are none of now.
        """
        old = self._stores != self.pace.stores or self._age() > _FRESH_SECONDS
        if old and time.monotonic() > self._rest_until:
            if self._asked is None or self._asked.done():
                self._asked = asyncio.create_task(self._look())
                # Looked at, so that one that nobody waits for any more is not told as lost.
                self._asked.add_done_callback(lambda task: task.cancelled() or task.exception())
            patience = None if self._taken == float("-inf") else _PATIENCE_SECONDS
            done, _ = await asyncio.wait({self._asked}, timeout=patience)
            for task in done:
                task.result()
        if self._age() > _MISSED_LOOKS * max(_SECONDS, _SHARE * self._took):
            raise DatabaseUnavailableError(
                f"the last figures are {self._age():.0f} s old: the database is slow or gone",
                hint="look at the service's log",
            )
        return self._measures

    async def service_figures(self) -> ServiceFigures:
        """What Prometheus is told."""
        found = await self.measures()
        return ServiceFigures(
            found, self.pace, VERSION, self._alerts, self.messages, self.alerts_evaluated
        )

    def _age(self) -> float:
        return time.monotonic() - self._taken

    async def _look(self) -> None:
        asked = time.monotonic()
        async with self._looking:
            # Several may have waited for the same look, which began after they asked.
            if self._began > asked:
                return
            began, stores = time.monotonic(), self.pace.stores
            try:
                await self._take(datetime.now(UTC))
            except DatabaseUnavailableError:
                # It was not at work: it may be asked again at once.
                raise
            except BaseException:
                self._rest_after(began)
                raise
            self._rest_after(began)
            self._taken = time.monotonic()
            self._began, self._stores = began, stores
            self._took = self._taken - began

    async def _take(self, now: datetime) -> None:
        async with self._pool.connection() as connection:
            self._measures = await measures.take(connection, self._max_named, now)
            self._alerts = await incidents.counts_by_state(connection)
            self._open_alerts = await incidents.count_open(connection)

    def _rest_after(self, began: float) -> None:
        now = time.monotonic()
        self._rest_until = now + _SHARE * (now - began)

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
                await self._keep_point()
            except UnavailableError as error:
                _LOG.warning("figures: %s", error)
            except Exception:
                _LOG.exception("figures could not be taken")
            await asyncio.sleep(max(_SECONDS, self._rest_until - time.monotonic()))

    async def _keep_point(self) -> None:
        minute = self._measures.at.replace(second=0, microsecond=0)
        if minute == self._minute:
            return
        events = self.pace.events
        async with self._pool.connection() as connection:
            await points.keep_point(
                connection,
                self._measures,
                events=events - self._told_events,
                open_alerts=self._open_alerts,
            )
        self._minute, self._told_events = minute, events


def now_json(found: Measures, pace: Pace) -> Json:
    """The figures of this moment, as the dashboard shows them."""
    now = time.monotonic()
    stalest_first = sorted(found.freshness, key=lambda each: -each.value)
    return {
        "at": to_rfc3339(found.at),
        "jobSuccessRatio": found.success_ratio,
        "recentJobSuccessRatio": found.recent_success_ratio,
        "lineageCoverageRatio": {"jobs": found.job_coverage, "records": found.record_coverage},
        "jobsWithoutLineage": found.jobs_without_lineage,
        "datasetFreshnessSeconds": [
            {"namespace": each.namespace, "name": each.name, "seconds": each.value}
            for each in stalest_first
        ],
        "stalestOtherSeconds": found.stalest_other,
        "datasets": found.datasets,
        "jobs": found.jobs,
        "runsByState": found.runs,
        "consumerLag": found.consumer_lag,
        "lateRecords": found.late,
        "deadLettered": found.dead_lettered,
        "orderViolations": found.order_violations,
        "eventsPerSecond": pace.events_per_second(now),
        "ingestSeconds": {"p50": pace.quantile(0.5), "p99": pace.quantile(0.99)},
    }
