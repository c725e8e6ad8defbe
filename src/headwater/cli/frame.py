"""What commands share: settings, `--json`, tables, progress."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headwater.cli.text import json_text
from headwater.errors import InputError
from headwater.jvm.jars import Watcher
from headwater.settings import Settings, load

P = ParamSpec("P")
R = TypeVar("R")

# People read standard error; standard output is for data.
messages = Console(stderr=True, highlight=False)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def with_settings(function: Callable[Concatenate[Settings, P], R]) -> Callable[P, R]:
    """Give a command the settings as its first argument; `--set` wins."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        root = click.get_current_context().find_root()
        overrides = (root.obj or {}).get("overrides", ())
        return function(load(**parse_overrides(overrides)), *args, **kwargs)

    return wrapper


def parse_overrides(pairs: Sequence[str]) -> dict[str, Any]:
    """`kafka.port=19092` becomes `{"kafka": {"port": "19092"}}`."""
    result: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        section, dot, key = name.partition(".")
        if not equals or not section or (dot and not key):
            raise InputError(f"--set wants SECTION.KEY=VALUE, not {pair!r}")
        if section in result and isinstance(result[section], dict) != bool(dot):
            raise InputError(f"--set gives {section!r} a value and keys, with {pair!r}")
        if dot:
            result.setdefault(section, {})[key] = value
        else:
            result[section] = value
    return result


def print_json(value: Any) -> None:
    """One document on standard output."""
    click.echo(json_text(value, indent=2))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on standard output; nothing in it is taken as markup."""
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    # A pipe has no width: rows are not to be folded at an invented one.
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    # Not printed by rich itself: it ends the program with 1 when the reader of a pipe has left.
    with console.capture() as table_text:
        console.print(table)
    click.echo(table_text.get(), nl=False)


@contextmanager
def reading_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Shows how far a topic has been read; plain lines, a few, where there is no terminal."""
    if messages.is_terminal:
        with messages.status("asking Kafka") as status:
            yield lambda topic, done, total: status.update(f"reading {topic}: {done} of {total}")
        return

    def show(topic: str, done: int, total: int) -> None:
        # What is read in a moment needs no line in a log.
        if done and done % 250_000 == 0:
            messages.print(f"reading {topic}: {done} of {total}", markup=False)

    yield show


@contextmanager
def download_progress() -> Iterator[Watcher]:
    """Shows downloads of jars while the body runs; plain lines where there is no terminal."""
    if not messages.is_terminal:
        yield _plain_progress
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=messages, transient=True) as progress:

        def watch(group: str) -> Callable[[int, int], None]:
            task = progress.add_task(f"fetching jars: {group}", total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield watch


def _plain_progress(group: str) -> Callable[[int, int], None]:
    messages.print(f"fetching jars: {group}")
    told = 0

    def show(done: int, total: int) -> None:
        nonlocal told
        # A line for each quarter: enough to see that it moves, short enough for a log.
        if done * 4 // max(total, 1) > told:
            told = done * 4 // max(total, 1)
            messages.print(f"fetching jars: {group}: {done} of {total}")

    return show


@contextmanager
def stopped_by_signals() -> Iterator[Event]:
    """An event that SIGINT and SIGTERM set, so that what was begun is brought to its end."""
    event = Event()
    kept = {
        name: signal.signal(name, lambda number, frame: event.set())
        for name in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield event
    finally:
        for name, handler in kept.items():
            signal.signal(name, handler)
