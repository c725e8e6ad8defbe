"""The search for records that fail, and the errors that they have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headwater.delivery.errors.plan import OffsetSpan
from headwater.delivery.errors.search import (
    CodeFailure,
    Probe,
    code_failure,
    failing_records,
)
from headwater.errors import QueryFailedError

BATCH = [OffsetSpan("in", 0, 100, 1100), OffsetSpan("in", 1, 0, 7)]
BAD = {("in", 0, 100), ("in", 0, 733), ("in", 0, 734), ("in", 1, 6)}


def _fails(span: OffsetSpan) -> bool:
    offsets = range(span.first, span.end)
    return any((span.topic, span.partition, offset) in BAD for offset in offsets)


def _unsplit(spans: Sequence[OffsetSpan]) -> list[tuple[OffsetSpan, CodeFailure]]:
    """As after a shuffle: parts are not split."""
    return [(span, CodeFailure("E", str(span.first))) for span in spans if _fails(span)]


def _split(spans: Sequence[OffsetSpan]) -> list[tuple[OffsetSpan, CodeFailure]]:
    parts = [half for span in spans for half in (span.halves() if len(span) > 1 else (span,))]
    return _unsplit(parts)


@pytest.mark.parametrize("probe", [_unsplit, _split])
def test_all_failing_records_are_found_with_their_errors(probe: Probe) -> None:
    found = failing_records(BATCH, probe, 4, attempts=2)
    assert [(str(each.address), each.message) for each in found] == [
        ("in/0@100", "100"),
        ("in/0@733", "733"),
        ("in/0@734", "734"),
        ("in/1@6", "6"),
    ]


def test_more_failing_records_than_allowed_stop_the_search() -> None:
    with pytest.raises(QueryFailedError, match="more than 3 records of a batch") as raised:
        failing_records(BATCH, _unsplit, 3, attempts=1)
    assert "HEADWATER_JOBS__MAX_FAILED_RECORDS" in (raised.value.hint or "")
    assert raised.value.attributes["address"] == "in/0@100"


def test_a_record_that_fails_once_on_its_own_is_not_found() -> None:
    seen: set[OffsetSpan] = set()

    def unstable(spans: Sequence[OffsetSpan]) -> list[tuple[OffsetSpan, CodeFailure]]:
        failed = [each for each in _unsplit(spans) if len(each[0]) > 1 or each[0] not in seen]
        seen.update(spans)
        return failed

    assert failing_records(BATCH, unstable, 10, attempts=2) == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            '\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n    ~^^\n'
            "ValueError: seven\nis bad\n",
            ("ValueError", "seven\nis bad"),
        ),
        (
            "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'a'\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "a.py", line 3, in f\nmine.Bad\n',
            ("mine.Bad", ""),
        ),
        ("Traceback (most recent call last):\n  cut off", ("java.A", "cut off")),
        (
            "Traceback (most recent call last):\n  x\nKeyError: 'a'\n SQLSTATE: 38000",
            ("KeyError", "'a'"),
        ),
        ("[CAST_INVALID_INPUT] no", ("java.A", "[CAST_INVALID_INPUT] no")),
        (None, ("java.A", "")),
    ],
)
def test_an_error_of_python_has_its_own_class(
    message: str | None, expected: tuple[str, str]
) -> None:
    failure = code_failure("java.A", message, "text")
    assert (failure.kind, failure.message) == expected


def test_a_long_message_is_cut() -> None:
    assert len(code_failure("A", "x" * 100_000, "").message) == 1001
