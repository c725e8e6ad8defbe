"""`read-table` and `read-topic`: rows in the frame that Spark's `show` draws, without Spark."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from headwater.cli.output import messages, reading_progress, with_settings
from headwater.cli.text import as_json as bytes_as_json
from headwater.cli.text import json_text, printable
from headwater.kafka import read_topic as read_records
from headwater.settings import Settings
from headwater.storage.archive.contract import SHOWN_COLUMNS

# All columns have the width of their longest cell, so that nothing is printed before the end.
_ROWS = 1000
_TOPIC_COLUMNS = ("value", "partition", "offset")

_limit = click.option(
    "--max",
    "limit",
    type=click.IntRange(min=1),
    default=_ROWS,
    show_default=True,
    help="Show so many rows at most.",
)
_lines = click.option("--json", "as_json", is_flag=True, help="Print one object a line.")


@click.command("read-table")
@click.argument("topic", default="visits")
@click.option(
    "--table",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the archive, if it lies elsewhere.",
)
@_limit
@_lines
@with_settings
def read_table(
    settings: Settings, topic: str, table: Path | None, limit: int, as_json: bool
) -> None:
    """Show the rows of a topic's archive, by partition and offset.

    Year, month, day and hour are those of the event time, in UTC.
    """
    from headwater.storage.archive.reader import Archive

    archive = Archive(table.absolute()) if table else Archive.open(topic, settings)
    rows = (
        (record.value, record.address.partition, record.address.offset, *hour)
        for record, hour in archive.rows()
    )
    _print(SHOWN_COLUMNS, rows, limit, as_json)


@click.command("read-topic")
@click.argument("topic", default="visits_transformed")
@_limit
@_lines
@with_settings
def read_topic(settings: Settings, topic: str, limit: int, as_json: bool) -> None:
    """Show the records of a topic, by partition and offset."""
    with reading_progress() as progress:
        records = read_records(topic, settings.kafka, progress=progress)
        # Partitions come mixed.
        found = sorted(itertools.islice(records, limit + 1), key=lambda record: record.address)
        records.close()
    rows = ((record.value, record.address.partition, record.address.offset) for record in found)
    _print(_TOPIC_COLUMNS, rows, limit, as_json)


def _print(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], limit: int, as_json: bool
) -> None:
    found = list(itertools.islice(rows, limit + 1))
    shown = found[:limit]
    if as_json:
        for value, *numbers in shown:
            content = (bytes_as_json(value), *numbers)
            click.echo(json_text(dict(zip(columns, content, strict=True))))
    else:
        cells = [[_text(value), *map(str, numbers)] for value, *numbers in shown]
        for line in framed(columns, cells):
            click.echo(line)
    if len(found) > limit:
        messages.print(f"only the first {limit} rows are shown; --max shows more")


def _text(value: bytes | None) -> str:
    # In capitals, as Spark has it.
    return "NULL" if value is None else printable(value)


def framed(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """The lines of a table, as Spark's `show(truncate=False)` draws it."""
    cells = [list(columns), *map(list, rows)]
    # Spark makes no column narrower.
    widths = [max(3, *map(_width, column)) for column in zip(*cells, strict=True)]
    rule = "+" + "+".join("-" * width for width in widths) + "+"
    lines = [
        "|" + "|".join(_padded(cell, width) for cell, width in zip(row, widths, strict=True)) + "|"
        for row in cells
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - _width(cell))


def _width(text: str) -> int:
    """How many places it takes in a terminal: some letters take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
