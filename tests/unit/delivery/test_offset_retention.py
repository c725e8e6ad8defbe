"""Transactional delivery: pauses of a query, compared with how long Kafka keeps group offsets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headwater.delivery.committed_batches import check_retention
from headwater.errors import CheckpointError

WEEK = timedelta(days=7)
BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAYS = (
    "the last batch of /cp began at 2026-03-01 12:00 UTC, {}, 0:00:00 ago; Kafka keeps the offsets"
)


def check(days: float, interrupted: int | None = None, accept: tuple[str, ...] = ()) -> None:
    check_retention("/cp", interrupted, BEGAN, BEGAN + timedelta(days=days), WEEK, accept)


@pytest.mark.parametrize("interrupted", [None, 3])
def test_a_short_pause_logs_nothing(
    interrupted: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    check(3.5, interrupted)
    assert caplog.messages == []


@pytest.mark.parametrize(("days", "interrupted"), [(4, None), (4, 3), (7, 3), (8, None)], ids=str)
def test_a_pause_near_the_retention_is_a_warning_with_both_times(
    days: int, interrupted: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    check(days, interrupted)
    (line,) = caplog.messages
    assert line.startswith(DAYS.format(f"{days} days"))
    assert "for 7 days, 0:00:00: " in line
    assert line.endswith("raise offsets.retention.minutes of the brokers")


def test_a_batch_that_was_interrupted_before_the_retention_is_refused_unless_accepted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(CheckpointError) as refused:
        check(8, 3)
    assert refused.value.message.startswith(DAYS.format("8 days"))
    assert "which records of the interrupted batch 3 are committed is not" in refused.value.message
    assert "--accept duplicates" in (refused.value.hint or "")
    assert caplog.messages == []
    check(8, 3, ("duplicates",))
    assert len(caplog.messages) == 1
