"""The way between two topics, and which of many findings is the answer."""

from __future__ import annotations

from headwater.model import Address
from headwater.tracing import Fate, Verdict
from headwater.tracing.fate import answer
from headwater.tracing.report import Coverage, VerifyReport
from headwater.tracing.route import _ordered

IN = Address("in", 0, 1)


def verdict(output: str, fate: Fate, *, went_on: bool = False) -> Verdict:
    return Verdict(IN, output, fate, "", went_on=went_on)


def test_topics_come_in_the_order_in_which_records_go_through_them() -> None:
    inputs = {"out": {"b", "a", "ads"}, "b": {"a"}, "a": {"in"}, "ads": {"elsewhere"}}
    route = _ordered("in", "out", inputs)
    assert list(route) == ["a", "b", "out"]
    assert route == {"a": {"in"}, "b": {"a"}, "out": {"a", "b"}}


def test_a_circle_is_cut_and_no_way_is_no_route() -> None:
    circle = {"out": {"a"}, "a": {"out", "in"}}
    assert _ordered("in", "out", circle) == {"a": {"in"}, "out": {"a"}}
    assert _ordered("other", "out", circle) == {}


def test_one_arrival_outweighs_every_end() -> None:
    dead = verdict("out", Fate.DEAD_LETTERED)
    arrived = verdict("out", Fate.PRESENT, went_on=True)
    assert answer(IN, "out", [arrived, dead]).verdict is arrived
    assert answer(IN, "out", [dead, arrived]).present


def test_without_an_arrival_the_last_end_is_the_answer() -> None:
    first = verdict("a", Fate.DEAD_LETTERED, went_on=True)
    on_the_way = verdict("a", Fate.PRESENT, went_on=True)
    last = verdict("out", Fate.FILTERED)
    found = answer(IN, "out", [first, on_the_way, last])
    assert (found.fate, found.present, len(found.hops)) == (Fate.FILTERED, False, 3)


def test_what_is_missing_is_surely_so_only_beyond_the_parents_that_no_header_lists() -> None:
    def state(missing: int, unlisted: int) -> tuple[Coverage, int]:
        report = VerifyReport("out", "in", expected=9, missing=missing, unlisted_parents=unlisted)
        assert report.passed == (missing == 0)
        return report.state, report.surely_missing

    assert state(0, 5) == (Coverage.FULL, 0)
    assert state(5, 5) == (Coverage.UNCERTAIN, 0)
    assert state(9, 100) == (Coverage.UNCERTAIN, 0)
    assert state(6, 5) == (Coverage.PARTIAL, 1)
    assert state(9, 5) == (Coverage.MISSING, 4)
