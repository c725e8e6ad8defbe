"""Ads, clicks and articles: fields, keys and times."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from headwater.generator import generate

TWO_MINUTES = timedelta(minutes=2)


def values(kind: str, rows: int) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in generate(kind, rows)]


def times(kind: str, field: str, rows: int) -> list[datetime]:
    return [datetime.fromisoformat(fields[field]) for fields in values(kind, rows)]


def test_the_key_of_an_ad_is_its_page() -> None:
    for key, value in generate("ads", 1_000):
        assert key == json.loads(value)["page"].encode()


def test_ads_stay_in_the_time_range_of_visits() -> None:
    found = times("ads", "display_time", 20_000)
    steps = [later - earlier for earlier, later in pairwise(found)]
    laps = [step for step in steps if step < timedelta(0)]
    assert {step.total_seconds() for step in steps if step not in laps} == set(range(1, 36))
    assert min(found) >= datetime.fromisoformat("2024-01-01T00:00:00+00:00")
    assert max(found) - min(found) <= timedelta(minutes=2_500)
    assert len(laps) == 2


def test_some_visits_have_an_ad_on_their_page_within_two_minutes() -> None:
    displays = defaultdict(list)
    for ad in values("ads", 1_000):
        displays[ad["page"]].append(datetime.fromisoformat(ad["display_time"]))
    visits = values("visits", 1_000)
    matched = 0
    for visit in visits:
        time = datetime.fromisoformat(visit["event_time"])
        matched += any(time <= shown <= time + TWO_MINUTES for shown in displays[visit["page"]])
    assert 0.08 < matched / len(visits) < 0.25


def test_the_first_click_has_the_documented_format() -> None:
    ((key, value),) = generate("clicks", 1)
    fields = json.loads(value)
    assert key == b"1"
    assert value.startswith(
        b'{"event_id": "click-1", "visit_id": 1, "event_time": "2025-09-04T07:00:00.000000", '
    )
    assert list(fields) == ["event_id", "visit_id", "event_time", "page"]


def test_clicks_are_numbered_and_a_minute_apart() -> None:
    clicks = values("clicks", 5_000)
    steps = {later - earlier for earlier, later in pairwise(times("clicks", "event_time", 5_000))}
    assert [click["event_id"] for click in clicks] == [f"click-{n}" for n in range(1, 5_001)]
    assert steps == {timedelta(minutes=1)}


def test_the_key_of_a_click_is_its_visit_and_a_visit_has_several_clicks() -> None:
    of_visit: dict[int, int] = defaultdict(int)
    for key, value in generate("clicks", 5_000):
        visit_id = json.loads(value)["visit_id"]
        assert key == str(visit_id).encode()
        of_visit[visit_id] += 1
    *ended, _ = of_visit.values()
    assert list(of_visit) == list(range(1, len(of_visit) + 1))
    assert set(ended) == set(range(3, 13))


def test_the_key_of_an_article_is_its_unique_id() -> None:
    keys = []
    for key, value in generate("articles", 2_000):
        assert key == json.loads(value)["id"].encode()
        keys.append(key)
    assert len(set(keys)) == 2_000


def test_articles_are_published_one_to_ten_minutes_apart() -> None:
    found = times("articles", "published_at", 5_000)
    steps = {later - earlier for earlier, later in pairwise(found)}
    assert steps == {timedelta(minutes=minutes) for minutes in range(1, 11)}


def test_articles_have_a_body_of_two_to_four_hundred_bytes_and_differ() -> None:
    articles = values("articles", 2_000)
    bodies = [article["body"] for article in articles]
    assert all(200 <= len(body.encode()) <= 400 for body in bodies)
    assert len(set(bodies)) == 2_000
    assert all(article["title"] and article["source"] for article in articles)
    assert all(article["url"].startswith("https://") for article in articles)


def test_time_wraps_around_before_the_year_9999(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.generator.clicks._SPAN_HOURS", 2)
    monkeypatch.setattr("headwater.generator.articles._SPAN_MINUTES", 24 * 60)
    clicks = times("clicks", "event_time", 121)
    articles = times("articles", "published_at", 1_000)
    assert clicks[120] == clicks[0]
    assert {time.date() for time in articles} == {articles[0].date()}
