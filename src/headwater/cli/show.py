"""Records as a table: `consume --format table`, `archive read --format table`, and the former
commands `read-topic` and `read-table`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.app import with_settings
from headwater.cli.options import RenamedOption
from headwater.cli.output import messages, print_table, reading_progress
from headwater.cli.text import as_json as bytes_as_json
from headwater.cli.text import json_text, printable
from headwater.kafka import read_topic as read_records
from headwater.model import Record
from headwater.settings import Settings
from headwater.settings.path_option import PathOption
from headwater.storage.archive.contract import SHOWN_COLUMNS

if TYPE_CHECKING:
    from headwater.storage.archive.reader import Archive
    from headwater.storage.offset_ranges import OffsetRanges

# The width of a column depends on all its cells, so that nothing is printed before the last row.
MAX_ROWS = 1000
_TOPIC_COLUMNS = ("value", "partition", "offset")

_limit = click.option(
    "--limit",
    cls=RenamedOption,
    former=["--max"],
    type=click.IntRange(min=1),
    default=MAX_ROWS,
    show_default=True,
    help="Maximum number of rows.",
)
_lines = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")


@click.command("read-table", hidden=True)
@click.argument("topic", default="visits")
@click.option(
    "--table",
    type=PathOption(file_okay=False, table=True),
    help="Folder of the archive, if it is not in the archive folder.",
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
    _print_rows(SHOWN_COLUMNS, _archive_rows(archive), limit, as_json)


@click.command("read-topic", hidden=True)
@click.argument("topic", default="visits_transformed")
@_limit
@_lines
@with_settings
def read_topic(settings: Settings, topic: str, limit: int, as_json: bool) -> None:
    """Show the records of a topic, by partition and offset."""
    records = _topic_records(topic, settings, limit)
    _print_rows(_TOPIC_COLUMNS, map(_topic_row, records), limit, as_json)


def print_topic_table(topic: str, settings: Settings, limit: int) -> None:
    """The records of a topic as a table, by partition and offset."""
    records = _topic_records(topic, settings, limit)
    _print_rows(_TOPIC_COLUMNS, map(_topic_row, records), limit)


def print_archive_table(
    archive: Archive, ranges: dict[int, OffsetRanges], limit: int = MAX_ROWS
) -> None:
    """Archived records as a table with the hour of their event time, by partition and offset."""
    _print_rows(SHOWN_COLUMNS, _archive_rows(archive, ranges), limit)


def _topic_records(topic: str, settings: Settings, limit: int) -> list[Record]:
    with reading_progress() as progress:
        records = read_records(topic, settings.kafka, progress=progress)
        # Records of several partitions arrive interleaved.
        found = sorted(itertools.islice(records, limit + 1), key=lambda record: record.address)
        records.close()
    return found


def _topic_row(record: Record) -> tuple[Any, ...]:
    return record.value, record.address.partition, record.address.offset


def _archive_rows(
    archive: Archive, ranges: dict[int, OffsetRanges] | None = None
) -> Iterator[tuple[Any, ...]]:
    for record, hour in archive.rows():
        partition, offset = record.address.partition, record.address.offset
        wanted = None if ranges is None else ranges.get(partition)
        if ranges is None or (wanted is not None and wanted.meets(offset, offset)):
            yield (record.value, partition, offset, *hour)


def _print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], limit: int, as_json: bool = False
) -> None:
    found = list(itertools.islice(rows, limit + 1))
    shown = found[:limit]
    if as_json:
        for value, *numbers in shown:
            content = (bytes_as_json(value), *numbers)
            click.echo(json_text(dict(zip(columns, content, strict=True))))
    else:
        print_table(columns, [[_text(value), *numbers] for value, *numbers in shown], framed=True)
    if len(found) > limit:
        messages.print(f"only the first {limit} rows are shown; --limit shows more")


def _text(value: bytes | None) -> str:
    # In capitals, to distinguish it from the text `null`.
    return "NULL" if value is None else printable(value)
