"""When heartbeats are sent, for which side, and with which time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.errors import InputError
from headwater.join import JoinRule, JoinSide
from headwater.join.heartbeats import Heartbeats
from headwater.join.times import HeartbeatTopic, Times, joinable_millis
from headwater.join.watermark_join import starting_offsets_of
from headwater.kafka import Topic
from headwater.model import from_epoch_ms
from headwater.settings import load

NINE = 1_704_099_600_000
VISITS = JoinSide(
    "visits", fields={"page": "string", "event_time": "timestamp"}, key="page", time="event_time"
)
ADS = JoinSide(
    "ads",
    fields={"page": "string", "display_time": "timestamp", "campaign_name": "string"},
    key="page",
    time="display_time",
    required=("campaign_name",),
)


class Clocks:
    """Two clocks that tests advance."""

    def __init__(self) -> None:
        self.elapsed = 1000.0
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def heartbeats(clocks: Clocks) -> Heartbeats:
    return Heartbeats(
        Times(JoinRule(VISITS, ADS, timedelta(), timedelta(minutes=2)), "s3a://elsewhere"),
        HeartbeatTopic("beats", "query"),
        timedelta(seconds=10),
        load(),
        clock=lambda: clocks.wall,
        monotonic=lambda: clocks.elapsed,
    )


def batch(visits: int, ads: int, newest_visit: int | None, newest_ad: int | None) -> Any:
    return {
        "batchId": 1,
        "runId": "run",
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


@pytest.fixture
def sent(heartbeats: Heartbeats, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """The heartbeats that were sent, without a broker."""
    sent: list[dict[str, int]] = []

    def send(due: dict[str, int]) -> set[str]:
        sent.append(due)
        heartbeats._sent.update(due)
        return set(due)

    monkeypatch.setattr(heartbeats, "_send", send)
    return sent


def test_after_the_first_batch_of_a_query_each_side_gets_its_newest_time(
    heartbeats: Heartbeats, sent: list[dict[str, int]]
) -> None:
    heartbeats.take(batch(5, 1, NINE, NINE - 60_000))
    heartbeats.take(batch(6, 1, NINE + 1, None))
    assert sent == [{"visits": NINE, "ads": NINE - 60_000}]
    # A restarted query has lost both times.
    heartbeats.take({**batch(6, 2, None, NINE - 50_000), "runId": "another"})
    assert sent[1:] == [{"visits": NINE + 1, "ads": NINE - 50_000}]


@pytest.mark.usefixtures("sent")
def test_an_idle_topic_follows_the_other_up_to_its_newest_time(
    heartbeats: Heartbeats, clocks: Clocks
) -> None:
    heartbeats.take(batch(5, 1, NINE, NINE - 60_000))
    assert heartbeats.times_for_idle(ends(5, 1)) == {}
    clocks.elapsed += 9.9
    assert heartbeats.times_for_idle(ends(6, 1)) == {}
    clocks.elapsed += 0.1
    assert heartbeats.times_for_idle(ends(6, 1)) == {"ads": NINE}
    heartbeats._send({"ads": NINE})
    assert heartbeats.times_for_idle(ends(6, 1)) == {}, "sent once"
    heartbeats.take(batch(6, 1, NINE + 1, None))
    assert heartbeats.times_for_idle(ends(6, 1)) == {"ads": NINE + 1}


@pytest.mark.usefixtures("sent")
def test_a_topic_with_unread_records_is_not_idle(heartbeats: Heartbeats, clocks: Clocks) -> None:
    heartbeats.take(batch(5, 1, NINE, NINE - 60_000))
    heartbeats.times_for_idle(ends(5, 2))
    clocks.elapsed += 60
    assert heartbeats.times_for_idle(ends(5, 2)) == {}
    heartbeats.take(batch(5, 2, None, NINE - 30_000))
    assert heartbeats.times_for_idle(ends(5, 2)) == {"ads": NINE}


@pytest.mark.usefixtures("sent")
def test_a_topic_that_is_ahead_or_alone_gets_no_heartbeat(
    heartbeats: Heartbeats, clocks: Clocks
) -> None:
    heartbeats.take(batch(5, 0, NINE, None))
    heartbeats.times_for_idle(ends(5, 0))
    clocks.elapsed += 60
    # There was no ad: they must not hold back visits. Visits have no time to follow.
    assert heartbeats.times_for_idle(ends(5, 0)) == {"ads": NINE}
    heartbeats.take(batch(5, 1, None, NINE + 5000))
    assert heartbeats.times_for_idle(ends(5, 1)) == {"visits": NINE + 5000}


@pytest.mark.usefixtures("sent")
def test_an_idle_topic_never_gets_a_time_after_the_wall_clock(
    heartbeats: Heartbeats, clocks: Clocks
) -> None:
    clocks.wall = datetime.fromtimestamp(NINE / 1000, UTC)
    heartbeats.take(batch(5, 0, NINE + 3_600_000, None))
    heartbeats.times_for_idle(ends(5, 0))
    clocks.elapsed += 60
    assert heartbeats.times_for_idle(ends(5, 0)) == {"ads": NINE}


@pytest.mark.parametrize(
    ("value", "millis"),
    [
        (
            b'{"page": "a", "campaign_name": "b", "display_time": "2024-01-01T09:00:00.000+00:00"}',
            0,
        ),
        (b'{"page": "a", "campaign_name": "b", "display_time": "2024-01-01T10:00:00+01:00"}', 0),
        (b'{"page": "a", "campaign_name": "b", "display_time": "2024-01-01 09:00:01.5"}', 1500),
        (b'{"page": null, "campaign_name": "b", "display_time": "2024-01-01T09:00:00Z"}', None),
        (b'{"page": "a", "campaign_name": "b", "display_time": "later"}', None),
        (b'{"page": "a", "campaign_name": "b", "display_time": "+20000-01-01T00:00:00Z"}', None),
        (b'{"page": "a", "campaign_name": "b", "display_time": "0001-01-01T00:00:00+14:00"}', None),
        (b"[" * 100_000, None),
        (b"{......", None),
        (b"[1]", None),
        (None, None),
    ],
)
def test_only_joinable_records_have_a_time(value: bytes | None, millis: int | None) -> None:
    time_ms = joinable_millis(value, ADS)
    assert time_ms == (None if millis is None else NINE + millis)


@pytest.mark.parametrize(
    ("kind", "value", "joined"),
    [
        ("double", "1.5", True),
        ("double", "2", True),
        ("double", '"2"', False),
        ("double", "true", False),
        ("bigint", "7", True),
        ("bigint", "7.5", False),
        ("bigint", "9223372036854775808", False),
        ("boolean", "false", True),
        ("boolean", "0", False),
        ("string", "5", True),
        ("bigint", "null", True),
        # Not certain without Spark.
        ("decimal(10,2)", "1.5", False),
        ("array<string>", "[]", False),
    ],
)
def test_a_record_whose_types_may_not_fit_has_no_certain_time(
    kind: str, value: str, joined: bool
) -> None:
    side = JoinSide(
        "ads",
        fields={"page": "string", "at": "timestamp", "value": kind},
        key="page",
        time="at",
    )
    text = f'{{"page": "a", "at": "2024-01-01T09:00:00Z", "value": {value}}}'
    assert joinable_millis(text.encode(), side) == (NINE if joined else None)


def test_a_time_after_the_range_of_python_becomes_the_last_one() -> None:
    assert from_epoch_ms(NINE).isoformat() == "2024-01-01T09:00:00+00:00"
    assert from_epoch_ms(10**18).year == 9999


def test_heartbeats_of_another_checkpoint_have_other_keys() -> None:
    one, other = (HeartbeatTopic.of("out", location) for location in ("file:///a", "file:///b"))
    assert one.name == other.name == "out-heartbeat"
    assert one.key("ads") != other.key("ads")
    assert one.key("ads") != one.key("visits")


@pytest.mark.parametrize(("text", "first"), [("earliest", -2), ("latest", -1)])
def test_a_new_join_ignores_existing_heartbeats(text: str, first: int) -> None:
    beats = Topic("beats", 1)
    offsets = json.loads(starting_offsets_of(Topic("ads", 2), beats, text))
    assert offsets == {"ads": {"0": first, "1": first}, "beats": {"0": -1}}
    text = '{"visits":{"0":3},"ads":{"0":7}}'
    named = json.loads(starting_offsets_of(Topic("ads", 1), beats, text))
    assert named == {"ads": {"0": 7}, "beats": {"0": -1}}
    with pytest.raises(InputError, match="has no offsets of topic 'clicks'"):
        starting_offsets_of(Topic("clicks", 1), beats, text)
