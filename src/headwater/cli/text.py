"""Makes bytes and text from records safe for a terminal."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

# DEL and C1 controls, line separators, and bidirectional formatting characters.
_MARKS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[\x00-\x08\x0a-\x1f{_MARKS}]")
_UNSAFE_BUT_NEWLINE = re.compile(f"[\x00-\x08\x0b-\x1f{_MARKS}]")


def printable(data: bytes | None) -> str:
    """Bytes as one line of text; invalid UTF-8 and control characters are escaped."""
    if data is None:
        return "null"
    return _UNSAFE.sub(_escape, data.decode("utf-8", "backslashreplace"))


def one_line_each(text: str) -> str:
    """Text of several lines with control characters escaped."""
    return _UNSAFE_BUT_NEWLINE.sub(_escape, text)


def as_json(data: bytes | None) -> Any:
    """Bytes for JSON: text if they are UTF-8, else `{"base64": …}`; None stays None."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON that is safe to print: unsafe characters, which occur in strings only, are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _UNSAFE_BUT_NEWLINE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
