"""How one alert stands for one subject, step by step. Time is a number of seconds that only grows:
a clock that is set, by a second or a day, neither fires nor ends anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headwater.catalog.alerting.conditions import Truth


class State(StrEnum):
    """What is shown."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    NO_DATA = "no data"
    ERROR = "error"


class Change(StrEnum):
    """What a step came to: an incident began, or ended."""

    FIRED = "fired"
    ENDED = "ended"


@dataclass(slots=True)
class Tracked:
    """An alert's condition for one subject. `open` says whether an incident goes on.

    An incident begins when the condition has held for `hold` seconds without a break, and ends
    when it has not held for `keep` seconds. While data are missing, or the condition can't be
    evaluated, an incident goes on: nobody knows better.
    """

    hold: float
    keep: float
    open: bool = False
    state: State = State.OK
    true_since: float | None = None
    false_since: float | None = None

    def step(self, truth: Truth, now: float) -> Change | None:
        """Take what was found at a moment."""
        if truth is Truth.TRUE:
            return self._holds(now)
        self.true_since = None
        if truth is Truth.FALSE:
            return self._holds_not(now)
        self.false_since = None
        self.state = State.NO_DATA if truth is Truth.NO_DATA else State.ERROR
        return None

    def _holds(self, now: float) -> Change | None:
        self.false_since = None
        if self.open:
            self.state = State.FIRING
            return None
        if self.true_since is None:
            self.true_since = now
        if now - self.true_since < self.hold:
            self.state = State.PENDING
            return None
        self.open, self.state = True, State.FIRING
        return Change.FIRED

    def _holds_not(self, now: float) -> Change | None:
        if not self.open:
            self.state = State.OK
            return None
        if self.false_since is None:
            self.false_since = now
        if now - self.false_since < self.keep:
            self.state = State.FIRING
            return None
        self.open, self.state, self.false_since = False, State.OK, None
        return Change.ENDED
