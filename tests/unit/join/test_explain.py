"""The explanation of a join, and the fate of its records."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.join import How, JoinRule, JoinSide, Matches
from headwater.join.explain import explain
from headwater.join.waiting import _Judge
from headwater.model import Address, Record
from headwater.tracing import Fate

NINE = datetime(2024, 1, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
VISITS = JoinSide(
    "visits", fields={"page": "string", "event_time": "timestamp"}, key="page", time="event_time"
)
ADS = JoinSide(
    "ads", fields={"page": "string", "display_time": "timestamp"}, key="page", time="display_time"
)


def rule(**changes: Any) -> JoinRule:
    base = JoinRule(VISITS, ADS, timedelta(), timedelta(minutes=2), "left_outer")
    return replace(base, **changes)


def test_the_explanation_shows_until_when_a_record_waits_and_when_it_is_written() -> None:
    text = explain(rule(), "visits-enriched")
    assert "visits left outer join ads -> visits-enriched" in text
    assert (
        "matches a record of visits with the same page if its display_time is 0 seconds to "
        "2 minutes after event_time" in text
    )
    assert "A record of visits at 09:00:00 matches records of ads at 09:00:00 to 09:02:00" in text
    assert "waits for a match until the watermark is past 09:02:00" in text
    assert (
        "until a record of visits later than 09:12:00 and a record of ads later than 09:12:00 "
        "were read.\n  Without a match by then, it is written alone, in the next micro-batch"
    ) in text
    assert "visits-enriched-late" in text
    assert "no unmatched record is written. --idle-timeout (idle_timeout)" in text


def test_the_explanation_of_other_bounds_has_other_times() -> None:
    visits = replace(VISITS, watermark="5 minutes")
    ads = replace(
        ADS,
        watermark="30 seconds",
        key="ad_page",
        fields={"ad_page": "string", "display_time": "timestamp"},
    )
    lower, upper = timedelta(minutes=-1), timedelta(hours=16)
    other = JoinRule(visits, ads, lower, upper, "right_outer", "nearest")
    text = explain(other, "out", idle_timeout=timedelta(seconds=20))
    assert "visits right outer join ads -> out" in text
    assert "with ad_page = page" in text
    assert "matches records of ads at 08:59:00 to 01:00:00 (+1 d)" in text
    assert (
        "a record of visits later than 01:05:00 (+1 d) and a record of ads later than 01:00:30 "
        "(+1 d) were read.\n  Without a match by then, it is dropped."
    ) in text
    assert (
        "A record of ads at 09:00:00 waits for a match until the watermark is past 09:01:00" in text
    )
    assert "A record of ads with several matches gives one row with the nearest one" in text
    assert "idle for 20 seconds" in text
    assert (
        "a record of ads if it is more than 30 seconds older than the newest one of visits" in text
    )


def record(topic: str, at: datetime) -> Record:
    time = "event_time" if topic == "visits" else "display_time"
    value = json.dumps({"page": "home", time: at.isoformat()}).encode()
    return Record(Address(topic, 0, 7), None, value)


def judge(of: JoinRule, side: JoinSide, watermark: datetime, *, running: bool = False) -> _Judge:
    return _Judge(of, side, batch=4, watermark=watermark, batch_running=running)


@pytest.mark.parametrize(
    ("how", "of_visit", "of_ad"),
    [
        ("inner", Fate.UNMATCHED, Fate.UNMATCHED),
        ("left_outer", None, Fate.UNMATCHED),
        ("right_outer", Fate.UNMATCHED, None),
        ("full_outer", None, None),
    ],
)
def test_the_fate_of_a_record_without_a_match_depends_on_the_join_type(
    how: How, of_visit: Fate | None, of_ad: Fate | None
) -> None:
    later = NINE + 3 * MINUTE
    for side, fate in ((VISITS, of_visit), (ADS, of_ad)):
        example = record(side.topic, NINE)
        assert judge(rule(how=how), side, NINE)(example) is Fate.WAITING
        assert judge(rule(how=how), side, later)(example) is fate
        # The running batch writes it, if the join type has it.
        running = judge(rule(how=how), side, later, running=True)
        assert running(example) is (fate or Fate.WAITING)


@pytest.mark.parametrize("matches", ["first", "nearest"])
def test_a_record_that_was_not_chosen_is_unmatched(matches: Matches) -> None:
    of = judge(rule(how="full_outer", matches=matches), ADS, NINE + timedelta(hours=1))
    assert of(record("ads", NINE)) is Fate.UNMATCHED
    assert of.sentence(record("ads", NINE)).endswith(", or another record was chosen")


def test_the_sentence_names_topics_and_keys() -> None:
    waiting = judge(rule(), VISITS, NINE - MINUTE).sentence(record("visits", NINE))
    assert waiting == (
        "visits/0@7 of 2024-01-01T09:00:00.000Z waits in the state for a match on page 'home' in "
        "ads, until the watermark is past 2024-01-01T09:02:00.000Z; it is 2024-01-01T08:59:00.000Z "
        "after batch 4"
    )
    unmatched = judge(rule(), ADS, NINE + MINUTE).sentence(record("ads", NINE))
    assert unmatched == (
        "ads/0@7 of 2024-01-01T09:00:00.000Z matched no record on page 'home' in visits until the "
        "watermark was past 2024-01-01T09:00:00.000Z"
    )
    written = judge(rule(), VISITS, NINE + 3 * MINUTE, running=True)
    assert written.sentence(record("visits", NINE)).endswith(
        "has no match and is written in batch 4, which is running"
    )


def test_a_time_beyond_the_years_of_python_has_no_fate() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert judge(rule(), VISITS, NINE)(record("visits", last)) is None
