"""The progress callback of long operations: reading topics, downloading jars, replaying."""

from __future__ import annotations

from collections.abc import Callable

# Called with the task ("reading visits"), the done amount and the total; 0 is an unknown total.
Progress = Callable[[str, int, int], None]


def no_progress(task: str, done: int, total: int) -> None:
    """The default: does not show progress."""
