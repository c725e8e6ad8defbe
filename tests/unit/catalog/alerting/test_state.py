"""The state machine of one alert: when it fires and when it ends."""

from __future__ import annotations

import pytest

from headwater.catalog.alerting.conditions import Truth
from headwater.catalog.alerting.state import AlertState, Change, TrackedAlert

T, F, N, E = Truth.TRUE, Truth.FALSE, Truth.NO_DATA, Truth.ERROR


def steps(
    tracked: TrackedAlert, *results: tuple[float, Truth]
) -> list[tuple[Change | None, AlertState]]:
    return [(tracked.step(truth, now), tracked.state) for now, truth in results]


def test_without_a_hold_time_it_fires_and_ends_at_once() -> None:
    assert steps(TrackedAlert(0, 0), (0, F), (1, T), (2, T), (3, F), (4, F)) == [
        (None, AlertState.OK),
        (Change.FIRED, AlertState.FIRING),
        (None, AlertState.FIRING),
        (Change.ENDED, AlertState.OK),
        (None, AlertState.OK),
    ]


def test_it_is_pending_until_the_hold_time_has_passed() -> None:
    assert steps(TrackedAlert(10, 0), (0, T), (9.9, T), (10, T)) == [
        (None, AlertState.PENDING),
        (None, AlertState.PENDING),
        (Change.FIRED, AlertState.FIRING),
    ]


def test_a_condition_that_flaps_within_the_hold_time_never_fires() -> None:
    tracked = TrackedAlert(10, 0)
    results = [(float(now), T if now % 3 else F) for now in range(100)]
    assert not any(change for change, _ in steps(tracked, *results))


def test_a_condition_that_flaps_within_the_keep_time_is_one_incident() -> None:
    tracked = TrackedAlert(0, 10)
    results = [(float(now), T if now % 3 else F) for now in range(1, 100)]
    changes = [change for change, _ in steps(tracked, *results) if change]
    assert changes == [Change.FIRED]
    assert steps(tracked, (100, T), (101, F), (110.9, F), (111, F))[-1] == (
        Change.ENDED,
        AlertState.OK,
    )


def test_missing_data_neither_begin_nor_end_an_incident() -> None:
    assert steps(TrackedAlert(0, 0), (0, N), (1, T), (2, N), (3, N), (4, T), (5, F)) == [
        (None, AlertState.NO_DATA),
        (Change.FIRED, AlertState.FIRING),
        (None, AlertState.NO_DATA),
        (None, AlertState.NO_DATA),
        (None, AlertState.FIRING),
        (Change.ENDED, AlertState.OK),
    ]


@pytest.mark.parametrize("gap", [N, E])
def test_a_gap_in_the_data_restarts_the_hold_time(gap: Truth) -> None:
    assert not any(c for c, _ in steps(TrackedAlert(10, 0), (0, T), (5, gap), (6, T), (15, T)))
    tracked = TrackedAlert(0, 10, open=True)
    assert not any(c for c, _ in steps(tracked, (0, F), (5, gap), (6, F), (15, F)))


def test_an_incident_stays_open_while_its_condition_fails() -> None:
    tracked = TrackedAlert(0, 0, open=True, state=AlertState.FIRING)
    assert steps(tracked, (0, E), (1, T)) == [(None, AlertState.ERROR), (None, AlertState.FIRING)]


def test_an_incident_that_was_open_before_does_not_fire_again() -> None:
    tracked = TrackedAlert(60, 0, open=True, state=AlertState.FIRING)
    assert steps(tracked, (0, T), (100, T), (200, F)) == [
        (None, AlertState.FIRING),
        (None, AlertState.FIRING),
        (Change.ENDED, AlertState.OK),
    ]
