"""Output that commands share: `--json`, tables, progress."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

import click
import rich.progress
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from headwater.cli.text import json_text
from headwater.model.progress import Progress

# Messages go to standard error; standard output is for data.
messages = Console(stderr=True, highlight=False, soft_wrap=True)

# Wider than any row of a table.
_PIPE_WIDTH = 10_000_000

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    """Print one JSON document to standard output."""
    click.echo(json_text(value, indent=2))


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[object]], *, framed: bool = False
) -> None:
    """Print a table to standard output; cells are not interpreted as markup.

    Args:
        framed: with the lines of Spark's `show`.
    """
    from rich.box import ASCII2
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    if framed:
        table = Table(box=ASCII2, padding=0, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    # A pipe has no width: rows must not be folded.
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)
    # Not printed by rich, which exits with 1 when the reader of a pipe has closed it.
    with console.capture() as table_text:
        console.print(table)
    click.echo(table_text.get(), nl=False)


@contextmanager
def reading_progress() -> Iterator[Progress]:
    """Shows how much of a topic was read; without a terminal, a line per 250,000 records."""
    if messages.is_terminal:
        with messages.status("connecting to Kafka") as status:
            yield lambda task, done, total: status.update(f"{task}: {done} of {total}")
        return

    def show(task: str, done: int, total: int) -> None:
        if done and done % 250_000 == 0:
            messages.print(f"{task}: {done} of {total}", markup=False)

    yield show


@contextmanager
def download_progress() -> Iterator[Progress]:
    """Shows downloads of jars while the body runs; without a terminal, a line per quarter."""
    if not messages.is_terminal:
        yield _QuarterLines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with rich.progress.Progress(*columns, console=messages, transient=True) as bars:
        tasks: dict[str, rich.progress.TaskID] = {}

        def show(task: str, done: int, total: int) -> None:
            if task not in tasks:
                tasks[task] = bars.add_task(task, total=None)
            bars.update(tasks[task], completed=done, total=total)

        yield show


class _QuarterLines:
    """Prints a line when a task starts and after each quarter of it."""

    def __init__(self) -> None:
        self._quarters: dict[str, int] = {}

    def __call__(self, task: str, done: int, total: int) -> None:
        if task not in self._quarters:
            self._quarters[task] = 0
            messages.print(task, markup=False)
        quarter = done * 4 // max(total, 1)
        if quarter > self._quarters[task]:
            self._quarters[task] = quarter
            messages.print(f"{task}: {done} of {total}", markup=False)


@contextmanager
def stopped_by_signals() -> Iterator[Event]:
    """An event that SIGINT and SIGTERM set, so that a command can finish what it started."""
    event = Event()
    previous = {
        name: signal.signal(name, lambda number, frame: event.set())
        for name in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield event
    finally:
        for name, handler in previous.items():
            signal.signal(name, handler)
