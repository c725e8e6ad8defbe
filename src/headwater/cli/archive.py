"""`archive status|compact|read`: topics that are archived in Delta tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.app import with_settings
from headwater.cli.output import json_option, messages, print_json, print_table
from headwater.cli.records import as_line, as_object, record_options
from headwater.cli.show import MAX_ROWS, print_archive_table
from headwater.cli.text import json_text
from headwater.errors import BrokerUnavailableError, InputError, TopicNotFoundError
from headwater.kafka import TopicPartitionState, partition_states
from headwater.settings import Settings, arm_fault_points
from headwater.settings.path_option import PathOption
from headwater.storage.archive.contract import archive_folder

if TYPE_CHECKING:
    from headwater.storage.archive.coverage import ArchiveCoverage
    from headwater.storage.archive.reader import Archive
    from headwater.storage.offset_ranges import OffsetRanges

# Gaps in a line of the table; `--json` has all of them.
_GAPS_SHOWN = 3

_table = click.option(
    "--table",
    type=PathOption(file_okay=False, table=True),
    help="Folder of the archive, if it is not in the archive folder.",
)


@click.group()
def archive() -> None:
    """Show, read and compact topics that are archived in Delta tables."""


@archive.command()
@click.argument("topics", nargs=-1)
@_table
@json_option
@with_settings
def status(settings: Settings, topics: tuple[str, ...], table: Path | None, as_json: bool) -> None:
    """Show for each partition the archived offsets, the gaps and the lag.

    Without TOPICS: for all archives.
    """
    lines: list[dict[str, Any]] = []
    unreachable = None
    for each in _archives(settings, topics, table):
        states: Mapping[int, TopicPartitionState] | None = None
        if unreachable is None:
            try:
                states = {s.partition: s for s in partition_states(each.topic, settings.kafka)}
            except TopicNotFoundError:
                messages.print(f"{each.topic}: the topic does not exist", markup=False)
            except BrokerUnavailableError as error:
                unreachable = error
        with messages.status(f"reading {each.path}"):
            lines += _status_lines(each, states)
    if as_json:
        print_json(lines)
    else:
        _print_status(lines)
    if unreachable is not None:
        raise unreachable


@archive.command()
@click.argument("topics", nargs=-1)
@_table
@click.option(
    "--vacuum", "clean", is_flag=True, help="Also delete files that were replaced a day ago."
)
@json_option
@with_settings
def compact(
    settings: Settings, topics: tuple[str, ...], table: Path | None, clean: bool, as_json: bool
) -> None:
    """Merge small files, in offset order. The archiving job may be running.

    Without TOPICS: for all archives.
    """
    from headwater.storage.archive import compaction

    arm_fault_points(settings)
    results = []
    for each in _archives(settings, topics, table):
        with _compaction_progress(each.topic) as progress:
            result = compaction.compact(each, settings, everything=True, progress=progress)
        results.append(
            {
                "topic": each.topic,
                "files_before": result.files_before,
                "files_after": result.files_after,
                "joined": result.joined,
                "left_to_others": result.left_to_others,
                "removed": compaction.vacuum(each) if clean else 0,
            }
        )
    if as_json:
        print_json(results)
    else:
        headings = ("topic", "files before", "files after", "joined", "left to others", "removed")
        print_table(headings, [list(each.values()) for each in results])


@archive.command()
@click.argument("topic")
@_table
@click.option("--partition", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--first", type=click.IntRange(min=0), default=0, help="First offset.")
@click.option("--last", type=click.IntRange(min=0), help="Last offset, included.")
@record_options
@with_settings
def read(
    settings: Settings,
    topic: str,
    table: Path | None,
    partition: int | None,
    first: int,
    last: int | None,
    limit: int | None,
    headers: bool,
    timestamps: bool,
    show_address: bool,
    output_format: str,
) -> None:
    """Print archived records as `consume` prints those of a topic.

    Exits 1 if some of the offsets are not archived, and prints them. With --format table, prints
    at most 1000 records unless --limit is set, with year, month, day and hour of their event time
    in UTC.
    """
    (archive,) = _archives(settings, (topic,), table)
    ranges = _ranges(archive.coverage(), partition, first, last)
    plan = archive.plan(ranges)
    messages.print(f"{plan.records} records in {len(plan.files)} files", markup=False)
    if output_format == "table":
        print_archive_table(archive, ranges, limit or MAX_ROWS)
    else:
        for record in itertools.islice(archive.read(ranges), limit):
            if output_format == "json":
                click.echo(json_text(as_object(record)))
            else:
                click.echo(as_line(record, headers, timestamps, show_address))
    for number, missing in plan.missing.items():
        click.echo(f"not archived: {topic}/{number} {_ranges_text(missing.ranges())}", err=True)
    if plan.missing:
        click.get_current_context().exit(1)


def _archives(settings: Settings, topics: Sequence[str], table: Path | None) -> list[Archive]:
    from headwater.storage.archive.reader import Archive

    if table is not None:
        if len(topics) > 1:
            raise InputError("--table is one archive: use it with at most one topic")
        archive = Archive(table.absolute())
        if topics and archive.topic != topics[0]:
            raise InputError(f"{table} is the archive of {archive.topic!r}, not of {topics[0]!r}")
        return [archive]
    folder = archive_folder(settings)
    names = topics or sorted(log.parent.name for log in folder.glob("*/_delta_log"))
    if not names:
        raise InputError(
            f"there are no archives in {folder}",
            hint="`headwater run data_synchronization_job` creates one",
        )
    return [Archive.open(name, settings) for name in names]


def _status_lines(
    archive: Archive, states: Mapping[int, TopicPartitionState] | None
) -> Iterator[dict[str, Any]]:
    """One line for each partition of the archive or the topic."""
    coverage = archive.coverage()
    for partition in sorted({*coverage, *(states or {})}):
        covered = coverage.get(partition)
        state = None if states is None else states.get(partition)
        next_offset = covered.last + 1 if covered else (state.first if state else 0)
        yield {
            "topic": archive.topic,
            "partition": partition,
            "first": covered.first if covered else None,
            "last": covered.last if covered else None,
            "records": len(covered.archived) if covered else 0,
            "holes": len(covered.holes) if covered else 0,
            "gaps": [list(gap) for gap in covered.gaps] if covered else [],
            "lag": max(state.end - next_offset, 0) if state else None,
            # Deleted from the topic by retention before they were archived.
            "lost": max(state.first - next_offset, 0) if state else None,
        }


def _print_status(lines: Sequence[dict[str, Any]]) -> None:
    headings = ("topic", "partition", "first", "last", "records", "holes", "gaps", "lag", "lost")
    rows = [
        [_ranges_text(line[name]) if name == "gaps" else _text(line[name]) for name in headings]
        for line in lines
    ]
    print_table(headings, rows)


def _text(value: Any) -> str:
    return "?" if value is None else str(value)


def _ranges_text(ranges: Sequence[Sequence[int]]) -> str:
    texts = [f"@{first}" if first == last else f"@{first}..{last}" for first, last in ranges]
    more = len(texts) - _GAPS_SHOWN
    return ", ".join(texts[:_GAPS_SHOWN]) + (f" and {more} more" if more > 0 else "") or "none"


def _ranges(
    coverage: Mapping[int, ArchiveCoverage], partition: int | None, first: int, last: int | None
) -> dict[int, OffsetRanges]:
    """The requested offsets by partition; without --last, up to the last archived one."""
    from headwater.storage.offset_ranges import OffsetRanges

    if partition is not None and partition not in coverage:
        raise InputError(
            f"partition {partition} is not archived",
            hint=f"archived: {', '.join(map(str, coverage)) or 'nothing'}",
        )
    chosen = coverage if partition is None else [partition]
    ranges = {}
    for number in chosen:
        covered = coverage[number]
        begin, end = first or covered.first, covered.last if last is None else last
        if begin <= end:
            ranges[number] = OffsetRanges.of((begin, end))
    return ranges


@contextmanager
def _compaction_progress(topic: str) -> Iterator[Any]:
    with messages.status(f"{topic}: looking for small files") as status:

        def progress(task: str, done: int, total: int) -> None:
            status.update(f"{task}: {done} of {total} small files")

        yield progress
