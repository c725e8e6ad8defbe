"""The one way in which tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None], seconds: float = 40.0, what: str | Callable[[], str] = "it"
) -> T:
    """Return the first true value of `condition`.

    Args:
        what: completes the sentence "… did not happen within N s".
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    text = what() if callable(what) else what
    raise AssertionError(f"{text} did not happen within {seconds:g} s")
