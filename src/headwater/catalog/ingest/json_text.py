"""Parses untrusted JSON with a depth limit."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from headwater.catalog.ingest.checks import BadEventError

# orjson turns integers beyond 64 bits into floats; Python's parser keeps them.
_LONG_NUMBER = re.compile(rb"\d{19}")
_PAIR = re.compile(rb"\{\}|\[\]")
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_SEPARATOR = re.compile(r"[ \t\r\n]*(?:,[ \t\r\n]*)?")
_NO_BRACKETS = bytes(mark for mark in range(256) if chr(mark) not in "{}[]")


def parse_json(body: bytes, max_depth: int) -> Any:
    """The parsed value.

    Raises:
        BadEventError: 400 if it is not JSON, 413 if it is nested too deeply.
    """
    try:
        value = orjson.loads(body)
        if _LONG_NUMBER.search(body):
            value = json.loads(body)
    except RecursionError:
        raise _too_deep(max_depth) from None
    except ValueError as error:
        if "depth limit" in str(error) or "ecursion" in str(error):
            raise _too_deep(max_depth) from None
        reason = str(error) if body else "the body is empty"
        raise BadEventError(f"body is not JSON: {reason}", status=400) from None
    if not _brackets_within(body, max_depth) and not _depth_within(value, max_depth):
        raise _too_deep(max_depth)
    return value


def array_texts(body: bytes) -> list[str]:
    """The text of each value in a JSON array that `parse_json` accepted, unchanged."""
    text = body.decode()
    texts: list[str] = []
    position = _SPACE.match(text, text.index("[") + 1).end()  # type: ignore[union-attr]
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        texts.append(text[position:end])
        position = _SEPARATOR.match(text, end).end()  # type: ignore[union-attr]
    return texts


def json_text(value: Any) -> str:
    """Compact JSON; integers may have any size."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def canonical_bytes(value: Any) -> bytes:
    """The same bytes for the same value, whatever the order of its keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
        return text.encode()


def _brackets_within(body: bytes, max_depth: int) -> bool:
    """Whether the brackets alone prove that the depth is within the limit; ten times faster.

    Each round removes the innermost pairs. Brackets inside strings may remain: then the result is
    unknown, and the parsed value has to be checked.
    """
    brackets = body.translate(None, _NO_BRACKETS)
    for _ in range(max_depth):
        if not brackets:
            return True
        fewer = _PAIR.sub(b"", brackets)
        if len(fewer) == len(brackets):
            return False
        brackets = fewer
    return not brackets


def _depth_within(value: Any, max_depth: int) -> bool:
    # Not recursive: a deep value would exhaust the stack.
    level = [value]
    for _ in range(max_depth):
        following: list[Any] = []
        for item in level:
            if type(item) is dict:
                following += [v for v in item.values() if type(v) is dict or type(v) is list]
            elif type(item) is list:
                following += [v for v in item if type(v) is dict or type(v) is list]
        if not following:
            return True
        level = following
    return False


def _too_deep(max_depth: int) -> BadEventError:
    return BadEventError(f"body is nested deeper than {max_depth} levels", status=413)
