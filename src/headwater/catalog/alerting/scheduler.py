"""Schedules the evaluation of alerts: after events, and periodically for the entire catalog.

If several services share a database, one of them evaluates (`store.leader`); the others notify it
of failed runs. A service that may only read, because a newer one has migrated the database, is not
the leader. The rules file is reloaded when it changes.
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
from headwater.catalog.alerting.rule_status import StateWriter
from headwater.catalog.alerting.rules_source import RulesSource
from headwater.catalog.alerting.service_metrics import (
    UNREACHABLE,
    ServiceMetrics,
    service_values,
)
from headwater.catalog.ingest import Projection
from headwater.catalog.store import facts, incidents, outbox
from headwater.catalog.store.leader import Leadership, notify_leader
from headwater.catalog.store.pool import Pool
from headwater.errors import DatabaseUnavailableError, SchemaMismatchError, UnavailableError
from headwater.settings.alerts import AlertsSettings

_LOG = logging.getLogger("headwater.catalog.alerting")

# Events that arrive within this time are evaluated together: shorter if a run has failed.
_FAILED_DELAY_SECONDS = 0.1
_DELAY_SECONDS = 0.5
# Runs and datasets, apart from failed runs, that are evaluated between two rounds of the timer.
_MAX_QUEUED = 200
# Jobs and datasets per round; the scan of a larger catalog takes several rounds.
_ROUND_SIZE = 5_000
# Subjects and evaluations per page of a scan: runs that fail meanwhile wait for the end of a page.
_PAGE_SIZE = 500
_PAGE_EVALUATIONS = 5_000
_STANDBY_SECONDS = 2.0
# How long after its start a service without rules may delete the states of earlier rules: the
# earlier service may hold the lock for a moment. Later, a free lock may belong to a service with
# rules that is restarting.
_CLEAR_SECONDS = 2.0
_RETRY_SECONDS = 0.5
_KEPT_DAYS = 90.0
_CLEANUP_SECONDS = 3600.0


class AlertScheduler:
    """One per service. `start` it after the pool is opened; `close` it before the pool."""

    def __init__(
        self,
        pool: Pool,
        url: str,
        settings: AlertsSettings,
        find_rules: Callable[[], Path | None],
        metrics: ServiceMetrics,
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._source = RulesSource(find_rules, settings.channels)
        self._metrics = metrics
        self._leadership = Leadership(url)
        self._dispatcher = OutboxDispatcher(
            pool,
            read_channels(settings.channels),
            settings,
            metrics.messages,
            lambda: self._leadership.held,
        )
        self._queue = EvaluationQueue()
        self._wake = asyncio.Event()
        self._evaluator: Evaluator | None = None
        self._recorder: IncidentRecorder | None = None
        self._leading = False
        self._clear_until: float | None = None
        self._cleaned_up = float("-inf")
        self._after = {"jobs": facts.FIRST, "datasets": facts.FIRST}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._dispatcher.stop()
        finally:
            await self._leadership.release()

    def on_stored(self, rows: Projection) -> None:
        """Called by the writer after each transaction: returns at once and never raises."""
        if not self._source.rules:
            return
        failed = self._queue.add(rows, datasets=self._source.has_dataset_rules)
        if failed or (self._evaluator is not None and self._evaluator.any_open):
            self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                if not self._source.exists():
                    await self._without_rules()
                    continue
                if math.isnan(self._metrics.alerts_evaluated):
                    # There are rules, but this service has not evaluated them yet.
                    self._metrics.alerts_evaluated = 0.0
                await self._pool.check_schema()
                if await self._leadership.acquire():
                    self._leading = True
                    await self._lead()
                else:
                    await self._stand_by()
            except DatabaseUnavailableError as error:
                _LOG.warning("alerts: %s", error)
                await self._report_unreachable_database()
                await asyncio.sleep(_RETRY_SECONDS)
            except SchemaMismatchError as error:
                _LOG.warning("alerts: %s", error)
                await self._resign()
                await asyncio.sleep(_STANDBY_SECONDS)
            except UnavailableError as error:
                _LOG.warning("alerts: %s", error)
                await asyncio.sleep(_STANDBY_SECONDS)
            except Exception:
                _LOG.exception("alerts: evaluation failed")
                await asyncio.sleep(_STANDBY_SECONDS)

    async def _without_rules(self) -> None:
        """Delete the states of earlier rules, unless another service has rules."""
        if self._clear_until is None:
            self._clear_until = time.monotonic() + _CLEAR_SECONDS
        if time.monotonic() > self._clear_until:
            await asyncio.sleep(_STANDBY_SECONDS)
            return
        try:
            if not await self._leadership.acquire():
                await asyncio.sleep(_FAILED_DELAY_SECONDS)
                return
            await self._create_evaluator()
            assert self._evaluator is not None  # noqa: S101 - just created
            await self._evaluator.write()
            await self._dispatcher.drain()
            self._clear_until = float("-inf")
        finally:
            self._evaluator = self._recorder = None
            await self._leadership.release()

    async def _stand_by(self) -> None:
        """Notify the leader of failed runs; returns regularly to try to become the leader."""
        if self._leading:
            # Another service has taken over everything that is in the database.
            if self._recorder is not None:
                await self._recorder.flush(ended=True)
            await self._resign()
        self._source.reload()
        try:
            async with asyncio.timeout(_STANDBY_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(_FAILED_DELAY_SECONDS)
        self._wake.clear()
        failed, self._queue = list(self._queue.failed), EvaluationQueue()
        await notify_leader(self._pool, failed)

    async def _resign(self) -> None:
        """Leave evaluating and sending to another service."""
        self._leading, self._evaluator, self._recorder = False, None, None
        await self._dispatcher.stop()
        await self._leadership.release()

    async def _lead(self) -> None:
        """Evaluate while this service holds the lock."""
        listening = asyncio.create_task(self._leadership.listen(self._on_failed_runs))
        self._dispatcher.start()
        try:
            _LOG.info("alerts: this service evaluates the rules")
            # Resume even if this service was the leader before: another one may have evaluated.
            due, resumed = time.monotonic(), False
            while self._leadership.held:
                changed = self._source.reload()
                if self._source.loaded and (changed or not resumed):
                    await self._create_evaluator()
                    resumed = True
                if time.monotonic() >= due:
                    due = time.monotonic() + self._settings.interval_seconds
                    await (self._round() if resumed else self._show_file_problem())
                await self._wait(due)
                await self._evaluate_queued(_MAX_QUEUED)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    async def _show_file_problem(self) -> None:
        """Without valid rules nothing can be evaluated, so incidents stay as they are."""
        if self._source.problem is not None:
            row = StateWriter(self._pool).file_row(self._source.problem, datetime.now(UTC))
            async with self._pool.connection() as connection:
                await incidents.write_states(connection, [row], [])

    def _on_failed_runs(self, runs: Iterable[UUID]) -> None:
        self._queue.add_failed(runs)
        self._wake.set()

    async def _wait(self, due: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, due - time.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            pass
        else:
            await asyncio.sleep(_FAILED_DELAY_SECONDS if self._queue.failed else _DELAY_SECONDS)
        self._wake.clear()

    async def _create_evaluator(self) -> None:
        """Resume open incidents with the current rules."""
        if self._recorder is not None:
            await self._recorder.flush()
        recorder = IncidentRecorder(self._pool, self._dispatcher)
        evaluator = Evaluator(
            self._pool, self._source.rules, recorder, max_incidents=self._settings.max_incidents
        )
        await evaluator.resume()
        self._evaluator, self._recorder = evaluator, recorder
        self._after = {"jobs": facts.FIRST, "datasets": facts.FIRST}

    async def _round(self) -> None:
        """Evaluate the entire catalog, or the next part of a large one."""
        evaluator, recorder = self._evaluator, self._recorder
        assert evaluator is not None and recorder is not None  # noqa: S101, PT018 - created before
        try:
            # A round without a change writes nothing.
            await self._pool.check_schema()
            values = await service_values(self._metrics, self._pool)
            await recorder.flush()
            await evaluator.evaluate_service(values)
            await self._scan("jobs", Scope.JOB)
            await self._scan("datasets", Scope.DATASET)
            evaluator.file_problem = self._source.problem
            await evaluator.write()
            self._metrics.alerts_evaluated = time.time()
            await self._clean_up()
        except SchemaMismatchError:
            raise
        except DatabaseUnavailableError as error:
            _LOG.warning("alerts: %s", error)
            await self._report_unreachable_database()
        except UnavailableError as error:
            # For example, a query timeout. The next round tries again.
            _LOG.warning("alerts: %s", error)

    async def _report_unreachable_database(self) -> None:
        """The lock is lost as well, but no other service can get it: the last leader reports."""
        if self._leading and self._evaluator is not None:
            await self._evaluator.evaluate_service(UNREACHABLE, writable=False)

    async def _clean_up(self) -> None:
        if time.monotonic() - self._cleaned_up < _CLEANUP_SECONDS:
            return
        async with self._pool.connection() as connection:
            await outbox.delete_expired(connection, _KEPT_DAYS)
        self._cleaned_up = time.monotonic()

    async def _scan(self, table: str, scope: Scope) -> None:
        evaluator = self._evaluator
        assert evaluator is not None  # noqa: S101 - created before
        rules = evaluator.rules_for(scope)
        if not rules:
            return
        size = max(1, min(_PAGE_SIZE, _PAGE_EVALUATIONS // len(rules)))
        is_job = scope is Scope.JOB
        evaluate = evaluator.evaluate_jobs if is_job else evaluator.evaluate_datasets
        for _ in range(_ROUND_SIZE // size):
            if self._after[table] == facts.FIRST:
                evaluator.start_scan(scope)
            async with self._pool.connection() as connection:
                ids = await facts.ids_after(connection, table, self._after[table], size)
            await evaluate(ids, scanning=True)
            # Failed runs do not wait for the end of the scan.
            await self._evaluate_queued(0)
            if len(ids) < size:
                self._after[table] = facts.FIRST
                await evaluator.end_scan(scope)
                return
            self._after[table] = ids[-1]

    async def _evaluate_queued(self, others: int) -> None:
        """Evaluate all queued failed runs, and at most `others` other runs and datasets."""
        evaluator = self._evaluator
        if evaluator is None or not (self._queue.failed or (others and self._queue)):
            return
        runs, datasets = self._queue.take(others)
        try:
            if evaluator.rules_for(Scope.JOB) and runs:
                async with self._pool.connection() as connection:
                    jobs = await facts.jobs_of_runs(connection, runs)
                await evaluator.evaluate_jobs(jobs)
            await evaluator.evaluate_datasets(datasets)
            await evaluator.write()
        except SchemaMismatchError:
            raise
        except UnavailableError as error:
            # The next round evaluates everything.
            _LOG.warning("alerts: %s", error)
