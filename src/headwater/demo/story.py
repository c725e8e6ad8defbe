"""The output of a demo on a terminal: numbered steps with their durations, then checks.

A failed check does not stop the demo, so that all checks are shown; the command then fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from headwater.model.progress import Progress
from headwater.settings import Settings


class DemoStep:
    """A running step; its result is shown when it ends."""

    def __init__(self) -> None:
        self.result = ""


class Story:
    """Prints one or more demos and counts their checks."""

    def __init__(self, settings: Settings, console: Console, progress: Progress) -> None:
        self.settings = settings
        self.progress = progress
        self.passed = 0
        self.failed: list[str] = []
        self._console = console
        self._steps = 0
        self._marks = ("✓", "✗") if _is_unicode(console) else ("ok", "FAILED")

    def title(self, text: str) -> None:
        """Start a demo."""
        self._console.print()
        self._console.print(Text(text, style="bold"))
        self._steps = 0

    @contextmanager
    def step(self, text: str) -> Iterator[DemoStep]:
        """A numbered step, with a spinner while the body runs."""
        self._steps += 1
        began = time.monotonic()
        step = DemoStep()
        with self._console.status(Text(text)):
            yield step
        seconds = time.monotonic() - began
        line = Text(f"{self._steps:>3}  {text}")
        if step.result:
            line.append(f": {step.result}", style="cyan")
        line.append(f"  {seconds:.1f} s", style="dim")
        self._console.print(line, soft_wrap=True)

    def show(self, text: str, *, dim: bool = False) -> None:
        """Print an indented line, cut at the terminal's width."""
        line = Text(f"     {text}", style="dim" if dim else "")
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def check(self, claim: str, holds: bool, actual: str = "") -> None:
        """Report whether a claim holds; `actual` explains a failure."""
        passed_mark, failed_mark = self._marks
        if holds:
            self.passed += 1
            self._console.print(Text(f"     {passed_mark} {claim}", style="green"), soft_wrap=True)
            return
        self.failed.append(claim)
        reason = f" ({actual})" if actual else ""
        line = Text(f"     {failed_mark} {claim}{reason}", style="bold red")
        self._console.print(line, soft_wrap=True)


def _is_unicode(console: Console) -> bool:
    return "utf" in console.encoding.lower()
