"""`--set SECTION.KEY=VALUE`."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cli.app import parse_overrides
from headwater.errors import InputError


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ((), {}),
        (("kafka.port=19092",), {"kafka": {"port": "19092"}}),
        (("home=/tmp/x",), {"home": "/tmp/x"}),
        (("a.b=1", "a.c=2", "d.e=3"), {"a": {"b": "1", "c": "2"}, "d": {"e": "3"}}),
        (("a.b=x=y",), {"a": {"b": "x=y"}}),
        (("a.b=",), {"a": {"b": ""}}),
        (("home=a.b",), {"home": "a.b"}),
    ],
)
def test_pairs_become_nested_settings(pairs: tuple[str, ...], expected: dict[str, Any]) -> None:
    assert parse_overrides(pairs) == expected


def test_the_last_of_several_values_is_used() -> None:
    assert parse_overrides(["a.b=1", "a.b=2", "home=1", "home=2"]) == {
        "a": {"b": "2"},
        "home": "2",
    }


@pytest.mark.parametrize("pair", ["", "kafka.port", "=1", ".port=1", "kafka.=1", "."])
def test_another_format_is_refused(pair: str) -> None:
    with pytest.raises(InputError, match=r"SECTION\.KEY=VALUE") as caught:
        parse_overrides([pair])
    assert repr(pair) in caught.value.message


@pytest.mark.parametrize("pairs", [("kafka=x", "kafka.port=1"), ("kafka.port=1", "kafka=x")])
def test_a_section_cannot_have_a_value_and_keys(pairs: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="kafka"):
        parse_overrides(pairs)
