"""Watches the catalog for alerts: as events arrive, and by a timer that looks at everything.

Of several services on one database one does this (`store.leader`); the others tell it which runs
have failed. Rules are read anew when their file changes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from headwater.alerts.channels import read_channels, undefined
from headwater.alerts.names import Scope
from headwater.alerts.rules import Rule, read_rules
from headwater.catalog.ingest import Projection
from headwater.catalog.store import facts, outbox, points
from headwater.catalog.store.leader import Leadership, tell_leader
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Json
from headwater.catalog.watch.evaluating import Evaluator
from headwater.catalog.watch.figures import Figures
from headwater.catalog.watch.posting import Postman
from headwater.catalog.watch.telling import Teller
from headwater.catalog.watch.touched import Touched
from headwater.errors import AlertRulesError, DatabaseUnavailableError, UnavailableError
from headwater.settings.alerts import AlertsSettings

_LOG = logging.getLogger("headwater.alerts")

# After events arrived, others that arrive in this time are looked at together with them.
_GATHER_SECONDS = 0.1
_CALM_SECONDS = 0.5
# Runs and datasets, besides failed runs, that are looked at between two rounds of the timer.
_SOME = 200
# Jobs and datasets of one round; a larger catalog is walked over several rounds.
_ROUND = 5_000
_STEP = 500
_STANDBY_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_KEPT_DAYS = 90.0
_FORGET_SECONDS = 3600.0


class AlertWatch:
    """One per service. `start` after the pool was opened; `close` before it is closed."""

    def __init__(
        self, pool: Pool, url: str, settings: AlertsSettings, file: Path | None, figures: Figures
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._file = file
        self._figures = figures
        self._leadership = Leadership(url)
        self._postman = Postman(pool, read_channels(settings.channels), settings, figures.messages)
        self._touched = Touched()
        self._wake = asyncio.Event()
        self._rules: list[Rule] = []
        self._evaluator: Evaluator | None = None
        self._teller: Teller | None = None
        self._leading = False
        self._forgot = float("-inf")
        self._after = {"jobs": facts.FIRST, "datasets": facts.FIRST}
        self._stamp: tuple[int, int] | None = None
        self._file_problem: str | None = None
        self._watches_datasets = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        work = self._run() if self._file is not None else self._clear()
        self._tasks = [asyncio.create_task(work)]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._postman.stop()
        await self._leadership.leave()

    def stored(self, rows: Projection) -> None:
        """Told by the writer after each transaction: quick, and never the cause of a failure."""
        if not self._rules:
            return
        failed = self._touched.add(rows, datasets=self._watches_datasets)
        if failed or (self._evaluator is not None and self._evaluator.any_open):
            self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                if await self._leadership.take():
                    self._leading = True
                    await self._lead()
                else:
                    await self._stand_by()
            except DatabaseUnavailableError as error:
                _LOG.warning("alerts: %s", error)
                await self._tell_that_the_database_is_gone()
                await asyncio.sleep(_RETRY_SECONDS)
            except UnavailableError as error:
                _LOG.warning("alerts: %s", error)
                await asyncio.sleep(_STANDBY_SECONDS)
            except Exception:
                _LOG.exception("alerts could not be evaluated")
                await asyncio.sleep(_STANDBY_SECONDS)

    async def _clear(self) -> None:
        """Without rules nothing is to be shown of earlier ones, unless another service has some."""
        try:
            if await self._leadership.take():
                await self._begin()
                assert self._evaluator is not None  # noqa: S101 - just begun
                await self._evaluator.write()
        except Exception:
            _LOG.exception("alerts of earlier rules could not be cleared")
        finally:
            await self._leadership.leave()

    async def _stand_by(self) -> None:
        """Tell the one that evaluates what it should look at, for a while."""
        if self._leading:
            # Another service has taken over what this one knew.
            self._leading, self._evaluator = False, None
            await self._postman.stop()
        self._read_rules()
        try:
            async with asyncio.timeout(_STANDBY_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GATHER_SECONDS)
        self._wake.clear()
        failed, self._touched = list(self._touched.failed), Touched()
        await tell_leader(self._pool, failed)

    async def _lead(self) -> None:
        """Evaluate for as long as the lock is held."""
        listening = asyncio.create_task(self._leadership.listen(self._told))
        self._postman.start()
        try:
            _LOG.info("alerts are evaluated by this service")
            due = time.monotonic()
            while self._leadership.held:
                if self._read_rules() or self._evaluator is None:
                    await self._begin()
                if time.monotonic() >= due:
                    due = time.monotonic() + self._settings.interval_seconds
                    await self._round()
                await self._wait(due)
                await self._look_at_touched()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def _told(self, runs: Iterable[UUID]) -> None:
        self._touched.add_failed(runs)
        self._wake.set()

    async def _wait(self, due: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, due - time.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            pass
        else:
            await asyncio.sleep(_GATHER_SECONDS if self._touched.failed else _CALM_SECONDS)
        self._wake.clear()

    def _read_rules(self) -> bool:
        """Read the file if it has changed; whether rules are new. A bad file changes nothing."""
        assert self._file is not None  # noqa: S101 - not started without one
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            self._rules = read_rules(self._file)
        except (OSError, AlertRulesError) as error:
            if self._file_problem != str(error):
                _LOG.error("alerts: %s", error)
            self._file_problem = str(error)
            return False
        self._file_problem = None
        self._watches_datasets = any(r.condition.scope is Scope.DATASET for r in self._rules)
        missing = list(undefined(self._rules, self._settings.channels))
        if missing:
            _LOG.warning("alerts: no setting defines these channels: %s", ", ".join(missing))
        return True

    async def _begin(self) -> None:
        """Take over what was open, under the rules as they are now."""
        if self._teller is not None:
            await self._teller.write_unwritten()
        teller = Teller(
            self._pool, self._postman.defined, self._postman.send_now, self._postman.wake
        )
        evaluator = Evaluator(
            self._pool, self._rules, teller, most_incidents=self._settings.most_incidents
        )
        await evaluator.resume()
        self._evaluator, self._teller = evaluator, teller
        self._after = {"jobs": facts.FIRST, "datasets": facts.FIRST}

    async def _round(self) -> None:
        """Look at everything, or at the next part of everything."""
        evaluator = self._evaluator
        assert evaluator is not None  # noqa: S101 - begun before
        try:
            values = await self._service_values()
            if self._teller is not None:
                await self._teller.write_unwritten()
            await evaluator.service(values)
            await self._walk("jobs", Scope.JOB)
            await self._walk("datasets", Scope.DATASET)
            evaluator.file_problem = self._file_problem
            await evaluator.write()
            await self._forget()
        except DatabaseUnavailableError as error:
            _LOG.warning("alerts: %s", error)
            await self._tell_that_the_database_is_gone()
        except UnavailableError as error:
            # A question that took too long, say. The next round asks again.
            _LOG.warning("alerts: %s", error)

    async def _tell_that_the_database_is_gone(self) -> None:
        """The lock is gone as well, but nobody else can hold it now: the last one speaks."""
        if self._leading and self._evaluator is not None:
            await self._evaluator.service({"marquez_health_check_failed": True}, writable=False)

    async def _forget(self) -> None:
        if time.monotonic() - self._forgot < _FORGET_SECONDS:
            return
        async with self._pool.connection() as connection:
            await outbox.forget(connection, _KEPT_DAYS)
        self._forgot = time.monotonic()

    async def _walk(self, table: str, scope: Scope) -> None:
        evaluator = self._evaluator
        assert evaluator is not None  # noqa: S101 - begun before
        if not evaluator.of(scope):
            return
        for _ in range(_ROUND // _STEP):
            if self._after[table] == facts.FIRST:
                evaluator.walk_begins(scope)
            async with self._pool.connection() as connection:
                ids = await facts.page_of(connection, table, self._after[table], _STEP)
            await (evaluator.jobs(ids) if scope is Scope.JOB else evaluator.datasets(ids))
            if len(ids) < _STEP:
                self._after[table] = facts.FIRST
                await evaluator.walk_ends(scope)
                return
            self._after[table] = ids[-1]

    async def _look_at_touched(self) -> None:
        evaluator = self._evaluator
        if evaluator is None or not self._touched:
            return
        runs, datasets = self._touched.take(_SOME)
        try:
            if evaluator.of(Scope.JOB) and runs:
                async with self._pool.connection() as connection:
                    jobs = await facts.jobs_of_runs(connection, runs)
                await evaluator.jobs(jobs)
            await evaluator.datasets(datasets)
            await evaluator.write()
        except UnavailableError as error:
            # The next round looks at everything.
            _LOG.warning("alerts: %s", error)

    async def _service_values(self) -> Json:
        found = await self._figures.measures()
        async with self._pool.connection() as connection:
            usual = await points.typical(connection, datetime.now(UTC))
        return {
            "marquez_health_check_failed": False,
            "job_without_lineage_percentage": found.without_lineage_percentage,
            "job_lineage_coverage_ratio": found.job_coverage,
            "record_lineage_coverage_ratio": found.record_coverage,
            "typical_record_lineage_coverage_ratio": usual.get("coverage"),
            "job_success_ratio": found.success_ratio,
            "recent_job_success_ratio": found.recent_success_ratio,
            "consumer_lag": found.consumer_lag,
            "typical_consumer_lag": usual.get("lag"),
            "late_records": found.late,
            "dead_lettered_records": found.dead_lettered,
            "out_of_order_records": found.order_violations,
            "failed_runs": found.runs.get("FAILED", 0),
            "running_runs": found.runs.get("RUNNING", 0),
            "jobs": found.jobs,
            "datasets": found.datasets,
        }
