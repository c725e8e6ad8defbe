"""Evaluates alerts and keeps their incidents: what was found goes through the state of each alert
and subject, and what changes is written, with its messages, in one transaction."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from headwater.catalog.alerting.conditions import Truth, Verdict
from headwater.catalog.alerting.fields import Scope
from headwater.catalog.alerting.incidents import IncidentRecorder, Subject, Transition
from headwater.catalog.alerting.rule_status import NO_SUBJECT, Key, RuleStatus, Shown
from headwater.catalog.alerting.rules import Rule
from headwater.catalog.alerting.state import Change, State, Tracked
from headwater.catalog.store import facts, incidents
from headwater.catalog.store.pool import Connection, Pool
from headwater.catalog.store.values import Json, Row

# A run that goes on for less has said nothing yet: until then the run before it counts, so that
# a job that is restarted again and again is one incident.
_SETTLE_SECONDS = 60.0
# Between two of these many evaluations others get their turn: a few milliseconds.
_TOGETHER = 200
# Subjects of one alert that are shown one by one.
_MAX_SHOWN = 200
_SERVICE = Subject(NO_SUBJECT)
_T = TypeVar("_T")


class Evaluator:
    """The state of all alerts. The clock only grows; see `alerts.state`."""

    def __init__(
        self,
        pool: Pool,
        rules: Sequence[Rule],
        teller: IncidentRecorder,
        *,
        max_incidents: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules = list(rules)
        # What is wrong with the rules file, if it is newer than the rules.
        self.file_problem: str | None = None
        self._pool = pool
        self._teller = teller
        self._most = max_incidents
        self._clock = clock
        self._tracked: dict[Key, Tracked] = {}
        self._verdicts: dict[Key, Verdict] = {}
        self._standing = {rule.name: RuleStatus() for rule in rules}
        self._shown = Shown(pool)
        self._service: Json = {}
        self._unseen: dict[Scope, dict[Key, Rule]] = {}

    @property
    def any_open(self) -> bool:
        return bool(self._teller.open)

    def of(self, scope: Scope) -> list[Rule]:
        return [rule for rule in self.rules if rule.condition.scope is scope]

    def names(self, scope: Scope) -> set[str]:
        return {name for rule in self.of(scope) for name in rule.condition.names}

    async def resume(self) -> None:
        """Go on where a service before this one stopped: incidents that are open stay open."""
        async with self._pool.connection() as connection:
            await self._resume(connection)
        self._teller.wake()

    async def _resume(self, connection: Connection) -> None:
        now = datetime.now(UTC)
        known = {rule.name: rule for rule in self.rules}
        for rule in self.of(Scope.SERVICE):
            key = (rule.name, NO_SUBJECT)
            self._teller.numbers[key] = await incidents.next_number(connection, *key)
        for row in await incidents.open_incidents(connection):
            of = known.get(row["alert"])
            if of is None:
                # Its rule is gone from the file: nobody can say any more whether it holds.
                await self._teller.end_without_rule(connection, row["id"], now)
                continue
            key = (row["alert"], row["subject"])
            self._tracked[key] = Tracked(
                of.hold_seconds, of.keep_seconds, open=True, state=State.FIRING
            )
            self._teller.open[key] = row["id"]
            self._teller.downstream[key] = row["downstream"]
            self._shown.take_over(key, State.FIRING.value, row["started_at"])
        states = await incidents.states(connection)
        conditions = {row["alert"]: row["condition"] for row in states if not row["subject"]}
        for row in states:
            key = (row["alert"], row["subject"])
            of = known.get(row["alert"])
            if of is None:
                self._shown.take_over(key)
                continue
            self._shown.take_over(key, row["state"], row["since"])
            if row["state"] == State.PENDING and conditions.get(of.name) == of.condition.text:
                self._wait_on(key, of, (now - row["since"]).total_seconds())

    def _wait_on(self, key: Key, rule: Rule, seconds: float) -> None:
        """A condition that has held for a while, but not for as long as its rule asks."""
        as_a_whole = key[1] == NO_SUBJECT and rule.condition.scope is not Scope.SERVICE
        if key not in self._tracked and not as_a_whole:
            self._tracked[key] = Tracked(
                rule.hold_seconds,
                rule.keep_seconds,
                state=State.PENDING,
                true_since=self._clock() - max(0.0, seconds),
            )

    async def service(self, values: Mapping[str, Any], *, writable: bool = True) -> None:
        """Evaluate what is about the service as a whole; without a database only its health."""
        self._service = dict(values)
        self.walk_begins(Scope.SERVICE)
        rules = self.of(Scope.SERVICE)
        found = [(rule, _SERVICE, self._evaluate(rule, {})) for rule in rules]
        await self._take(found, writable=writable, walking=True)
        for rule in rules:
            self._standing[rule.name].end()

    async def jobs(self, ids: Sequence[UUID], *, walking: bool = False) -> None:
        """Evaluate what is about runs, for these jobs."""
        rules = self.of(Scope.JOB)
        if not rules or not ids:
            return
        now = datetime.now(UTC)
        async with self._pool.connection() as connection:
            looked = await facts.jobs(connection, ids, self.names(Scope.JOB), now)
        for some in _parts(looked, len(rules)):
            found = [(r, _subject(job), self._judge(r, job)) for job in some for r in rules]
            await self._take(found, walking=walking)
            await asyncio.sleep(0)

    async def datasets(self, ids: Sequence[UUID], *, walking: bool = False) -> None:
        """Evaluate what is about datasets, for these."""
        rules = self.of(Scope.DATASET)
        if not rules or not ids:
            return
        now = datetime.now(UTC)
        async with self._pool.connection() as connection:
            looked = await facts.datasets(connection, ids, self.names(Scope.DATASET), now)
        for some in _parts(looked, len(rules)):
            found = [
                (r, _subject(each), self._evaluate(r, each.values)) for each in some for r in rules
            ]
            await self._take(found, walking=walking)
            await asyncio.sleep(0)

    def _judge(self, rule: Rule, job: facts.JobFacts) -> Verdict:
        verdict = self._evaluate(rule, job.latest)
        young = job.going_seconds is not None and job.going_seconds < _SETTLE_SECONDS
        says_nothing = verdict.truth in (Truth.FALSE, Truth.NO_DATA)
        if says_nothing and young and job.before is not None:
            return self._evaluate(rule, job.before)
        return verdict

    def _evaluate(self, rule: Rule, values: Json) -> Verdict:
        names = rule.condition.names
        found = {name: values.get(name, self._service.get(name)) for name in names}
        return rule.condition.evaluate(found)

    async def _take(
        self,
        found: Sequence[tuple[Rule, Subject, Verdict]],
        *,
        walking: bool,
        writable: bool = True,
        answers: bool = True,
    ) -> None:
        now = self._clock()
        for rule, subject, verdict in found:
            key = (rule.name, subject.text)
            self._unseen.get(rule.condition.scope, {}).pop(key, None)
            standing = self._standing[rule.name]
            if answers:
                standing.note(verdict, walking=walking)
            tracked = self._tracked.get(key) or Tracked(rule.hold_seconds, rule.keep_seconds)
            change = tracked.step(verdict.truth, now)
            if change is Change.FIRED and self._open_of(rule) >= self._most:
                # Too many at once help nobody: it fires when another has ended.
                tracked.open, tracked.state, change = False, State.PENDING, None
                standing.note_held_back(walking=walking)
            self._keep(key, tracked, verdict)
            if change is not None:
                happening = Transition(rule, subject, change, verdict.value, datetime.now(UTC))
                await self._tell(happening, tracked, writable=writable)

    def _keep(self, key: Key, tracked: Tracked, verdict: Verdict) -> None:
        # A subject that is ok needs no memory; nor does one without data and without an incident.
        if tracked.open or tracked.state is State.PENDING or key[1] == NO_SUBJECT:
            self._tracked[key] = tracked
            self._verdicts[key] = verdict
        else:
            self._tracked.pop(key, None)
            self._verdicts.pop(key, None)

    def _open_of(self, rule: Rule) -> int:
        return sum(1 for alert, _ in self._teller.open if alert == rule.name)

    async def _tell(self, happening: Transition, tracked: Tracked, *, writable: bool) -> None:
        try:
            await self._teller.tell(happening, writable=writable)
        except Exception:
            # Not written: it happens again with the next evaluation.
            tracked.open = happening.change is Change.ENDED
            self._tracked[happening.key] = tracked
            raise

    def walk_begins(self, scope: Scope) -> None:
        """All subjects of the scope are about to be looked at anew."""
        rules = {rule.name: rule for rule in self.of(scope)}
        for name in rules:
            self._standing[name].begin()
        self._unseen[scope] = {k: rules[k[0]] for k in self._tracked if k[0] in rules}

    async def walk_ends(self, scope: Scope) -> None:
        """What was not met on the way is gone from the catalog: its incidents end."""
        gone = self._unseen.pop(scope, {})
        what = "the job or its last run" if scope is Scope.JOB else "the dataset"
        verdict = Verdict(Truth.FALSE, f"{what} is no longer in the catalog")
        found = [(rule, Subject(text), verdict) for (_, text), rule in gone.items()]
        # No answers: nobody was there to give one.
        await self._take(found, walking=False, answers=False)
        for rule in self.of(scope):
            self._standing[rule.name].end()

    async def write(self) -> None:
        """Write how everything stands, where it differs from what was written."""
        now = datetime.now(UTC)
        rows: list[Row] = []
        subjects: dict[str, list[Key]] = defaultdict(list)
        for key in self._tracked:
            subjects[key[0]].append(key)
        for rule in self.rules:
            keys = subjects[rule.name]
            rows.append(self._rule_row(rule, {self._tracked[key].state for key in keys}, now))
            # Of many, those with an incident first.
            keys.sort(key=lambda key: not self._tracked[key].open)
            shown = [key for key in keys if key[1] != NO_SUBJECT][:_MAX_SHOWN]
            rows += [self._subject_row(key, now) for key in shown]
        if self.file_problem is not None:
            rows.append(self._shown.file_row(self.file_problem, now))
        await self._shown.write(rows)

    def _rule_row(self, rule: Rule, states: set[State], now: datetime) -> Row:
        standing = self._standing[rule.name]
        key = (rule.name, NO_SUBJECT)
        verdict = self._verdicts.get(key)
        body = {
            "severity": rule.severity,
            "summary": rule.summary,
            "condition": rule.condition.text,
            "runbook": rule.runbook,
            "channels": list(rule.channels),
            "problem": standing.problem,
            "withoutData": standing.without_data,
            "heldBack": standing.held_back,
            **self._downstream(key),
        }
        value = verdict.value if verdict else ""
        return self._shown.row(key, standing.together(states), value, body, now)

    def _subject_row(self, key: Key, now: datetime) -> Row:
        verdict, state = self._verdicts.get(key), self._tracked[key].state
        body = {"problem": verdict.problem if verdict else None, **self._downstream(key)}
        return self._shown.row(key, state, verdict.value if verdict else "", body, now)

    def _downstream(self, key: Key) -> Json:
        names = self._teller.downstream.get(key, [])
        return {"downstream": names[:20], "downstreamCount": len(names)} if names else {}


def _subject(found: facts.JobFacts | facts.DatasetFacts) -> Subject:
    return Subject(found.subject, found.id, found.namespace, found.name)


def _parts(found: Sequence[_T], rules: int) -> Iterator[Sequence[_T]]:
    """Parts that are evaluated without a break: so many that others do not notice."""
    size = max(1, _TOGETHER // rules)
    for start in range(0, len(found), size):
        yield found[start : start + size]
