"""The rule of a join: durations, valid bounds, and its explanation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import CheckpointError, InputError
from headwater.jobs.visits_ads import JoinRule, parse_span
from headwater.jobs.visits_ads.rule import explain, read_rule, save_rule, span_text

NINE = datetime(2024, 1, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2 minutes", "1 second", "-90 seconds", "250 milliseconds", "1 day", "36 hours"]
)
def test_a_duration_is_formatted_as_it_was_written(text: str) -> None:
    assert span_text(parse_span(text, "--ad-until")) == text


@pytest.mark.parametrize("text", ["", "2", "minutes", "2 fortnights", "2  minutes", "1.5 hours"])
def test_an_invalid_duration_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InputError, match=r"--ad-until: not a duration") as refused:
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
def test_an_impossible_rule_is_refused(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        JoinRule(**wrong)  # type: ignore[arg-type]


def test_a_rule_is_stored_next_to_its_checkpoint(tmp_path: Path) -> None:
    rule = JoinRule(ad_from=timedelta(seconds=-30), matches="nearest", ads="displays")
    assert read_rule(tmp_path) is None
    save_rule(tmp_path, rule)
    assert read_rule(tmp_path) == rule
    # Bounds may change; the state belongs to the topics.
    save_rule(tmp_path, JoinRule(matches="nearest", ads="displays"))
    with pytest.raises(CheckpointError, match="ads from displays, not ads") as refused:
        save_rule(tmp_path, JoinRule(matches="nearest"))
    assert "--checkpoint" in (refused.value.hint or "")


def test_the_explanation_shows_until_when_a_visit_waits_and_when_it_is_written() -> None:
    text = explain(JoinRule(), "visits-enriched")
    assert "displayed 0 seconds to 2 minutes after the visit's event_time" in text
    assert "A visit of 09:00:00 takes ads of 09:00:00 to 09:02:00" in text
    assert "waits for an ad until the watermark is past 09:02:00" in text
    assert "a visit later than 09:12:00 and an ad later than 09:12:00 were read" in text
    assert "is written alone, in the next micro-batch" in text
    assert "visits-enriched-late" in text
    assert "--idle-timeout" in text


def test_the_explanation_of_other_bounds_has_other_times() -> None:
    rule = JoinRule(
        ad_from=timedelta(minutes=-1),
        ad_until=timedelta(hours=16),
        visits_delay=timedelta(minutes=5),
        ads_delay=timedelta(seconds=30),
        matches="nearest",
    )
    text = explain(rule, "out", idle_timeout=timedelta(seconds=20))
    assert "takes ads of 08:59:00 to 01:00:00 (+1 d)" in text
    assert (
        "a visit later than 01:05:00 (+1 d) and an ad later than 01:00:30 (+1 d) were read" in text
    )
    assert "An ad of 09:00:00 waits for a visit until the watermark is past 09:01:00" in text
    assert "the nearest ad in time" in text
    assert "idle for 20 seconds" in text
    assert "an ad if it is more than 30 seconds older than the newest visit" in text
    assert rule.visit_waits_until(NINE) == NINE + timedelta(hours=16)
    assert rule.ad_waits_until(NINE) == NINE + timedelta(minutes=1)
