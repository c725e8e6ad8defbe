"""The error of a failed query, in plain words: Spark's text has a stack trace and a query plan."""

from __future__ import annotations

import re
from typing import Any

from headwater.errors import (
    KafkaRefusedError,
    OutcomeUnknownError,
    QueryFailedError,
    UnavailableError,
)
from headwater.kafka.java_errors import from_java_error
from headwater.settings import Settings

_RESTART = "a new start continues where it stopped; `headwater run --restarts N` does that"
# The text that Spark puts around the reason of a failure.
_BEFORE = re.compile(
    r"^.*?terminated with exception: |"
    r"^Job aborted due to stage failure: .*?most recent failure: Lost task [^\n]*?\): ",
    re.DOTALL,
)
_AFTER = re.compile(r"\s*(?:Driver stacktrace:)?\s*(?:SQLSTATE: \w+)?\s*$")
_FRAMES = re.compile(r"\n\s+(?:at [^\n]*\)|\.\.\. \d+ more)(?=\n|$)")
# Other errors of Kafka, such as a missing topic, may be gone after a restart, which creates topics.
_DECISIVE = (KafkaRefusedError, UnavailableError, OutcomeUnknownError)


def query_failed(name: str, error: Exception, settings: Settings) -> QueryFailedError:
    """The error of a query. If Kafka is the reason, it comes first and decides the exit code."""
    text = str(error)
    return failure(
        f"query {name!r}", text, settings, hint=_RESTART, otherwise=plain_reason(text), query=name
    )


def failure(
    what: str, text: str, settings: Settings, *, hint: str, otherwise: str, **attributes: Any
) -> QueryFailedError:
    """An error whose reason is the error of Kafka in the JVM's `text`, or else `otherwise`."""
    cause = from_java_error(_without_plan(text), settings.spark.kafka_options)
    if cause is not None and cause.hint:
        hint = f"{cause.hint}; {hint}"
    reason = otherwise if cause is None else cause.message
    failed = QueryFailedError(f"{what} failed: {reason}", hint=hint, **attributes)
    return failed.with_cause(cause if isinstance(cause, _DECISIVE) else None)


def plain_reason(text: str) -> str:
    """A stack trace without frames, and without Spark's text around it."""
    reason = _FRAMES.sub("", _without_plan(text))
    return _BEFORE.sub("", _AFTER.sub("", reason)).strip() or text


def _without_plan(text: str) -> str:
    # Options and column names in the plan may look like anything.
    return text.partition("\n=== Streaming Query ===\n")[0]
