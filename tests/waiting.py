"""The one way in which tests wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None],
    seconds: float = 40.0,
    what: str = "the condition",
    details: Callable[[], str] | None = None,
    *,
    pause_seconds: float = 0.02,
) -> T:
    """Return the first true value of `condition`.

    Args:
        what: completes the message "timed out after N s waiting for …".
        details: appended to the message, such as the log of a process.
        pause_seconds: between two checks; longer for an expensive condition.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= deadline:
            message = f"timed out after {seconds:g} s waiting for {what}"
            raise AssertionError(f"{message}\n{details()}" if details else message)
        time.sleep(pause_seconds)
    return value
