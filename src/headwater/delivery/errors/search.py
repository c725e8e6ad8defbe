"""Finds the records of a failed batch for which the code of the job raises an error.

Spark does not report the record. So parts of the batch are computed, without writing them, until
single records fail: a part that fails is split, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.delivery.errors.plan import OffsetSpan
from headwater.errors import QueryFailedError
from headwater.kafka import partition_states
from headwater.settings.kafka import KafkaSettings
from headwater.storage.checkpoint import read_checkpoint
from headwater.storage.failed_records import FailedRecord

_MAX_MESSAGE = 1000
_TRACEBACK = "Traceback (most recent call last):"
# The last line of a traceback: the class, and the first line of the message.
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?\Z", re.DOTALL)

# Spark 4.3 appends this to the traceback.
_SQL_STATE = re.compile(r" SQLSTATE: [0-9A-Z]{5}\Z")


@dataclass(frozen=True)
class CodeFailure:
    """The error of the code for a part of the batch; `text` is the complete one."""

    kind: str
    message: str
    text: str = ""


# Computes parts of the batch; returns the failing parts of them, each with its error.
Probe = Callable[[Sequence[OffsetSpan]], Sequence[tuple[OffsetSpan, CodeFailure]]]


def failing_records(
    spans: Sequence[OffsetSpan], probe: Probe, max_records: int, *, attempts: int
) -> list[FailedRecord]:
    """The records that fail on their own.

    Args:
        spans: of the batch, one for each partition.
        attempts: how often a record has to fail on its own.

    Raises:
        QueryFailedError: there are more than `max_records`.
    """
    found: list[FailedRecord] = []
    waiting = list(reversed(probe(spans)))
    while waiting:
        part, failure = waiting.pop()
        if len(part) > 1:
            waiting += reversed(_smaller(part, probe))
        elif all(probe([part]) for _ in range(attempts - 1)):
            found.append(FailedRecord(part.address, failure.kind, failure.message))
            if len(found) > max_records:
                raise _too_many(found, max_records)
    return found


def _smaller(part: OffsetSpan, probe: Probe) -> Sequence[tuple[OffsetSpan, CodeFailure]]:
    failed = probe([part])
    if any(each == part for each, _ in failed):
        # The probe does not split parts.
        failed = [each for half in part.halves() for each in probe([half])]
    return failed


def _too_many(found: Sequence[FailedRecord], max_records: int) -> QueryFailedError:
    first = found[0]
    return QueryFailedError(
        f"the code of the job fails for more than {max_records} records of a batch, the first of "
        f"them {first.address} with {first.kind}: {first.message}",
        hint="they are a bug in the code rather than bad records: fix it. If they are bad, "
        "raise HEADWATER_JOBS__MAX_FAILED_RECORDS",
        address=str(first.address),
        max_failed_records=max_records,
    )


def spans_of_batch(checkpoint: Path, kafka: KafkaSettings) -> list[OffsetSpan]:
    """The offsets that the interrupted batch reads."""
    state = read_checkpoint(checkpoint)
    spans = []
    for topic, ends in sorted((state.planned if state else {}).items()):
        known = {**state.started.get(topic, {}), **state.committed.get(topic, {})} if state else {}
        if ends.keys() - known.keys():
            # Partitions that were added since are read from their beginning.
            known = {each.partition: each.first for each in partition_states(topic, kafka)} | known
        spans += [
            OffsetSpan(topic, partition, known[partition], end)
            for partition, end in sorted(ends.items())
            if known.get(partition, end) < end
        ]
    return spans


def code_failure(kind: str, message: str | None, text: str) -> CodeFailure:
    """The error of Java, or the one of Python that its message contains."""
    message = (message or "").strip()
    _, found, traceback = message.rpartition(_TRACEBACK)
    if found:
        traceback = _SQL_STATE.sub("", traceback)
        kind, message = _raised(traceback) or (kind, traceback.strip())
    if len(message) > _MAX_MESSAGE:
        message = f"{message[:_MAX_MESSAGE]}…"
    return CodeFailure(kind, message, text)


def _raised(traceback: str) -> tuple[str, str] | None:
    """Class and message of a traceback, whose frames are indented."""
    lines = traceback.strip("\n").split("\n")
    for number, line in enumerate(lines):
        if line and not line[0].isspace():
            match = _RAISED.match("\n".join(lines[number:]).strip())
            return (match["kind"], (match["message"] or "").strip()) if match else None
    return None
