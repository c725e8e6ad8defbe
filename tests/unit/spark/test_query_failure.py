"""The error of a failed query: the cause first, without stack traces and query plans."""

from __future__ import annotations

import pytest

from headwater.errors import AuthorizationError, BrokerUnavailableError, ProducerFencedError
from headwater.settings import Settings
from headwater.spark.query_failure import is_of_own_code, query_failed

TASK = (
    "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 0.0 (TID 0) (10.0.0.1 executor driver): "
)
END = """

Driver stacktrace: SQLSTATE: XXKST
=== Streaming Query ===
Identifier: copy [id = 1, runId = 2]

Logical Plan:
WriteToMicroBatchDataSource [queryName=copy, x=org.apache.kafka.common.errors.TimeoutException]
"""
ERRORS = "org.apache.kafka.common.errors"


def test_an_error_of_kafka_comes_first_and_decides_the_exit_code(
    headwater_settings: Settings,
) -> None:
    text = f"{TASK}{ERRORS}.TopicAuthorizationException: Not authorized to access topics: [in]{END}"
    error = query_failed("copy", RuntimeError(text), headwater_settings)
    assert error.message == (
        "query 'copy' failed: TopicAuthorizationException: Not authorized to access topics: [in]"
    )
    assert isinstance(error.cause, AuthorizationError)
    assert error.exit_code == 4
    assert (error.hint or "").startswith("User:ANONYMOUS needs Read on the topic 'in'")
    assert (error.hint or "").endswith("`headwater run --restarts N` does that")
    assert error.attributes == {"query": "copy"}


@pytest.mark.parametrize(
    ("thrown", "cause", "code"),
    [
        ("TimeoutException: no response", BrokerUnavailableError, 3),
        ("ProducerFencedException: a newer producer", ProducerFencedError, 1),
        # A restart creates missing topics.
        ("UnknownTopicOrPartitionException: no topic", type(None), 1),
    ],
)
def test_the_exit_code_is_that_of_the_cause_where_it_is_certain(
    thrown: str, cause: type[object], code: int, headwater_settings: Settings
) -> None:
    error = query_failed("q", RuntimeError(f"{TASK}{ERRORS}.{thrown}{END}"), headwater_settings)
    assert error.message == f"query 'q' failed: {thrown}"
    assert (type(error.cause), error.exit_code) == (cause, code)


def test_other_errors_keep_their_reason_without_frames_and_plan(
    headwater_settings: Settings,
) -> None:
    text = (
        f"{TASK}java.lang.IllegalStateException: outer\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)"
        f"\nCaused by: java.io.IOException: No space left on device\n\t... 3 more{END}"
    )
    error = query_failed("copy", RuntimeError(text), headwater_settings)
    assert error.message == (
        "query 'copy' failed: java.lang.IllegalStateException: outer\n"
        "Caused by: java.io.IOException: No space left on device"
    )
    assert (error.cause, error.exit_code) == (None, 1)


def test_the_traceback_of_a_python_function_is_kept(headwater_settings: Settings) -> None:
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: seven'
    text = f"[STREAM_FAILED] Query terminated with exception: {traceback} SQLSTATE: XXKST"
    error = query_failed("q", RuntimeError(text), headwater_settings)
    assert error.message == f"query 'q' failed: {traceback}"
    # The same record fails again after a restart.
    assert "column `error`" in (error.hint or "")
    writer = f"[FOREACH_BATCH_USER_FUNCTION_ERROR] py4j.Py4JException: {traceback}"
    error = query_failed("q", RuntimeError(writer), headwater_settings)
    assert (error.hint or "").startswith("a new start continues")


def test_an_expression_that_raises_has_the_same_hint(headwater_settings: Settings) -> None:
    text = (
        f"{TASK}org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.{END}"
    )
    error = query_failed("q", RuntimeError(text), headwater_settings)
    assert "column `error`" in (error.hint or "")


@pytest.mark.parametrize(
    ("text", "own"),
    [
        (f"{TASK}org.apache.spark.api.python.PythonException: Traceback\nValueError: x{END}", True),
        ("[STREAM_FAILED] terminated with exception: [CAST_INVALID_INPUT] The value 'x'", True),
        (f"{TASK}Python worker exited unexpectedly (crashed){END}", True),
        (f"{TASK}{ERRORS}.TimeoutException: no response{END}", False),
        (f"{TASK}{ERRORS}.SomeNewException: text{END}", False),
        (f"{TASK}dev.headwater.delivery.DeliveryFailedException: the record{END}", False),
        ("terminated with exception: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] lost", False),
        ("terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] error", False),
    ],
)
def test_every_error_but_those_of_input_and_output_may_be_of_the_jobs_own_code(
    text: str, own: bool, headwater_settings: Settings
) -> None:
    cause = RuntimeError(text)
    error = query_failed("copy", cause, headwater_settings)
    error.__cause__ = cause
    assert is_of_own_code(error, headwater_settings) is own
