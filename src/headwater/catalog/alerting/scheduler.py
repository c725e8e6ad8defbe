"""Watches the catalog for alerts: as events arrive, and by a timer that looks at everything.

Of several services on one database one does this (`store.leader`); the others tell it which runs
have failed. Rules are read anew when their file changes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from headwater.catalog.alerting.channels import read_channels
from headwater.catalog.alerting.evaluation import Evaluator
from headwater.catalog.alerting.evaluation_queue import EvaluationQueue
from headwater.catalog.alerting.fields import Scope
from headwater.catalog.alerting.incidents import IncidentRecorder
from headwater.catalog.alerting.outbox import OutboxDispatcher
from headwater.catalog.alerting.rule_status import Shown
from headwater.catalog.alerting.rules_source import RulesSource
from headwater.catalog.alerting.service_metrics import ServiceMetrics
from headwater.catalog.alerting.service_values import UNREACHABLE, service_values
from headwater.catalog.ingest import Projection
from headwater.catalog.store import facts, incidents, outbox
from headwater.catalog.store.leader import Leadership, tell_leader
from headwater.catalog.store.pool import Pool
from headwater.errors import DatabaseUnavailableError, UnavailableError
from headwater.settings.alerts import AlertsSettings

_LOG = logging.getLogger("headwater.catalog.alerting")

# After events arrived, others that arrive in this time are looked at together with them.
_GATHER_SECONDS = 0.1
_CALM_SECONDS = 0.5
# Runs and datasets, besides failed runs, that are looked at between two rounds of the timer.
_SOME = 200
# Jobs and datasets of one round; a larger catalog is walked over several rounds.
_ROUND = 5_000
# Of one step, and how many evaluations it may come to: runs that fail meanwhile wait for its end.
_STEP = 500
_STEP_EVALUATIONS = 5_000
_STANDBY_SECONDS = 2.0
# How long after its start a service without rules may clear away what earlier ones left: the one
# before it may have gone just now. Later on, a lock that is free is that of one which restarts.
_CLEAR_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_KEPT_DAYS = 90.0
_FORGET_SECONDS = 3600.0


class AlertScheduler:
    """One per service. `start` after the pool was opened; `close` before it is closed."""

    def __init__(
        self,
        pool: Pool,
        url: str,
        settings: AlertsSettings,
        find_rules: Callable[[], Path | None],
        figures: ServiceMetrics,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._source = RulesSource(find_rules, settings.channels)
        self._figures = figures
        self._leadership = Leadership(url)
        self._postman = OutboxDispatcher(
            pool,
            read_channels(settings.channels),
            settings,
            figures.messages,
            lambda: self._leadership.held,
        )
        self._touched = EvaluationQueue()
        self._wake = asyncio.Event()
        self._evaluator: Evaluator | None = None
        self._teller: IncidentRecorder | None = None
        self._leading = False
        self._clear_until: float | None = None
        self._forgot = float("-inf")
        self._after = {"jobs": facts.FIRST, "datasets": facts.FIRST}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._postman.stop()
        finally:
            await self._leadership.leave()

    def stored(self, rows: Projection) -> None:
        """Told by the writer after each transaction: quick, and never the cause of a failure."""
        if not self._source.rules:
            return
        failed = self._touched.add(rows, datasets=self._source.watches_datasets)
        if failed or (self._evaluator is not None and self._evaluator.any_open):
            self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                if not self._source.there():
                    await self._without_rules()
                    continue
                if math.isnan(self._figures.alerts_evaluated):
                    # There are rules, and nobody has evaluated them here: that is not nothing.
                    self._figures.alerts_evaluated = 0.0
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

    async def _without_rules(self) -> None:
        """Nothing is to be shown of earlier rules, unless another service has some."""
        if self._clear_until is None:
            self._clear_until = time.monotonic() + _CLEAR_SECONDS
        if time.monotonic() > self._clear_until:
            await asyncio.sleep(_STANDBY_SECONDS)
            return
        try:
            if not await self._leadership.take():
                await asyncio.sleep(_GATHER_SECONDS)
                return
            await self._begin()
            assert self._evaluator is not None  # noqa: S101 - just begun
            await self._evaluator.write()
            await self._postman.drain()
            self._clear_until = float("-inf")
        finally:
            self._evaluator = self._teller = None
            await self._leadership.leave()

    async def _stand_by(self) -> None:
        """Tell the one that evaluates what it should look at, for a while."""
        if self._leading:
            # Another service has taken over all that is written.
            if self._teller is not None:
                await self._teller.write_unwritten(over=True)
            self._leading, self._evaluator, self._teller = False, None, None
            await self._postman.stop()
        self._source.read()
        try:
            async with asyncio.timeout(_STANDBY_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_GATHER_SECONDS)
        self._wake.clear()
        failed, self._touched = list(self._touched.failed), EvaluationQueue()
        await tell_leader(self._pool, failed)

    async def _lead(self) -> None:
        """Evaluate for as long as the lock is held."""
        listening = asyncio.create_task(self._leadership.listen(self._told))
        self._postman.start()
        try:
            _LOG.info("alerts are evaluated by this service")
            # Also if it has evaluated before: in between another one may have.
            due, begun = time.monotonic(), False
            while self._leadership.held:
                new = self._source.read()
                if self._source.known and (new or not begun):
                    await self._begin()
                    begun = True
                if time.monotonic() >= due:
                    due = time.monotonic() + self._settings.interval_seconds
                    await (self._round() if begun else self._show_the_mistake())
                await self._wait(due)
                await self._look_at_touched(_SOME)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _show_the_mistake(self) -> None:
        """Without rules nobody can say whether an incident goes on: all stay as they are."""
        if self._source.problem is not None:
            row = Shown(self._pool).file_row(self._source.problem, datetime.now(UTC))
            async with self._pool.connection() as connection:
                await incidents.write_states(connection, [row], [])

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

    async def _begin(self) -> None:
        """Take over what was open, under the rules as they are now."""
        if self._teller is not None:
            await self._teller.write_unwritten()
        teller = IncidentRecorder(self._pool, self._postman)
        evaluator = Evaluator(
            self._pool, self._source.rules, teller, max_incidents=self._settings.max_incidents
        )
        await evaluator.resume()
        self._evaluator, self._teller = evaluator, teller
        self._after = {"jobs": facts.FIRST, "datasets": facts.FIRST}

    async def _round(self) -> None:
        """Look at everything, or at the next part of everything."""
        evaluator, teller = self._evaluator, self._teller
        assert evaluator is not None and teller is not None  # noqa: S101, PT018 - begun before
        try:
            values = await service_values(self._figures, self._pool)
            await teller.write_unwritten()
            await evaluator.service(values)
            await self._walk("jobs", Scope.JOB)
            await self._walk("datasets", Scope.DATASET)
            evaluator.file_problem = self._source.problem
            await evaluator.write()
            self._figures.alerts_evaluated = time.time()
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
            await self._evaluator.service(UNREACHABLE, writable=False)

    async def _forget(self) -> None:
        if time.monotonic() - self._forgot < _FORGET_SECONDS:
            return
        async with self._pool.connection() as connection:
            await outbox.forget(connection, _KEPT_DAYS)
        self._forgot = time.monotonic()

    async def _walk(self, table: str, scope: Scope) -> None:
        evaluator = self._evaluator
        assert evaluator is not None  # noqa: S101 - begun before
        rules = evaluator.of(scope)
        if not rules:
            return
        step = max(1, min(_STEP, _STEP_EVALUATIONS // len(rules)))
        look = evaluator.jobs if scope is Scope.JOB else evaluator.datasets
        for _ in range(_ROUND // step):
            if self._after[table] == facts.FIRST:
                evaluator.walk_begins(scope)
            async with self._pool.connection() as connection:
                ids = await facts.page_of(connection, table, self._after[table], step)
            await look(ids, walking=True)
            # A run that has failed does not wait until everything was looked at.
            await self._look_at_touched(0)
            if len(ids) < step:
                self._after[table] = facts.FIRST
                await evaluator.walk_ends(scope)
                return
            self._after[table] = ids[-1]

    async def _look_at_touched(self, others: int) -> None:
        """Look at all runs that have failed, and at some others that events were about."""
        evaluator = self._evaluator
        if evaluator is None or not (self._touched.failed or (others and self._touched)):
            return
        runs, datasets = self._touched.take(others)
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
