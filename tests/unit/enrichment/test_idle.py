"""When a heartbeat is due, and how far it may push."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.enrichment import JoinRule
from headwater.enrichment.idle import Heartbeats
from headwater.settings import load

NINE = 1_704_099_600_000


class Clocks:
    """Two clocks that go when they are told to."""

    def __init__(self) -> None:
        self.elapsed = 1000.0
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def heartbeats(clocks: Clocks) -> Heartbeats:
    return Heartbeats(
        JoinRule(),
        "beats",
        timedelta(seconds=10),
        load(),
        clock=lambda: clocks.wall,
        monotonic=lambda: clocks.elapsed,
    )


def batch(visits: int, ads: int, newest_visit: int | None, newest_ad: int | None) -> Any:
    return {
        "observedMetrics": {
            "visits": {"newest_ms": newest_visit},
            "ads": {"newest_ms": newest_ad},
        },
        "sources": [
            {"endOffset": {"visits": {"0": visits}, "beats": {"0": 0}}},
            {"endOffset": {"ads": {"0": ads}, "beats": {"0": 0}}},
        ],
    }


def ends(visits: int, ads: int) -> dict[str, dict[int, int]]:
    return {"visits": {0: visits}, "ads": {0: ads}}


def test_a_quiet_topic_is_taken_as_far_as_the_other_and_no_further(
    heartbeats: Heartbeats, clocks: Clocks
) -> None:
    heartbeats.take(batch(5, 1, NINE, NINE - 60_000))
    assert heartbeats.due(ends(5, 1)) == {}
    clocks.elapsed += 9.9
    assert heartbeats.due(ends(6, 1)) == {}
    clocks.elapsed += 0.1
    assert heartbeats.due(ends(6, 1)) == {"ads": NINE}
    assert heartbeats.sent("ads", NINE) is True
    assert heartbeats.due(ends(6, 1)) == {}, "told once"
    heartbeats.take(batch(6, 1, NINE + 1, None))
    assert heartbeats.due(ends(6, 1)) == {"ads": NINE + 1}
    assert heartbeats.sent("ads", NINE + 1) is False


def test_a_topic_with_unread_records_is_not_quiet(heartbeats: Heartbeats, clocks: Clocks) -> None:
    heartbeats.take(batch(5, 1, NINE, NINE - 60_000))
    heartbeats.due(ends(5, 2))
    clocks.elapsed += 60
    assert heartbeats.due(ends(5, 2)) == {}
    heartbeats.take(batch(5, 2, None, NINE - 30_000))
    assert heartbeats.due(ends(5, 2)) == {"ads": NINE}


def test_a_topic_that_is_ahead_or_alone_is_left_in_peace(
    heartbeats: Heartbeats, clocks: Clocks
) -> None:
    heartbeats.take(batch(5, 0, NINE, None))
    heartbeats.due(ends(5, 0))
    clocks.elapsed += 60
    # Ads have never come: they must not hold back for ever. Visits have nobody to follow.
    assert heartbeats.due(ends(5, 0)) == {"ads": NINE}
    heartbeats.take(batch(5, 1, None, NINE + 5000))
    assert heartbeats.due(ends(5, 1)) == {"visits": NINE + 5000}


def test_a_heartbeat_never_goes_beyond_the_wall_clock(
    heartbeats: Heartbeats, clocks: Clocks
) -> None:
    clocks.wall = datetime.fromtimestamp(NINE / 1000, UTC)
    heartbeats.take(batch(5, 0, NINE + 3_600_000, None))
    heartbeats.due(ends(5, 0))
    clocks.elapsed += 60
    assert heartbeats.due(ends(5, 0)) == {"ads": NINE}
