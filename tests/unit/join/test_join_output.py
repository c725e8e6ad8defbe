"""The fields of the default output, and the fields in options of `watermark_join_job`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headwater.errors import InputError
from headwater.jobs.watermark_join_job import main, parse_fields
from headwater.join import JoinRule, JoinSide
from headwater.join.output import output_fields


def test_a_shared_key_is_written_once_and_other_shared_names_get_a_prefix() -> None:
    orders = {"order_id": "string", "at": "timestamp", "amount": "double"}
    payments = {"at": "timestamp", "order_id": "string", "method": "string"}
    rule = JoinRule(
        JoinSide("orders", orders, "order_id", "at"),
        JoinSide("payments", payments, "order_id", "at"),
        timedelta(),
        timedelta(hours=1),
    )
    assert output_fields(rule) == {
        "order_id": ("order_id", "order_id"),
        "left_at": ("at", None),
        "amount": ("amount", None),
        "right_at": (None, "at"),
        "method": (None, "method"),
    }


def test_fields_have_types() -> None:
    assert parse_fields("tenant, sum:decimal(10,2),id:bigint", "--left-key") == {
        "tenant": "string",
        "sum": "decimal(10,2)",
        "id": "bigint",
    }
    assert parse_fields("", "--left-values") == {}


@pytest.mark.parametrize(
    ("text", "word"), [("a,,b", "is without a name"), ("a,a:int", "'a:int' is named twice")]
)
def test_unclear_fields_are_refused_with_the_option(text: str, word: str) -> None:
    with pytest.raises(InputError, match=f"--left-key: field .*{word}"):
        parse_fields(text, "--left-key")


OPTIONS = ["--left", "orders", "--left-key", "order_id", "--left-time", "ordered_at"]
OPTIONS += ["--right", "payments", "--right-key", "order", "--right-time", "paid_at"]


def test_explain_describes_the_join_without_starting_spark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bounds = ["--within", "-10 minutes", "1 hour", "--how", "full_outer"]
    main.main([*OPTIONS, *bounds, "--explain"], standalone_mode=False)
    text = capsys.readouterr().out
    assert "orders full outer join payments -> joined" in text
    assert "paid_at is -10 minutes to 1 hour after ordered_at" in text


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (["--within", "soon", "1 hour"], "--within: not a duration: 'soon'"),
        (["--within", "1 hour", "1 minute"], "payments from 1 hour until 1 minute after orders"),
        (["--left-watermark", "-1 day"], "--left-watermark can't be less than 0 seconds"),
        (["--left-values", "order_id"], "--left-values: 'order_id' is the key or the time"),
        (["--right-key", "order:bigint"], "the keys of orders and payments differ"),
        (["--idle-timeout", "0 seconds"], "--idle-timeout can't be less than 1 millisecond"),
        (
            ["--idle-timeout", "1 second", "--available-now"],
            "--idle-timeout can't be used with --available-now",
        ),
    ],
)
def test_impossible_options_are_refused(more: list[str], word: str) -> None:
    options = [*OPTIONS, "--within", "0 seconds", "1 hour", *more, "--explain"]
    with pytest.raises(InputError, match=word):
        main.main(options, standalone_mode=False)
