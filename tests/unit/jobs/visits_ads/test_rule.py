"""The rule of a join: spans in words, bounds that make sense, and what it says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import CheckpointError, InputError
from headwater.jobs.visits_ads import JoinRule, parse_span
from headwater.jobs.visits_ads.explain import explain
from headwater.jobs.visits_ads.notes import keep_rule, read_rule
from headwater.jobs.visits_ads.rule import span_text

NINE = datetime(2024, 1, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2 minutes", "1 second", "-90 seconds", "250 milliseconds", "1 day", "36 hours"]
)
def test_a_span_is_said_as_it_was_written(text: str) -> None:
    assert span_text(parse_span(text, "--ad-until")) == text


@pytest.mark.parametrize("text", ["", "2", "minutes", "2 fortnights", "2  minutes", "1.5 hours"])
def test_what_is_no_span_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InputError, match=r"--ad-until: not a span of time") as refused:
        parse_span(text, "--ad-until")
    assert "2 minutes" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"ads": "visits"}, "same topic"),
        ({"ad_from": timedelta(minutes=3)}, "no ad can match"),
        ({"ads_delay": timedelta(seconds=-1)}, "--ads-watermark"),
    ],
)
def test_a_rule_that_can_not_be_meant_is_refused(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        JoinRule(**wrong)  # type: ignore[arg-type]


def test_a_rule_is_found_again_beside_its_checkpoint(tmp_path: Path) -> None:
    rule = JoinRule(ad_from=timedelta(seconds=-30), matches="nearest", ads="displays")
    assert read_rule(tmp_path) is None
    keep_rule(tmp_path, rule)
    assert read_rule(tmp_path) == rule
    # Other bounds are fine, other topics would find a state that is not theirs.
    keep_rule(tmp_path, JoinRule(matches="nearest", ads="displays"))
    with pytest.raises(CheckpointError, match="ads from displays, not ads") as refused:
        keep_rule(tmp_path, JoinRule(matches="nearest"))
    assert "--checkpoint" in (refused.value.hint or "")


def test_a_rule_says_until_when_a_visit_waits_and_when_it_comes_out() -> None:
    told = explain(JoinRule(), "visits-enriched")
    assert "displayed 0 seconds to 2 minutes after the visit's event_time" in told
    assert "A visit of 09:00:00 takes ads of 09:00:00 to 09:02:00" in told
    assert "waits for an ad until the watermark is past 09:02:00" in told
    assert "a visit later than 09:12:00 and an ad later than 09:12:00" in told
    assert "comes out alone, in the next micro-batch" in told
    assert "visits-enriched-late" in told
    assert "--idle-timeout" in told


def test_other_bounds_are_told_with_other_times() -> None:
    rule = JoinRule(
        ad_from=timedelta(minutes=-1),
        ad_until=timedelta(hours=16),
        visits_delay=timedelta(minutes=5),
        ads_delay=timedelta(seconds=30),
        matches="nearest",
    )
    told = explain(rule, "out", idle_timeout=timedelta(seconds=20))
    assert "takes ads of 08:59:00 to 01:00:00 (+1 d)" in told
    assert "a visit later than 01:05:00 (+1 d) and an ad later than 01:00:30 (+1 d)" in told
    assert "An ad of 09:00:00 waits for a visit until the watermark is past 09:01:00" in told
    assert "the nearest in time" in told
    assert "quiet for 20 seconds" in told
    assert "an ad if it is more than 30 seconds older than the newest visit" in told
    assert rule.visit_waits_until(NINE) == NINE + timedelta(hours=16)
    assert rule.ad_waits_until(NINE) == NINE + timedelta(minutes=1)
