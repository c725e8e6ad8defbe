"""The status of a rule over all of its subjects, and writing it for the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from headwater.catalog.alerting.conditions import ConditionResult, Truth
from headwater.catalog.alerting.state import AlertState
from headwater.catalog.store import incidents
from headwater.catalog.store.pool import Pool
from headwater.catalog.store.values import Json, Row

# The name of an alert and its subject.
Key = tuple[str, str]
# The subject of service alerts, and of the row that summarises an alert.
NO_SUBJECT = ""
# The name under which an invalid rules file is shown: no alert can have it.
_FILE = "(rules file)"


@dataclass(slots=True)
class _Scan:
    """Results of one scan over all subjects."""

    evaluated: bool = False
    problem: str | None = None
    without_data: int = 0
    held_back: int = 0


class RuleStatus:
    """Combines the results of the current scan with those of the last one until it is complete."""

    def __init__(self) -> None:
        self._current = _Scan()
        self._previous = _Scan()
        self._complete = False

    def start_scan(self) -> None:
        self._previous, self._current, self._complete = self._current, _Scan(), False

    def end_scan(self) -> None:
        self._complete = True

    def add(self, result: ConditionResult, *, scanning: bool) -> None:
        """Add a result. Subjects are counted only in a scan, which visits each of them once."""
        self._current.evaluated |= result.truth in (Truth.TRUE, Truth.FALSE)
        if result.truth is Truth.ERROR:
            self._current.problem = result.problem
        if scanning and result.truth is Truth.NO_DATA:
            self._current.without_data += 1

    def add_held_back(self, *, scanning: bool) -> None:
        self._current.held_back += scanning

    @property
    def evaluated(self) -> bool:
        """Whether the condition was true or false for any subject."""
        return self._current.evaluated or (not self._complete and self._previous.evaluated)

    @property
    def problem(self) -> str | None:
        """The error of one of the subjects."""
        return self._current.problem or (None if self._complete else self._previous.problem)

    @property
    def without_data(self) -> int:
        """How many subjects lack the data for the condition."""
        previous = 0 if self._complete else self._previous.without_data
        return max(self._current.without_data, previous)

    @property
    def held_back(self) -> int:
        """How many subjects would fire if fewer incidents were open."""
        return max(self._current.held_back, 0 if self._complete else self._previous.held_back)

    def combine(self, states: set[AlertState]) -> AlertState:
        """One state for the rule; `states` omits subjects that are ok."""
        for worst in (AlertState.FIRING, AlertState.PENDING, AlertState.ERROR):
            if worst in states:
                return worst
        if self.problem:
            return AlertState.ERROR
        if AlertState.NO_DATA in states or not self.evaluated:
            return AlertState.NO_DATA
        return AlertState.OK


class StateWriter:
    """Writes the states of alerts and their subjects; only rows that changed are written."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._since: dict[Key, tuple[str, datetime]] = {}
        self._written: dict[Key, Json] = {}

    def restore(self, key: Key, state: str | None = None, since: datetime | None = None) -> None:
        """Register a row that an earlier service wrote; without a state it will be deleted."""
        self._written.setdefault(key, {})
        if state is not None and since is not None:
            self._since.setdefault(key, (state, since))

    def row(self, key: Key, state: AlertState, value: str, body: Json, now: datetime) -> Row:
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
        """The row that shows an invalid rules file."""
        body = {"severity": "critical", "problem": problem}
        return self.row((_FILE, NO_SUBJECT), AlertState.ERROR, "", body, now)

    async def write(self, rows: Sequence[Row]) -> None:
        """Write all current rows; other rows are deleted."""
        current = {(row["alert"], row["subject"]): row for row in rows}
        changed = [row for key, row in current.items() if self._written.get(key) != row]
        removed = [key for key in self._written if key not in current]
        if changed or removed:
            async with self._pool.connection() as connection:
                await incidents.write_states(connection, changed, removed)
        self._written = dict(current)
        self._since = {key: value for key, value in self._since.items() if key in current}
