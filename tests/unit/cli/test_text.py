"""Text from records is escaped before it is printed."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.cli.text import as_json, json_text, one_line_each, printable

# What a terminal interprets, by Unicode properties, not by a list.
MARKS = {"\u061c", "\u200e", "\u200f"}
EMBEDDINGS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}

EVERY_CHARACTER = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
ATTACKS = {
    "\x1b[2J": "\\x1b[2J",
    "\x1b]0;title\x07": "\\x1b]0;title\\x07",
    "\x9b2J": "\\x9b2J",
    "a\rb": "a\\x0db",
    "a\r\nb": "a\\x0d\\x0ab",
    "a\nb": "a\\x0ab",
    "a\x08b": "a\\x08b",
    "a\x00b": "a\\x00b",
    "a\x7fb": "a\\x7fb",
    "a\u202eb": "a\\u202eb",
    "a\u2067b\u2069": "a\\u2067b\\u2069",
    "a\u200fb": "a\\u200fb",
    "a\u061cb": "a\\u061cb",
    "a\u2028b": "a\\u2028b",
    "a\u0085b": "a\\x85b",
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def is_interpreted(character: str) -> bool:
    return (
        (unicodedata.category(character) in {"Cc", "Zl", "Zp"} and character != "\t")
        or unicodedata.bidirectional(character) in EMBEDDINGS
        or character in MARKS
    )


def is_safe(text: str) -> bool:
    return not any(map(is_interpreted, text))


@pytest.mark.parametrize(("text", "shown"), ATTACKS.items())
def test_control_and_bidirectional_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text.encode()) == shown


@pytest.mark.parametrize(
    "shown_by",
    [
        lambda character: printable(character.encode()),
        lambda character: one_line_each(character).replace("\n", ""),
        json_text,
    ],
    ids=["printable", "one_line_each", "json_text"],
)
def test_no_character_of_unicode_gets_through_that_a_terminal_acts_on(
    shown_by: Callable[[str], str],
) -> None:
    attacks = filter(is_interpreted, EVERY_CHARACTER)
    assert [hex(ord(character)) for character in attacks if not is_safe(shown_by(character))] == []


@given(st.binary() | st.text().map(str.encode))
@example(bytes(range(256)))
def test_any_bytes_become_one_safe_line(data: bytes) -> None:
    shown = printable(data)
    assert is_safe(shown)
    assert len(shown.splitlines()) <= 1
    shown.encode()  # no half of a surrogate pair, on which printing would fail


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_plain_text_of_any_script_is_shown_as_it_is(text: str) -> None:
    text += " \t "
    assert printable(text.encode()) == text


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\xff", "\\xff"),
        (b"ok\xc3", "ok\\xc3"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),  # half of a surrogate pair
        (b"\xc0\x9b", "\\xc0\\x9b"),  # a control in a form that is too long
        (b"", ""),
        (None, "null"),
    ],
)
def test_invalid_utf_8_is_shown_as_hex_escapes(data: bytes | None, shown: str) -> None:
    assert printable(data) == shown


@given(st.text())
def test_text_of_several_lines_keeps_only_line_breaks(text: str) -> None:
    lines = one_line_each(text).split("\n")
    assert all(map(is_safe, lines))
    assert len(lines) == len(text.split("\n"))


def test_a_carriage_return_cannot_overwrite_an_error_message() -> None:
    assert (
        one_line_each("error: bad\rall is well\nhint: x") == "error: bad\\x0dall is well\nhint: x"
    )


@given(st.text())
def test_utf_8_is_json_text(text: str) -> None:
    assert as_json(text.encode()) == text


@given(st.binary())
def test_bytes_can_be_restored_from_json(data: bytes) -> None:
    content = json.loads(json.dumps(as_json(data)))
    if isinstance(content, str):
        assert content.encode() == data
    else:
        assert base64.b64decode(content["base64"]) == data


def test_null_differs_from_the_text_null() -> None:
    assert as_json(None) is None
    assert as_json(b"null") == "null"


def test_bytes_that_are_not_utf_8_are_base_64() -> None:
    assert as_json(b"\xff") == {"base64": "/w=="}


@given(json_values, st.sampled_from([None, 2]))
def test_printed_json_is_safe_and_equivalent(value: Any, indent: int | None) -> None:
    text = json_text(value, indent)
    assert json.loads(text) == value
    assert all(map(is_safe, text.split("\n")))
    assert indent is not None or len(text.splitlines()) == 1


def test_json_keeps_letters_of_all_scripts_readable() -> None:
    assert json_text({"page": "страница"}) == '{"page": "страница"}'
