"""The route between two topics, and which of many verdicts is the result."""

from __future__ import annotations

from headwater.model import Address
from headwater.tracing import Fate, Verdict
from headwater.tracing.fate import conclude
from headwater.tracing.report import CoverageState, VerifyReport
from headwater.tracing.route import _ordered

IN = Address("in", 0, 1)


def verdict(output: str, fate: Fate, *, went_on: bool = False) -> Verdict:
    return Verdict(IN, output, fate, "", went_on=went_on)


def test_topics_are_in_the_order_in_which_records_pass_them() -> None:
    inputs = {"out": {"b", "a", "ads"}, "b": {"a"}, "a": {"in"}, "ads": {"elsewhere"}}
    route = _ordered("in", "out", inputs)
    assert list(route) == ["a", "b", "out"]
    assert route == {"a": {"in"}, "b": {"a"}, "out": {"a", "b"}}


def test_a_cycle_is_cut_and_unconnected_topics_have_no_route() -> None:
    cycle = {"out": {"a"}, "a": {"out", "in"}}
    assert _ordered("in", "out", cycle) == {"a": {"in"}, "out": {"a"}}
    assert _ordered("other", "out", cycle) == {}


def test_an_arrival_takes_precedence_over_ends() -> None:
    dead = verdict("out", Fate.DEAD_LETTERED)
    arrived = verdict("out", Fate.PRESENT, went_on=True)
    assert conclude(IN, "out", [arrived, dead]).verdict is arrived
    assert conclude(IN, "out", [dead, arrived]).present


def test_without_an_arrival_the_last_end_is_the_result() -> None:
    first = verdict("a", Fate.DEAD_LETTERED, went_on=True)
    intermediate = verdict("a", Fate.PRESENT, went_on=True)
    last = verdict("out", Fate.FILTERED)
    result = conclude(IN, "out", [first, intermediate, last])
    assert (result.fate, result.present, len(result.hops)) == (Fate.FILTERED, False, 3)


def test_unlisted_parents_make_missing_records_uncertain() -> None:
    def state(missing: int, unlisted: int) -> tuple[CoverageState, int]:
        report = VerifyReport("out", "in", expected=9, missing=missing, unlisted_parents=unlisted)
        assert report.passed == (missing == 0)
        return report.state, report.surely_missing

    assert state(0, 5) == (CoverageState.FULL, 0)
    assert state(5, 5) == (CoverageState.UNCERTAIN, 0)
    assert state(9, 100) == (CoverageState.UNCERTAIN, 0)
    assert state(6, 5) == (CoverageState.PARTIAL, 1)
    assert state(9, 5) == (CoverageState.MISSING, 4)
