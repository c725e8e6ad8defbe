"""The search for the records from which a transform makes a record, with transforms in Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.replay.parent_search import Found, Part, TrialResult, find_parents

Transform = Callable[[Sequence[int]], list[str]]


class InMemory:
    """Runs a function on the values at some positions."""

    def __init__(
        self, values: Sequence[int], function: Transform, wanted: str, isolated: bool
    ) -> None:
        self.values, self.function, self.wanted = values, function, wanted
        self.isolated = isolated
        self.runs = 0

    def run(self, parts: Sequence[Part]) -> list[TrialResult]:
        self.runs += len(parts)
        results = []
        for part in parts:
            outputs = self.function([self.values[position] for position in part])
            made = outputs.count(self.wanted)
            results.append(TrialResult(made, len(outputs), sum(map(hash, outputs))))
        return results


def search(
    values: Sequence[int],
    function: Transform,
    wanted: str,
    *,
    isolated: bool = True,
    max_runs: int = 200,
) -> Found:
    trials = InMemory(values, function, wanted, isolated)
    found = find_parents([tuple(range(len(values)))], trials, max_runs)
    assert trials.runs <= max_runs
    return found


def doubled(values: Sequence[int]) -> list[str]:
    return [str(2 * value) for value in values]


def pair_sums(values: Sequence[int]) -> list[str]:
    return [str(one + two) for one, two in itertools.combinations(values, 2)]


def greatest(values: Sequence[int]) -> list[str]:
    return [str(max(values))] if values else []


def test_a_transform_of_single_records_has_one_parent() -> None:
    assert search(range(1000), doubled, "84") == Found(parents=(42,), by_record=True)


def test_equal_records_are_candidates() -> None:
    values = [7 if number in {3, 400, 999} else number + 10 for number in range(1000)]
    assert search(values, doubled, "14") == Found(candidates=(3, 400, 999), by_record=True)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60), st.data())
def test_the_parents_of_any_records_are_those_with_the_value(
    values: list[int], data: st.DataObject
) -> None:
    value = data.draw(st.sampled_from(values))
    positions = tuple(number for number, each in enumerate(values) if each == value)
    found = search(values, doubled, str(2 * value), max_runs=1000)
    assert (found.parents or found.candidates, found.by_record) == (positions, True)
    assert bool(found.parents) == (len(positions) == 1)


@pytest.mark.parametrize("isolated", [True, False])
def test_a_transform_of_several_records_has_the_smallest_set_that_makes_the_output(
    isolated: bool,
) -> None:
    values = [2**number for number in range(20)]
    found = search(values, pair_sums, str(2**3 + 2**11), isolated=isolated)
    assert found == Found(parents=(3, 11))


def test_a_record_that_decides_over_others_is_not_shown_as_record_by_record() -> None:
    assert search([3, 9, 4, 1], greatest, "9") == Found(parents=(1,))


def test_equal_records_that_decide_are_candidates() -> None:
    assert search([3, 9, 4, 9], greatest, "9", isolated=False) == Found(candidates=(1, 3))


def test_several_sets_are_not_shown_as_parents() -> None:
    found = search([1, 4, 2, 3], pair_sums, "5", isolated=False)
    assert (found.parents, found.candidates) == ((), ())
    assert found.reason == "several sets of records make it"


def test_an_output_that_depends_on_the_number_of_records_is_not_resolved() -> None:
    found = search(range(9), lambda values: [str(len(values))], "5", isolated=False)
    assert found.reason is not None
    assert "does not make it" in found.reason
    found = search(range(9), lambda values: [str(min(len(values), 5))], "5", isolated=False)
    assert found.reason == "several sets of records make it"


def test_a_constant_is_made_from_no_record() -> None:
    found = search(range(4), lambda values: ["always"], "always")
    assert found.reason == "the transform makes it without any record"


def test_a_transform_with_another_result_in_each_run_is_not_resolved() -> None:
    numbers = itertools.count()
    found = search(range(4), lambda values: [str(next(numbers))], "0")
    assert found.reason is not None
    assert "not deterministic" in found.reason


def test_the_number_of_runs_is_limited() -> None:
    found = search(range(1000), doubled, "84", max_runs=10)
    assert found == Found(reason="the limit of 10 runs of the transform is reached")


def test_records_of_several_tasks_are_searched_in_each() -> None:
    trials = InMemory([1, 2, 3, 4, 5], doubled, "8", isolated=True)
    assert find_parents([(0, 1), (2, 3, 4)], trials, 200).parents == (3,)
