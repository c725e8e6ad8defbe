"""The one progress protocol of long work: reading topics, fetching jars, replaying."""

from __future__ import annotations

from collections.abc import Callable

# Called with the task ("reading visits"), what is done and the total; a total of 0 is unknown.
Progress = Callable[[str, int, int], None]


def no_progress(task: str, done: int, total: int) -> None:
    """For callers that show no progress."""
