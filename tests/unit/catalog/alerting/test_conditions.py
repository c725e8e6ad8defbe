"""Conditions: what they know, what they refuse, and that none of them can do harm."""

from __future__ import annotations

import pytest

from headwater.catalog.alerting.conditions import MAX_CHARACTERS, Truth, compile_condition
from headwater.catalog.alerting.fields import NAMES, Scope
from headwater.errors import BadConditionError

FAILED = "job_run.state == 'FAILED'"


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        (FAILED, Scope.JOB),
        ("job_without_lineage_percentage > 20", Scope.SERVICE),
        ("marquez_health_check_failed", Scope.SERVICE),
        ("dataset.freshness_seconds > 2 * 3600", Scope.DATASET),
        ("job_run.lag > 1000 && consumer_lag > 5000", Scope.JOB),
        ("dataset.name.startsWith('visits') && dataset.failed_assertions > 0", Scope.DATASET),
    ],
)
def test_a_condition_is_about_what_its_names_are_about(text: str, scope: Scope) -> None:
    assert compile_condition(text).scope is scope


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("job_run.stat == 'FAILED'", 8, "job_run.stat"),
        ("true && nobody_knows > 1", 9, "nobody_knows"),
        ("job_run.state > 20", 15, "_>_"),
        ("consumer_lag >", 15, "Syntax error"),
        ("__import__('os').system('true')", 11, "__import__"),
        ("job_run.__class__ == 'x'", 8, "__class__"),
        ("''.__class__.__mro__", 3, "select"),
        ("consumer_lag", 1, "no question"),
        ("job_run.lag > 1 && dataset.row_count > 1", 1, "not both"),
    ],
)
def test_a_mistake_is_found_when_the_rule_is_read_with_its_place(
    text: str, column: int, reason: str
) -> None:
    with pytest.raises(BadConditionError) as error:
        compile_condition(text)
    assert reason in error.value.message
    assert (error.value.facts["line"], error.value.facts["column"]) == (1, column)


def test_the_place_counts_lines() -> None:
    with pytest.raises(BadConditionError) as error:
        compile_condition("consumer_lag > 1\n  && nobody_knows")
    assert (error.value.facts["line"], error.value.facts["column"]) == (2, 6)


NUMBERS = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


@pytest.mark.parametrize(
    "text",
    ["'" + "a" * 1_000_000 + "' == 'b'", "true" + " " * MAX_CHARACTERS, "(" * 500 + "1"],
    ids=["1 MB", "blank", "deep"],
)
@pytest.mark.timeout(20)
def test_a_text_that_is_too_long_or_nests_too_deep_is_refused(text: str) -> None:
    with pytest.raises(BadConditionError):
        compile_condition(text)


# Ten to the power of eight steps would take minutes.
@pytest.mark.timeout(20)
def test_loops_within_loops_end_by_a_budget() -> None:
    text = "true"
    for depth in range(8):
        text = f"{NUMBERS}.all(v{depth}, {text})"
    verdict = compile_condition(text).evaluate({})
    assert verdict.truth is Truth.ERROR
    assert verdict.problem == "Iteration budget exceeded"


@pytest.mark.timeout(20)
def test_a_regular_expression_can_not_take_for_ever() -> None:
    condition = compile_condition("job_run.error.matches('^(a+)+$')")
    assert condition.evaluate({"job_run.error": "a" * 1000 + "!"}).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("value", "truth"),
    [(21.0, Truth.TRUE), (20.0, Truth.FALSE), (None, Truth.NO_DATA)],
)
def test_numbers_of_different_kinds_compare_and_no_value_is_no_data(
    value: float | None, truth: Truth
) -> None:
    condition = compile_condition("job_without_lineage_percentage > 20")
    assert condition.evaluate({"job_without_lineage_percentage": value}).truth is truth


def test_what_is_known_may_be_enough() -> None:
    condition = compile_condition("failed_runs > 3 || consumer_lag > 10")
    assert condition.evaluate({"failed_runs": 4}).truth is Truth.TRUE
    assert condition.evaluate({"failed_runs": 2}).truth is Truth.NO_DATA


def test_a_division_by_zero_is_an_error_of_that_evaluation() -> None:
    verdict = compile_condition("failed_runs / jobs > 1").evaluate({"failed_runs": 1, "jobs": 0})
    assert (verdict.truth, verdict.problem) == (Truth.ERROR, "divide by zero")


def test_the_values_that_led_to_a_verdict_are_shown_within_bounds() -> None:
    condition = compile_condition("job_run.error.contains('x') && job_run.duration_seconds > 1")
    verdict = condition.evaluate({"job_run.error": "x", "job_run.duration_seconds": 12.3456})
    assert verdict.value == "job_run.error = x, job_run.duration_seconds = 12.35"
    assert len(condition.evaluate({"job_run.error": "x" * 9999}).value) == 300


def test_a_word_in_a_text_is_no_name() -> None:
    assert compile_condition("job_run.error == 'jobs and datasets'").names == ("job_run.error",)


@pytest.mark.parametrize(
    "text",
    [
        "failed_runs > 1 // don't page before\n && jobs > 1",
        "// it's\nfailed_runs > 1 && jobs > 1",
        """'a // no comment' != "" && failed_runs > 1 && jobs > 1""",
        "'''it's''' != 'x' && failed_runs > 1 && jobs > 1",
        '"""a " b""" != "x" && failed_runs > 1 && jobs > 1',
        r"r'\\' != 'datasets' && failed_runs > 1 && jobs > 1",
        r"'\'datasets' != 'x' && failed_runs > 1 && jobs > 1",
        r"bR'''it's \d''' != b'x' && failed_runs > 1 && jobs > 1",
        "'' != 'it' && failed_runs > 1 && jobs > 1",
    ],
)
def test_comments_and_texts_of_all_kinds_hide_no_name(text: str) -> None:
    condition = compile_condition(text)
    assert condition.names == ("failed_runs", "jobs")
    assert condition.evaluate({"failed_runs": 2, "jobs": 2}).truth is Truth.TRUE


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "a\x1b[31m"])
def test_a_value_that_no_database_takes_is_shown_without_what_is_bad_in_it(text: str) -> None:
    condition = compile_condition("job_run.error != ''")
    verdict = condition.evaluate({"job_run.error": text})
    assert verdict.truth in (Truth.TRUE, Truth.ERROR)
    assert f"{verdict.value}{verdict.problem}".isprintable()


def test_every_name_can_be_used() -> None:
    texts = {"bool": "{} == true", "int": "{} > 1", "double": "{} > 1", "string": "{} == ''"}
    for each in NAMES.values():
        condition = compile_condition(texts[each.kind].format(each.name))
        assert condition.scope is each.scope
        assert condition.names == (each.name,)
