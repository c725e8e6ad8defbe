"""The state machine of one alert for one subject. Time is monotonic seconds, so that changes of
the system clock neither fire nor end an alert."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headwater.catalog.alerting.conditions import Truth


class AlertState(StrEnum):
    """The state of an alert."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    NO_DATA = "no data"
    ERROR = "error"


class Change(StrEnum):
    """The outcome of a step: an incident began, or ended."""

    FIRED = "fired"
    ENDED = "ended"


@dataclass(slots=True)
class TrackedAlert:
    """An alert for one subject. `open` states whether it has an open incident.

    An incident begins when the condition has been true for `hold` seconds without interruption,
    and ends when it has been false for `keep` seconds. It stays open while data are missing or
    the condition can't be evaluated.
    """

    hold: float
    keep: float
    open: bool = False
    state: AlertState = AlertState.OK
    true_since: float | None = None
    false_since: float | None = None

    def step(self, truth: Truth, now: float) -> Change | None:
        """Apply the result of an evaluation."""
        if truth is Truth.TRUE:
            return self._is_true(now)
        self.true_since = None
        if truth is Truth.FALSE:
            return self._is_false(now)
        self.false_since = None
        self.state = AlertState.NO_DATA if truth is Truth.NO_DATA else AlertState.ERROR
        return None

    def _is_true(self, now: float) -> Change | None:
        self.false_since = None
        if self.open:
            self.state = AlertState.FIRING
            return None
        if self.true_since is None:
            self.true_since = now
        if now - self.true_since < self.hold:
            self.state = AlertState.PENDING
            return None
        self.open, self.state = True, AlertState.FIRING
        return Change.FIRED

    def _is_false(self, now: float) -> Change | None:
        if not self.open:
            self.state = AlertState.OK
            return None
        if self.false_since is None:
            self.false_since = now
        if now - self.false_since < self.keep:
            self.state = AlertState.FIRING
            return None
        self.open, self.state, self.false_since = False, AlertState.OK, None
        return Change.ENDED
