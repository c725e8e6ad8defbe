"""Bytes and text of others as JSON has them, in the way of `headwater consume --json`."""

from __future__ import annotations

import base64
from typing import Any


def bytes_as_json(data: bytes | None) -> Any:
    """Text where the bytes are UTF-8, else `{"base64": …}`; null stays null."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def text_as_json(text: str | None) -> Any:
    """The same for text of a header, in which bytes that are not UTF-8 are half surrogates."""
    return None if text is None else bytes_as_json(text.encode("utf-8", "surrogateescape"))
