"""Evaluates alerts: updates the state of each alert and subject, and records the transitions."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from headwater.catalog.alerting.conditions import ConditionResult, Truth
from headwater.catalog.alerting.fields import Scope
from headwater.catalog.alerting.incidents import IncidentRecorder, Subject, Transition
from headwater.catalog.alerting.rule_status import NO_SUBJECT, Key, RuleStatus, StateWriter
from headwater.catalog.alerting.rules import Rule
from headwater.catalog.alerting.state import AlertState, Change, TrackedAlert
from headwater.catalog.store import facts, incidents
from headwater.catalog.store.pool import Connection, Pool
from headwater.catalog.store.values import Json, Row

# Until a run is this old, the result of the run before it counts, so that a job which restarts
# repeatedly is one incident.
_SETTLE_SECONDS = 60.0
# Evaluations between two yields to the event loop: a few milliseconds.
_MAX_BATCH = 200
# Subjects of one alert that are shown individually.
_MAX_SHOWN = 200
_SERVICE = Subject(NO_SUBJECT)
_T = TypeVar("_T")


class Evaluator:
    """The state of all alerts. `clock` must be monotonic; see `alerting.state`."""

    def __init__(
        self,
        pool: Pool,
        rules: Sequence[Rule],
        recorder: IncidentRecorder,
        *,
        max_incidents: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules = list(rules)
        # The error of the rules file, if it is newer than the rules.
        self.file_problem: str | None = None
        self._pool = pool
        self._recorder = recorder
        self._max_incidents = max_incidents
        self._clock = clock
        self._tracked: dict[Key, TrackedAlert] = {}
        self._results: dict[Key, ConditionResult] = {}
        self._statuses = {rule.name: RuleStatus() for rule in rules}
        self._writer = StateWriter(pool)
        self._service_values: Json = {}
        self._unseen: dict[Scope, dict[Key, Rule]] = {}

    @property
    def any_open(self) -> bool:
        return bool(self._recorder.open)

    def rules_for(self, scope: Scope) -> list[Rule]:
        return [rule for rule in self.rules if rule.condition.scope is scope]

    def fields_for(self, scope: Scope) -> set[str]:
        return {name for rule in self.rules_for(scope) for name in rule.condition.fields}

    async def resume(self) -> None:
        """Continue from the database: incidents that an earlier service opened stay open."""
        async with self._pool.connection() as connection:
            await self._resume(connection)
        self._recorder.wake()

    async def _resume(self, connection: Connection) -> None:
        now = datetime.now(UTC)
        rules = {rule.name: rule for rule in self.rules}
        for rule in self.rules_for(Scope.SERVICE):
            key = (rule.name, NO_SUBJECT)
            self._recorder.numbers[key] = await incidents.next_number(connection, *key)
        for row in await incidents.open_incidents(connection):
            known = rules.get(row["alert"])
            if known is None:
                # The rule was removed from the file, so its condition can't be evaluated.
                await self._recorder.end_without_rule(connection, row["id"], now)
                continue
            key = (row["alert"], row["subject"])
            self._tracked[key] = TrackedAlert(
                known.hold_seconds, known.keep_seconds, open=True, state=AlertState.FIRING
            )
            self._recorder.open[key] = row["id"]
            self._recorder.downstream[key] = row["downstream"]
            self._writer.restore(key, AlertState.FIRING.value, row["started_at"])
        states = await incidents.states(connection)
        conditions = {row["alert"]: row["condition"] for row in states if not row["subject"]}
        for row in states:
            key = (row["alert"], row["subject"])
            known = rules.get(row["alert"])
            if known is None:
                self._writer.restore(key)
                continue
            self._writer.restore(key, row["state"], row["since"])
            unchanged = conditions.get(known.name) == known.condition.text
            if row["state"] == AlertState.PENDING and unchanged:
                self._resume_pending(key, known, (now - row["since"]).total_seconds())

    def _resume_pending(self, key: Key, rule: Rule, seconds: float) -> None:
        """Continue with a condition that has been true, but not yet for the rule's `for` time."""
        is_summary = key[1] == NO_SUBJECT and rule.condition.scope is not Scope.SERVICE
        if key not in self._tracked and not is_summary:
            self._tracked[key] = TrackedAlert(
                rule.hold_seconds,
                rule.keep_seconds,
                state=AlertState.PENDING,
                true_since=self._clock() - max(0.0, seconds),
            )

    async def evaluate_service(self, values: Mapping[str, Any], *, writable: bool = True) -> None:
        """Evaluate the service rules. Without a database (not `writable`), only health is known."""
        self._service_values = dict(values)
        self.start_scan(Scope.SERVICE)
        rules = self.rules_for(Scope.SERVICE)
        results = [(rule, _SERVICE, self._evaluate(rule, {})) for rule in rules]
        await self._apply(results, writable=writable, scanning=True)
        for rule in rules:
            self._statuses[rule.name].end_scan()

    async def evaluate_jobs(self, ids: Sequence[UUID], *, scanning: bool = False) -> None:
        """Evaluate the job rules for these jobs."""
        rules = self.rules_for(Scope.JOB)
        if not rules or not ids:
            return
        now = datetime.now(UTC)
        async with self._pool.connection() as connection:
            jobs = await facts.jobs(connection, ids, self.fields_for(Scope.JOB), now)
        for batch in _batches(jobs, len(rules)):
            results = [
                (r, _subject(job), self._evaluate_job(r, job)) for job in batch for r in rules
            ]
            await self._apply(results, scanning=scanning)
            await asyncio.sleep(0)

    async def evaluate_datasets(self, ids: Sequence[UUID], *, scanning: bool = False) -> None:
        """Evaluate the dataset rules for these datasets."""
        rules = self.rules_for(Scope.DATASET)
        if not rules or not ids:
            return
        now = datetime.now(UTC)
        async with self._pool.connection() as connection:
            datasets = await facts.datasets(connection, ids, self.fields_for(Scope.DATASET), now)
        for batch in _batches(datasets, len(rules)):
            results = [
                (r, _subject(each), self._evaluate(r, each.values)) for each in batch for r in rules
            ]
            await self._apply(results, scanning=scanning)
            await asyncio.sleep(0)

    def _evaluate_job(self, rule: Rule, job: facts.JobFacts) -> ConditionResult:
        result = self._evaluate(rule, job.latest)
        young = job.running_seconds is not None and job.running_seconds < _SETTLE_SECONDS
        undecided = result.truth in (Truth.FALSE, Truth.NO_DATA)
        if undecided and young and job.previous is not None:
            return self._evaluate(rule, job.previous)
        return result

    def _evaluate(self, rule: Rule, values: Json) -> ConditionResult:
        fields = rule.condition.fields
        known = {name: values.get(name, self._service_values.get(name)) for name in fields}
        return rule.condition.evaluate(known)

    async def _apply(
        self,
        results: Sequence[tuple[Rule, Subject, ConditionResult]],
        *,
        scanning: bool,
        writable: bool = True,
        evaluated: bool = True,
    ) -> None:
        """Update states and record transitions.

        Args:
            evaluated: False if the results were assumed, not evaluated: the status of the rule
                ignores them.
        """
        now = self._clock()
        for rule, subject, result in results:
            key = (rule.name, subject.text)
            self._unseen.get(rule.condition.scope, {}).pop(key, None)
            status = self._statuses[rule.name]
            if evaluated:
                status.add(result, scanning=scanning)
            tracked = self._tracked.get(key) or TrackedAlert(rule.hold_seconds, rule.keep_seconds)
            change = tracked.step(result.truth, now)
            if change is Change.FIRED and self._open_count(rule) >= self._max_incidents:
                # Limits the number of messages: it fires when another incident has ended.
                tracked.open, tracked.state, change = False, AlertState.PENDING, None
                status.add_held_back(scanning=scanning)
            self._store(key, tracked, result)
            if change is not None:
                transition = Transition(rule, subject, change, result.value, datetime.now(UTC))
                await self._record(transition, tracked, writable=writable)

    def _store(self, key: Key, tracked: TrackedAlert, result: ConditionResult) -> None:
        # Subjects that are ok, or have neither data nor an incident, are not stored.
        if tracked.open or tracked.state is AlertState.PENDING or key[1] == NO_SUBJECT:
            self._tracked[key] = tracked
            self._results[key] = result
        else:
            self._tracked.pop(key, None)
            self._results.pop(key, None)

    def _open_count(self, rule: Rule) -> int:
        return sum(1 for alert, _ in self._recorder.open if alert == rule.name)

    async def _record(
        self, transition: Transition, tracked: TrackedAlert, *, writable: bool
    ) -> None:
        try:
            await self._recorder.record(transition, writable=writable)
        except Exception:
            # Not written: the next evaluation repeats the transition.
            tracked.open = transition.change is Change.ENDED
            self._tracked[transition.key] = tracked
            raise

    def start_scan(self, scope: Scope) -> None:
        """Start to evaluate all subjects of the scope."""
        rules = {rule.name: rule for rule in self.rules_for(scope)}
        for name in rules:
            self._statuses[name].start_scan()
        self._unseen[scope] = {k: rules[k[0]] for k in self._tracked if k[0] in rules}

    async def end_scan(self, scope: Scope) -> None:
        """End the incidents of subjects that the scan did not visit: they were deleted."""
        missing = self._unseen.pop(scope, {})
        what = "the job or its last run" if scope is Scope.JOB else "the dataset"
        result = ConditionResult(Truth.FALSE, f"{what} is no longer in the catalog")
        results = [(rule, Subject(text), result) for (_, text), rule in missing.items()]
        await self._apply(results, scanning=False, evaluated=False)
        for rule in self.rules_for(scope):
            self._statuses[rule.name].end_scan()

    async def write(self) -> None:
        """Write the states that changed since the last call."""
        now = datetime.now(UTC)
        rows: list[Row] = []
        subjects: dict[str, list[Key]] = defaultdict(list)
        for key in self._tracked:
            subjects[key[0]].append(key)
        for rule in self.rules:
            keys = subjects[rule.name]
            rows.append(self._rule_row(rule, {self._tracked[key].state for key in keys}, now))
            # Subjects with an incident come first, because the number of rows is limited.
            keys.sort(key=lambda key: not self._tracked[key].open)
            shown = [key for key in keys if key[1] != NO_SUBJECT][:_MAX_SHOWN]
            rows += [self._subject_row(key, now) for key in shown]
        if self.file_problem is not None:
            rows.append(self._writer.file_row(self.file_problem, now))
        await self._writer.write(rows)

    def _rule_row(self, rule: Rule, states: set[AlertState], now: datetime) -> Row:
        status = self._statuses[rule.name]
        key = (rule.name, NO_SUBJECT)
        result = self._results.get(key)
        body = {
            "severity": rule.severity,
            "summary": rule.summary,
            "condition": rule.condition.text,
            "runbook": rule.runbook,
            "channels": list(rule.channels),
            "problem": status.problem,
            "withoutData": status.without_data,
            "heldBack": status.held_back,
            **self._downstream(key),
        }
        value = result.value if result else ""
        return self._writer.row(key, status.combine(states), value, body, now)

    def _subject_row(self, key: Key, now: datetime) -> Row:
        result, state = self._results.get(key), self._tracked[key].state
        body = {"problem": result.problem if result else None, **self._downstream(key)}
        return self._writer.row(key, state, result.value if result else "", body, now)

    def _downstream(self, key: Key) -> Json:
        names = self._recorder.downstream.get(key, [])
        return {"downstream": names[:20], "downstreamCount": len(names)} if names else {}


def _subject(each: facts.JobFacts | facts.DatasetFacts) -> Subject:
    return Subject(each.subject, each.id, each.namespace, each.name)


def _batches(subjects: Sequence[_T], rules: int) -> Iterator[Sequence[_T]]:
    """Batches that are evaluated without yielding to the event loop."""
    size = max(1, _MAX_BATCH // rules)
    for start in range(0, len(subjects), size):
        yield subjects[start : start + size]
