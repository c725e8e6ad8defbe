"""How a story is told on a terminal: numbered steps with their times, then checks.

A check that fails does not end the story, so that one sees all of them; the story as a whole
fails with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from headwater.model.progress import Progress
from headwater.settings import Settings


class Step:
    """A step that is being told; its result is shown when it ends."""

    def __init__(self) -> None:
        self.result = ""


class Story:
    """Tells one or more stories and counts their checks."""

    def __init__(self, settings: Settings, console: Console, progress: Progress) -> None:
        self.settings = settings
        self.progress = progress
        self.passed = 0
        self.failed: list[str] = []
        self._console = console
        self._steps = 0
        self._signs = ("✓", "✗") if _speaks_unicode(console) else ("ok", "FAILED")

    def title(self, text: str) -> None:
        """Begin a story."""
        self._console.print()
        self._console.print(Text(text, style="bold"))
        self._steps = 0

    @contextmanager
    def step(self, text: str) -> Iterator[Step]:
        """A numbered step; a spinner turns while the body runs."""
        self._steps += 1
        began = time.monotonic()
        step = Step()
        with self._console.status(Text(text)):
            yield step
        seconds = time.monotonic() - began
        line = Text(f"{self._steps:>3}  {text}")
        if step.result:
            line.append(f": {step.result}", style="cyan")
        line.append(f"  {seconds:.1f} s", style="dim")
        self._console.print(line, soft_wrap=True)

    def show(self, text: str, *, dim: bool = False) -> None:
        """Something to look at, indented, cut at the terminal's width."""
        line = Text(f"     {text}", style="dim" if dim else "")
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def check(self, claim: str, true: bool, otherwise: str = "") -> None:
        """State what must be true now."""
        good, bad = self._signs
        if true:
            self.passed += 1
            self._console.print(Text(f"     {good} {claim}", style="green"), soft_wrap=True)
            return
        self.failed.append(claim)
        reason = f" ({otherwise})" if otherwise else ""
        self._console.print(Text(f"     {bad} {claim}{reason}", style="bold red"), soft_wrap=True)


def _speaks_unicode(console: Console) -> bool:
    return "utf" in console.encoding.lower()
