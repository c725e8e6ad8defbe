"""The state of one alert: when it fires, when it ends, and what does neither."""

from __future__ import annotations

import pytest

from headwater.catalog.alerting.conditions import Truth
from headwater.catalog.alerting.state import Change, State, Tracked

T, F, N, E = Truth.TRUE, Truth.FALSE, Truth.NO_DATA, Truth.ERROR


def steps(tracked: Tracked, *found: tuple[float, Truth]) -> list[tuple[Change | None, State]]:
    return [(tracked.step(truth, now), tracked.state) for now, truth in found]


def test_without_a_hold_it_fires_and_ends_at_once_and_once_each() -> None:
    assert steps(Tracked(0, 0), (0, F), (1, T), (2, T), (3, F), (4, F)) == [
        (None, State.OK),
        (Change.FIRED, State.FIRING),
        (None, State.FIRING),
        (Change.ENDED, State.OK),
        (None, State.OK),
    ]


def test_it_is_pending_until_it_held_for_the_whole_time() -> None:
    assert steps(Tracked(10, 0), (0, T), (9.9, T), (10, T)) == [
        (None, State.PENDING),
        (None, State.PENDING),
        (Change.FIRED, State.FIRING),
    ]


def test_what_flaps_within_the_hold_never_fires() -> None:
    tracked = Tracked(10, 0)
    found = [(float(now), T if now % 3 else F) for now in range(100)]
    assert not any(change for change, _ in steps(tracked, *found))


def test_what_flaps_while_it_is_kept_firing_is_one_incident() -> None:
    tracked = Tracked(0, 10)
    found = [(float(now), T if now % 3 else F) for now in range(1, 100)]
    changes = [change for change, _ in steps(tracked, *found) if change]
    assert changes == [Change.FIRED]
    assert steps(tracked, (100, T), (101, F), (110.9, F), (111, F))[-1] == (Change.ENDED, State.OK)


def test_missing_data_are_a_state_of_their_own_and_neither_begin_nor_end_an_incident() -> None:
    assert steps(Tracked(0, 0), (0, N), (1, T), (2, N), (3, N), (4, T), (5, F)) == [
        (None, State.NO_DATA),
        (Change.FIRED, State.FIRING),
        (None, State.NO_DATA),
        (None, State.NO_DATA),
        (None, State.FIRING),
        (Change.ENDED, State.OK),
    ]


@pytest.mark.parametrize("gap", [N, E])
def test_a_gap_in_the_data_begins_the_hold_anew(gap: Truth) -> None:
    assert not any(c for c, _ in steps(Tracked(10, 0), (0, T), (5, gap), (6, T), (15, T)))
    tracked = Tracked(0, 10, open=True)
    assert not any(c for c, _ in steps(tracked, (0, F), (5, gap), (6, F), (15, F)))


def test_a_condition_that_fails_is_an_error_and_keeps_its_incident() -> None:
    tracked = Tracked(0, 0, open=True, state=State.FIRING)
    assert steps(tracked, (0, E), (1, T)) == [(None, State.ERROR), (None, State.FIRING)]


def test_an_incident_that_was_open_before_goes_on_without_being_told_again() -> None:
    tracked = Tracked(60, 0, open=True, state=State.FIRING)
    assert steps(tracked, (0, T), (100, T), (200, F)) == [
        (None, State.FIRING),
        (None, State.FIRING),
        (Change.ENDED, State.OK),
    ]
