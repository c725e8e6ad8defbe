"""Conditions: scopes, errors with positions, limits, and evaluation."""

from __future__ import annotations

import pytest

from headwater.catalog.alerting.conditions import MAX_CHARACTERS, Truth, compile_condition
from headwater.catalog.alerting.fields import FIELDS, Scope
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
def test_the_fields_of_a_condition_determine_its_scope(text: str, scope: Scope) -> None:
    assert compile_condition(text).scope is scope


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("job_run.stat == 'FAILED'", 8, "job_run.stat"),
        ("true && unknown_name > 1", 9, "unknown_name"),
        ("job_run.state > 20", 15, "_>_"),
        ("consumer_lag >", 15, "Syntax error"),
        ("__import__('os').system('true')", 11, "__import__"),
        ("job_run.__class__ == 'x'", 8, "__class__"),
        ("''.__class__.__mro__", 3, "select"),
        ("consumer_lag", 1, "must be a boolean expression, got int"),
        ("job_run.lag > 1 && dataset.row_count > 1", 1, "not of both"),
    ],
)
def test_a_mistake_is_reported_with_its_position(text: str, column: int, reason: str) -> None:
    with pytest.raises(BadConditionError) as error:
        compile_condition(text)
    assert reason in error.value.message
    assert (error.value.line, error.value.column) == (1, column)


def test_the_position_has_a_line_number() -> None:
    with pytest.raises(BadConditionError) as error:
        compile_condition("consumer_lag > 1\n  && unknown_name")
    assert (error.value.line, error.value.column) == (2, 6)


NUMBERS = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


@pytest.mark.parametrize(
    "text",
    ["'" + "a" * 1_000_000 + "' == 'b'", "true" + " " * MAX_CHARACTERS, "(" * 500 + "1"],
    ids=["1 MB", "blank", "deep"],
)
@pytest.mark.timeout(20)
def test_a_condition_that_is_too_long_or_too_deep_is_rejected(text: str) -> None:
    with pytest.raises(BadConditionError):
        compile_condition(text)


# Without the budget, 10^8 iterations would take minutes.
@pytest.mark.timeout(20)
def test_nested_loops_end_after_the_iteration_budget() -> None:
    text = "true"
    for depth in range(8):
        text = f"{NUMBERS}.all(v{depth}, {text})"
    result = compile_condition(text).evaluate({})
    assert result.truth is Truth.ERROR
    assert result.problem == "Iteration budget exceeded"


@pytest.mark.timeout(20)
def test_a_regular_expression_is_matched_in_linear_time() -> None:
    condition = compile_condition("job_run.error.matches('^(a+)+$')")
    assert condition.evaluate({"job_run.error": "a" * 1000 + "!"}).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("value", "truth"),
    [(21.0, Truth.TRUE), (20.0, Truth.FALSE), (None, Truth.NO_DATA)],
)
def test_int_and_double_are_comparable_and_a_missing_value_means_no_data(
    value: float | None, truth: Truth
) -> None:
    condition = compile_condition("job_without_lineage_percentage > 20")
    assert condition.evaluate({"job_without_lineage_percentage": value}).truth is truth


def test_a_missing_value_does_not_matter_if_the_others_decide() -> None:
    condition = compile_condition("failed_runs > 3 || consumer_lag > 10")
    assert condition.evaluate({"failed_runs": 4}).truth is Truth.TRUE
    assert condition.evaluate({"failed_runs": 2}).truth is Truth.NO_DATA


def test_a_division_by_zero_is_an_error() -> None:
    result = compile_condition("failed_runs / jobs > 1").evaluate({"failed_runs": 1, "jobs": 0})
    assert (result.truth, result.problem) == (Truth.ERROR, "divide by zero")


def test_the_result_shows_the_values_up_to_a_length() -> None:
    condition = compile_condition("job_run.error.contains('x') && job_run.duration_seconds > 1")
    result = condition.evaluate({"job_run.error": "x", "job_run.duration_seconds": 12.3456})
    assert result.value == "job_run.error = x, job_run.duration_seconds = 12.35"
    assert len(condition.evaluate({"job_run.error": "x" * 9999}).value) == 300


def test_a_word_in_a_string_is_not_a_field() -> None:
    assert compile_condition("job_run.error == 'jobs and datasets'").fields == ("job_run.error",)


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
def test_fields_next_to_comments_and_strings_are_found(text: str) -> None:
    condition = compile_condition(text)
    assert condition.fields == ("failed_runs", "jobs")
    assert condition.evaluate({"failed_runs": 2, "jobs": 2}).truth is Truth.TRUE


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "a\x1b[31m"])
def test_characters_that_postgresql_rejects_are_removed_from_shown_values(text: str) -> None:
    condition = compile_condition("job_run.error != ''")
    result = condition.evaluate({"job_run.error": text})
    assert result.truth in (Truth.TRUE, Truth.ERROR)
    assert f"{result.value}{result.problem}".isprintable()


def test_every_field_can_be_used() -> None:
    texts = {"bool": "{} == true", "int": "{} > 1", "double": "{} > 1", "string": "{} == ''"}
    for each in FIELDS.values():
        condition = compile_condition(texts[each.kind].format(each.name))
        assert condition.scope is each.scope
        assert condition.fields == (each.name,)
