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
from headwater.settings.kafka_security import java_properties

_RESTART = "a new start continues where it stopped; `headwater run --restarts N` does that"
# An error of the job's own code for one record: Spark does not report the record.
_OWN_CODE = re.compile(
    r"Traceback \(most recent call last\)|PythonException|\[USER_RAISED_EXCEPTION\]|"
    r"org\.apache\.spark\."
    r"Spark(?:Arithmetic|DateTime|NumberFormat|ArrayIndexOutOfBounds|NoSuchElement)Exception"
)
# Python that runs in the driver and writes batches, such as to tables.
_WRITER = re.compile(r"Py4JException|FOREACH_BATCH")
_AGAIN = (
    "a record for which a function or an expression of the job raises an error fails every start: "
    "write(…, on_error='dead-letter') sends it to the dead letter topic; or return the error in a "
    "column `error`; see the guide on own jobs"
)
# Errors of Spark's source, and of Headwater's sink.
_INPUT_OR_OUTPUT = re.compile(
    r"org\.apache\.kafka\.|\.kafka010\.|\[KAFKA_DATA_LOSS|dev\.headwater\.delivery\."
)
# The text that Spark puts around the reason of a failure.
_TERMINATED = "terminated with exception: "
_ABORTED = "Job aborted due to stage failure: "
_LOST_TASK = "most recent failure: Lost task "
_STATE = re.compile(r"\w+")
_FRAMES = re.compile(r"\n[ \t]+(?:at [^\n]*\)|\.\.\. \d+ more)(?=\n|$)")
# Other errors of Kafka, such as a missing topic, may be gone after a restart, which creates topics.
_DECISIVE = (KafkaRefusedError, UnavailableError, OutcomeUnknownError)


def query_failed(name: str, error: Exception, settings: Settings) -> QueryFailedError:
    """The error of a query. If Kafka is the reason, it comes first and decides the exit code."""
    text = str(error)
    reason = plain_reason(text)
    own_code = _OWN_CODE.search(reason) and not _WRITER.search(text)
    hint = _AGAIN if own_code else _RESTART
    return failure(f"query {name!r}", text, settings, hint=hint, otherwise=reason, query=name)


def is_of_own_code(error: QueryFailedError, settings: Settings) -> bool:
    """Whether a query may have failed because of an error in the code of the job.

    That is every error but those of Kafka, of Spark's source and of the sink: code may raise any
    error, and crash a Python worker.
    """
    text = _without_plan(str(error.__cause__))
    if error.cause is not None or from_java_error(text, _login(settings)) is not None:
        return False
    return not _INPUT_OR_OUTPUT.search(_FRAMES.sub("", text)) and not _WRITER.search(text)


def failure(
    what: str, text: str, settings: Settings, *, hint: str, otherwise: str, **attributes: Any
) -> QueryFailedError:
    """An error whose reason is the error of Kafka in the JVM's `text`, or else `otherwise`."""
    cause = from_java_error(_without_plan(text), _login(settings))
    if cause is not None and cause.hint:
        hint = f"{cause.hint}; {hint}"
    reason = otherwise if cause is None else cause.message
    failed = QueryFailedError(f"{what} failed: {reason}", hint=hint, **attributes)
    return failed.with_cause(cause if isinstance(cause, _DECISIVE) else None)


def plain_reason(text: str) -> str:
    """A stack trace without frames, and without Spark's text around it."""
    reason = _FRAMES.sub("", _without_plan(text))
    return _without_start(_without_end(reason)).strip() or text


def _without_start(text: str) -> str:
    """Without `… terminated with exception: ` and `Job aborted …: Lost task 0.0 (…): `.

    Not with one expression: the reason may contain these texts any number of times.
    """
    _, found, reason = text.partition(_TERMINATED)
    if found:
        return reason
    start = text.find(_LOST_TASK) if text.startswith(_ABORTED) else -1
    while start >= 0:
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        closed = text.find("): ", start, end)
        if closed >= 0:
            return text[closed + 3 :]
        start = text.find(_LOST_TASK, end)
    return text


def _without_end(text: str) -> str:
    """Without `Driver stacktrace:` and `SQLSTATE: 39000` at the end.

    Not with one expression: an error may end with any number of spaces.
    """
    text = text.rstrip()
    before, found, state = text.rpartition("SQLSTATE: ")
    if found and _STATE.fullmatch(state):
        text = before.rstrip()
    return text.removesuffix("Driver stacktrace:").rstrip()


def _login(settings: Settings) -> dict[str, str]:
    # Without certificates: their files may be gone, which must not replace the error.
    return java_properties(settings.kafka, settings.spark.kafka_options, files=False)


def _without_plan(text: str) -> str:
    # Options and column names in the plan may look like anything.
    return text.partition("\n=== Streaming Query ===\n")[0]
