"""Visits: identifiers, times and fields."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from itertools import pairwise
from typing import Any

import pytest

from headwater.generator import VISITS_PER_ROUND, generate

START = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = 60_000


@pytest.fixture(scope="module")
def visits() -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in generate("visits", ROWS, seed=3)]


@pytest.fixture(scope="module")
def events_of_visit(visits: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    events = defaultdict(list)
    for visit in visits:
        events[visit["visit_id"]].append(visit)
    return dict(events)


@pytest.fixture(scope="module")
def ended(
    visits: list[dict[str, Any]], events_of_visit: dict[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """Completed visits: those of the last round are still open."""
    still_open = {visit["visit_id"] for visit in visits[-VISITS_PER_ROUND:]}
    return {name: events for name, events in events_of_visit.items() if name not in still_open}


def test_the_key_is_the_visit_id() -> None:
    for key, value in generate("visits", 1_000):
        assert key == json.loads(value)["visit_id"].encode()


def test_identifiers_have_the_documented_format(visits: list[dict[str, Any]]) -> None:
    generator_id = visits[0]["visit_id"].partition("_")[0]
    uuid4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert re.fullmatch("[1-9][0-9]{14}", generator_id)
    for visit in visits:
        assert re.fullmatch(f"{generator_id}_[0-9]+", visit["visit_id"])
        assert re.fullmatch(f"{generator_id}_{uuid4}", visit["user_id"])


def test_each_round_has_one_event_of_each_open_visit(visits: list[dict[str, Any]]) -> None:
    for first in range(0, ROWS, VISITS_PER_ROUND):
        names = {visit["visit_id"] for visit in visits[first : first + VISITS_PER_ROUND]}
        assert len(names) == VISITS_PER_ROUND == 10


def test_visits_are_numbered_in_the_order_of_their_start(
    events_of_visit: dict[str, list[dict[str, Any]]],
) -> None:
    numbers = [int(name.partition("_")[2]) for name in events_of_visit]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 100


def test_each_event_is_one_to_five_minutes_after_the_previous_one(
    events_of_visit: dict[str, list[dict[str, Any]]],
) -> None:
    steps = Counter[timedelta]()
    for events in events_of_visit.values():
        times = [START, *(datetime.fromisoformat(event["event_time"]) for event in events)]
        steps.update(later - earlier for earlier, later in pairwise(times))
    assert set(steps) == {timedelta(minutes=minutes) for minutes in (1, 2, 3, 4, 5)}
    assert max(steps.values()) < 1.1 * min(steps.values())


def test_a_visit_has_5_to_500_events(ended: dict[str, list[dict[str, Any]]]) -> None:
    lengths = [len(events) for events in ended.values()]
    assert min(lengths) >= 5
    assert max(lengths) <= 500
    assert max(lengths) - min(lengths) > 400


def test_the_next_visit_of_a_slot_begins_at_the_start_time_with_a_new_user(
    visits: list[dict[str, Any]],
) -> None:
    restarts = 0
    for slot in range(VISITS_PER_ROUND):
        for before, after in pairwise(visits[slot::VISITS_PER_ROUND]):
            if after["visit_id"] != before["visit_id"]:
                restarts += 1
                time = datetime.fromisoformat(after["event_time"])
                assert timedelta(minutes=1) <= time - START <= timedelta(minutes=5)
                assert after["user_id"] != before["user_id"]
    assert restarts > 100


def test_only_page_and_time_change_within_a_visit(
    events_of_visit: dict[str, list[dict[str, Any]]],
) -> None:
    for events in events_of_visit.values():
        constant = {
            json.dumps([event["user_id"], event["keep_private"], event["context"]])
            for event in events
        }
        assert len(constant) == 1


def test_the_context_has_the_known_fields(
    events_of_visit: dict[str, list[dict[str, Any]]],
) -> None:
    for events in events_of_visit.values():
        context = events[0]["context"]
        assert list(context) == ["referral", "ad_id", "user", "technical"]
        assert list(context["user"]) == ["ip", "login", "connected_since"]
        technical = context["technical"]
        assert list(technical) == [
            "browser",
            "browser_version",
            "network_type",
            "device_type",
            "device_version",
        ]
        assert context["ad_id"] is None or re.fullmatch("ad [1-5]", context["ad_id"])
        assert ip_address(context["user"]["ip"]).is_global
        assert re.fullmatch("[a-z]+[0-9]*", context["user"]["login"])
        assert technical["browser"] in {"Firefox", "Chrome", "Safari"}
        assert re.fullmatch("2[0-5][.][0-9]{1,2}", technical["browser_version"])
        assert technical["network_type"] in {"5G", "4G", "Wi-Fi", "LAN"}
        assert technical["device_type"] in {"PC", "MacBook", "iPhone", "iPad", "Smartphone"}
        assert re.fullmatch("[1-6][.]0", technical["device_version"])


def test_connected_since_is_1_to_30_days_before_the_start_or_null(
    events_of_visit: dict[str, list[dict[str, Any]]],
) -> None:
    since = [events[0]["context"]["user"]["connected_since"] for events in events_of_visit.values()]
    days = {(START - datetime.fromisoformat(text)) / timedelta(days=1) for text in since if text}
    assert days <= set(range(1, 31))
    assert 0.5 < since.count(None) / len(since) < 0.8


def test_all_pages_of_the_site_are_visited(visits: list[dict[str, Any]]) -> None:
    assert {visit["page"] for visit in visits} == {
        *("index", "contact", "home", "main", "about", "categories"),
        *(f"category_{number}" for number in range(1, 21)),
        *(f"page_{number}" for number in range(1, 21)),
    }


def test_one_visit_in_seven_is_private_and_one_in_nine_has_no_referral() -> None:
    # The first round of many seeds is the fastest way to generate many visits.
    first_rounds = [
        json.loads(value)
        for seed in range(300)
        for _, value in generate("visits", VISITS_PER_ROUND, seed=seed)
    ]
    private = sum(visit["keep_private"] for visit in first_rounds) / len(first_rounds)
    referrals = Counter(visit["context"]["referral"] for visit in first_rounds)
    assert abs(private - 1 / 7) < 0.03
    assert len(referrals) == 9
    assert abs(referrals[None] / len(first_rounds) - 1 / 9) < 0.03
