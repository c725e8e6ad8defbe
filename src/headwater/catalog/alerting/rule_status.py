"""How a rule stands over all of its subjects, and what is written of it for others to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.catalog.alerting.conditions import Truth, Verdict
from headwater.catalog.alerting.state import State
from headwater.catalog.store import incidents
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Json, Row

Key = tuple[str, str]
# An alert as a whole, and what it is about the service itself.
NO_SUBJECT = ""
# How a bad rules file is shown: no alert can have this name.
_FILE = "(rules file)"


@dataclass(slots=True)
class _Walk:
    """What one walk over all subjects has met so far."""

    judged: bool = False
    problem: str | None = None
    without_data: int = 0
    held_back: int = 0


class RuleStatus:
    """What was met in the walk that goes on; until it is whole, the one before it counts, too."""

    def __init__(self) -> None:
        self._now = _Walk()
        self._before = _Walk()
        self._whole = False

    def begin(self) -> None:
        self._before, self._now, self._whole = self._now, _Walk(), False

    def end(self) -> None:
        self._whole = True

    def note(self, verdict: Verdict, *, walking: bool) -> None:
        """Beside a walk a subject is met once more: then it is not counted."""
        self._now.judged |= verdict.truth in (Truth.TRUE, Truth.FALSE)
        if verdict.truth is Truth.ERROR:
            self._now.problem = verdict.problem
        if walking and verdict.truth is Truth.NO_DATA:
            self._now.without_data += 1

    def note_held_back(self, *, walking: bool) -> None:
        self._now.held_back += walking

    @property
    def judged(self) -> bool:
        """Whether any subject gave an answer."""
        return self._now.judged or (not self._whole and self._before.judged)

    @property
    def problem(self) -> str | None:
        """What went wrong with one of them."""
        return self._now.problem or (None if self._whole else self._before.problem)

    @property
    def without_data(self) -> int:
        """How many subjects gave no answer for want of data."""
        before = 0 if self._whole else self._before.without_data
        return max(self._now.without_data, before)

    @property
    def held_back(self) -> int:
        """How many would fire if fewer incidents were open."""
        return max(self._now.held_back, 0 if self._whole else self._before.held_back)

    def together(self, states: set[State]) -> State:
        """One state for the rule; subjects that are ok are not among the states."""
        for worst in (State.FIRING, State.PENDING, State.ERROR):
            if worst in states:
                return worst
        if self.problem:
            return State.ERROR
        if State.NO_DATA in states or not self.judged:
            return State.NO_DATA
        return State.OK


class Shown:
    """What is written of alerts and their subjects: only what has changed is written anew."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._since: dict[Key, tuple[str, datetime]] = {}
        self._written: dict[Key, Json] = {}

    def take_over(self, key: Key, state: str | None = None, since: datetime | None = None) -> None:
        """What a service before this one has written; without a state it is to be forgotten."""
        self._written.setdefault(key, {})
        if state is not None and since is not None:
            self._since.setdefault(key, (state, since))

    def row(self, key: Key, state: State, value: str, body: Json, now: datetime) -> Row:
        known = self._since.get(key)
        if known is None or known[0] != state.value:
            known = self._since[key] = (state.value, now)
        return {
            "alert": key[0],
            "subject": key[1],
            "state": state.value,
            "since": known[1],
            "value": value or None,
            "body": body,
        }

    def file_row(self, problem: str, now: datetime) -> Row:
        """That the rules file can't be used."""
        body = {"severity": "critical", "problem": problem}
        return self.row((_FILE, NO_SUBJECT), State.ERROR, "", body, now)

    async def write(self, rows: Sequence[Row]) -> None:
        """These are all that there are; others are forgotten."""
        current = {(row["alert"], row["subject"]): row for row in rows}
        changed = [row for key, row in current.items() if self._written.get(key) != row]
        gone = [key for key in self._written if key not in current]
        if changed or gone:
            async with self._pool.connection() as connection:
                await incidents.write_states(connection, changed, gone)
        self._written = dict(current)
        self._since = {key: value for key, value in self._since.items() if key in current}
