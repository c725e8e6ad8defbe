"""The rule of a join: durations, valid bounds, and until when records wait."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import CheckpointError, InputError
from headwater.join import JoinRule, JoinSide, parse_span
from headwater.join.rule import How
from headwater.join.rule_file import RULE_FILE, read_rule, rule_as_json, rule_of_json, save_rule
from headwater.join.spans import span_text

NINE = datetime(2024, 1, 1, 9, tzinfo=UTC)
ORDERS = JoinSide(
    "orders",
    fields={"tenant": "string", "order_id": "bigint", "ordered_at": "timestamp", "sum": "double"},
    key=("tenant", "order_id"),
    time="ordered_at",
    watermark=timedelta(minutes=10),
)
PAYMENTS = JoinSide(
    "payments",
    fields={"customer": "string", "order": "bigint", "paid_at": "timestamp"},
    key=("customer", "order"),
    time="paid_at",
    watermark=timedelta(minutes=5),
    required=("order",),
    name="paid",
)


def rule(**changes: Any) -> JoinRule:
    base = JoinRule(ORDERS, PAYMENTS, timedelta(minutes=-10), timedelta(hours=1))
    return replace(base, **changes)


@pytest.mark.parametrize(
    "text", ["2 minutes", "1 second", "-90 seconds", "250 milliseconds", "1 day", "36 hours"]
)
def test_a_duration_is_formatted_as_it_was_written(text: str) -> None:
    assert span_text(parse_span(text, "--within")) == text


@pytest.mark.parametrize("text", ["", "2", "minutes", "2 fortnights", "2  minutes", "1.5 hours"])
def test_an_invalid_duration_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InputError, match=r"--within: not a duration") as refused:
        parse_span(text, "--within")
    assert "2 minutes" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"topic": "no topic"}, "not a topic name: 'no topic'"),
        ({"key": "id"}, "key of topic 'orders': `fields` has no 'id'"),
        ({"key": ()}, "key of topic 'orders' is empty"),
        ({"time": "at"}, "time of topic 'orders': `fields` has no 'at'"),
        ({"time": "sum"}, "field 'sum' is of type double, not timestamp"),
        ({"required": ("amount",)}, "required of topic 'orders': `fields` has no 'amount'"),
        ({"watermark": "-1 second"}, "watermark of topic 'orders' can't be less than 0 seconds"),
        ({"watermark": "soon"}, "watermark of topic 'orders': not a duration: 'soon'"),
    ],
)
def test_an_impossible_side_is_refused(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        replace(ORDERS, **wrong)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"right": replace(ORDERS)}, "can't be joined with itself: 'orders'"),
        ({"lower": timedelta(hours=2)}, "payments from 2 hours until 1 hour after orders"),
        ({"how": "outer"}, "how: 'outer' is not one of inner, left_outer"),
        ({"matches": "last"}, "matches: 'last' is not one of all, first, nearest"),
        ({"right": replace(PAYMENTS, key="order")}, "the keys of orders and payments differ"),
        ({"right": replace(PAYMENTS, key=("order", "customer"))}, "order bigint, customer string"),
        ({"right": replace(PAYMENTS, name="orders")}, "both sides have the name 'orders'"),
    ],
)
def test_an_impossible_rule_is_refused(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        rule(**wrong)


@pytest.mark.parametrize(
    ("how", "written", "one_match_of"),
    [
        ("inner", (), "orders"),
        ("left_outer", ("orders",), "orders"),
        ("right_outer", ("payments",), "payments"),
        ("full_outer", ("orders", "payments"), "orders"),
    ],
)
def test_the_join_type_determines_which_records_are_written_alone(
    how: How, written: tuple[str, ...], one_match_of: str
) -> None:
    assert rule(how=how).preserved == written
    assert rule(how=how).primary.topic == one_match_of
    # The join type does not change how long a record waits.
    assert rule(how=how).waits_until(ORDERS, NINE) == NINE + timedelta(hours=1)
    assert rule(how=how).waits_until(PAYMENTS, NINE) == NINE + timedelta(minutes=10)


def test_with_nearest_a_row_waits_until_all_matches_are_known() -> None:
    hour, ten_minutes = timedelta(hours=1), timedelta(minutes=10)
    nearest = rule(matches="nearest", how="left_outer")
    assert nearest.written_until(ORDERS, NINE) == NINE + hour
    # A payment may belong to an order ten minutes later, which waits for an hour.
    assert nearest.written_until(PAYMENTS, NINE) == NINE + ten_minutes + hour
    mirrored = rule(matches="nearest", how="right_outer")
    assert mirrored.written_until(PAYMENTS, NINE) == NINE + hour
    assert mirrored.written_until(ORDERS, NINE) == NINE + 2 * hour
    early = rule(matches="nearest", lower=timedelta(hours=-3))
    assert early.written_until(ORDERS, NINE) == NINE + 3 * hour


def test_bounds_are_relative_to_a_record_of_either_side() -> None:
    assert rule().bounds_of(ORDERS) == (timedelta(minutes=-10), timedelta(hours=1))
    assert rule().bounds_of(PAYMENTS) == (timedelta(hours=-1), timedelta(minutes=10))


def test_a_rule_is_the_same_after_it_was_stored(tmp_path: Path) -> None:
    stored = rule(how="full_outer", matches="nearest")
    assert read_rule(tmp_path) is None
    save_rule(tmp_path, stored)
    assert read_rule(tmp_path) == stored
    assert rule_of_json(json.loads(json.dumps(rule_as_json(stored)))) == stored


def test_a_rule_with_its_own_parser_is_stored_as_not_readable_without_it(tmp_path: Path) -> None:
    save_rule(tmp_path, rule(left=replace(ORDERS, parse=lambda rows: rows)))
    stored = read_rule(tmp_path)
    assert stored is not None
    assert stored.left.parse is not None
    assert stored.right.parse is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"right": replace(PAYMENTS, topic="refunds")}, "the right topic payments, not refunds"),
        ({"how": "left_outer"}, "how: inner, not left_outer"),
        ({"matches": "first"}, "matches: all, not first"),
        (
            {"left": replace(ORDERS, fields={**ORDERS.fields, "sum": "float"})},
            "the fields of orders: .* sum double, not .* sum float",
        ),
    ],
)
def test_a_checkpoint_is_refused_for_another_join(
    tmp_path: Path, change: dict[str, Any], word: str
) -> None:
    save_rule(tmp_path, rule())
    # Bounds and delays may change.
    save_rule(tmp_path, rule(lower=timedelta(), left=replace(ORDERS, watermark="1 hour")))
    with pytest.raises(CheckpointError, match=word) as refused:
        save_rule(tmp_path, rule(**change))
    assert "--checkpoint" in (refused.value.hint or "")


def test_the_former_file_of_visits_and_ads_is_understood(tmp_path: Path) -> None:
    former = {
        "visits": "my-visits",
        "ads": "my-ads",
        "ad_from_ms": -30_000,
        "ad_until_ms": 120_000,
        "visits_delay_ms": 600_000,
        "ads_delay_ms": 300_000,
        "matches": "nearest",
    }
    file = tmp_path / RULE_FILE
    file.parent.mkdir()
    file.write_text(json.dumps(former))
    stored = read_rule(tmp_path)
    assert stored is not None
    assert (stored.left.topic, stored.right.topic) == ("my-visits", "my-ads")
    assert (stored.left.keys, stored.right.keys) == (("page",), ("page",))
    assert (stored.left.time, stored.right.time) == ("event_time", "display_time")
    assert (stored.how, stored.matches) == ("left_outer", "nearest")
    assert stored.waits_until(stored.left, NINE) == NINE + timedelta(minutes=2)
    assert stored.waits_until(stored.right, NINE) == NINE + timedelta(seconds=30)
    assert stored.right.delay == timedelta(minutes=5)


def test_the_job_continues_a_checkpoint_with_the_former_file(tmp_path: Path) -> None:
    from headwater.jobs.visits_ads_enrichment_job import sides

    former = {"visits": "visits", "ads": "ads", "ad_from_ms": 0, "ad_until_ms": 120_000}
    former |= {"visits_delay_ms": 600_000, "ads_delay_ms": 600_000}
    file = tmp_path / RULE_FILE
    file.parent.mkdir()
    file.write_text(json.dumps({**former, "matches": "all"}))
    current = JoinRule(*sides("visits", "ads"), timedelta(), timedelta(minutes=2), "left_outer")
    assert read_rule(tmp_path) == current
    save_rule(tmp_path, current)
    assert "left" in json.loads(file.read_text())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"left": 1}', '{"visits": "a b", "ads": "x"}'])
def test_a_damaged_rule_is_ignored(tmp_path: Path, text: str) -> None:
    file = tmp_path / RULE_FILE
    file.parent.mkdir()
    file.write_text(text)
    assert read_rule(tmp_path) is None
