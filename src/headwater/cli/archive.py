"""`archive status|compact|read`: topics that are kept in Delta tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.output import json_option, messages, print_json, print_table, with_settings
from headwater.cli.records import as_line, as_object
from headwater.cli.text import json_text
from headwater.errors import BrokerUnavailableError, InputError, TopicNotFoundError
from headwater.kafka import TopicPartitionState, partition_states
from headwater.settings import Settings, fault_points
from headwater.storage.archive.contract import archive_folder

if TYPE_CHECKING:
    from headwater.storage.archive.coverage import Coverage
    from headwater.storage.archive.reader import Archive
    from headwater.storage.offset_ranges import OffsetRanges

# Gaps that a line of the table names; `--json` has all of them.
_GAPS_SHOWN = 3

_table = click.option(
    "--table",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the archive, if it lies elsewhere.",
)


@click.group()
def archive() -> None:
    """Look at topics that are kept in Delta tables, read from them, join their files."""


@archive.command()
@click.argument("topics", nargs=-1)
@_table
@json_option
@with_settings
def status(settings: Settings, topics: tuple[str, ...], table: Path | None, as_json: bool) -> None:
    """Show for each partition what is archived, what is missing, and how far it is behind.

    Without TOPICS: of all archives.
    """
    found: list[dict[str, Any]] = []
    unreachable = None
    for each in _archives(settings, topics, table):
        states: Mapping[int, TopicPartitionState] | None = None
        if unreachable is None:
            try:
                states = {s.partition: s for s in partition_states(each.topic, settings.kafka)}
            except TopicNotFoundError:
                messages.print(f"{each.topic}: the topic is gone", markup=False)
            except BrokerUnavailableError as error:
                unreachable = error
        with messages.status(f"looking at {each.path}"):
            found += _status_lines(each, states)
    if as_json:
        print_json(found)
    else:
        _print_status(found)
    if unreachable is not None:
        raise unreachable


@archive.command()
@click.argument("topics", nargs=-1)
@_table
@click.option(
    "--vacuum", "clean", is_flag=True, help="Also remove files that were replaced a day ago."
)
@json_option
@with_settings
def compact(
    settings: Settings, topics: tuple[str, ...], table: Path | None, clean: bool, as_json: bool
) -> None:
    """Join small files, in the order of their offsets; the job may run meanwhile.

    Without TOPICS: of all archives.
    """
    from headwater.storage.archive import compaction

    fault_points.arm(settings.testing.fault_points, settings.home_dir / "faults.journal")
    results = []
    for each in _archives(settings, topics, table):
        with _joining(each.topic) as progress:
            done = compaction.compact(each, settings, everything=True, progress=progress)
        results.append(
            {
                "topic": each.topic,
                "files_before": done.files_before,
                "files_after": done.files_after,
                "joined": done.joined,
                "left_to_others": done.left_to_others,
                "removed": compaction.vacuum(each) if clean else 0,
            }
        )
    if as_json:
        print_json(results)
    else:
        headings = ("topic", "files before", "files after", "joined", "left to others", "removed")
        print_table(headings, [list(result.values()) for result in results])


@archive.command()
@click.argument("topic")
@_table
@click.option("--partition", type=click.IntRange(min=0), help="Only of this partition.")
@click.option("--first", type=click.IntRange(min=0), default=0, help="From this offset on.")
@click.option("--last", type=click.IntRange(min=0), help="Up to and with this offset.")
@click.option("--max", "limit", type=click.IntRange(min=1), help="End after so many records.")
@click.option("--headers", is_flag=True, help="Print the headers before the value.")
@click.option("--timestamps", is_flag=True, help="Print the time of each record.")
@click.option("--partitions", is_flag=True, help="Print partition and offset.")
@click.option("--json", "as_json", is_flag=True, help="Print everything, one object a line.")
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
    partitions: bool,
    as_json: bool,
) -> None:
    """Print archived records as `consume` prints those of a topic.

    Offsets that are not archived are told, and the exit code is 1.
    """
    (found,) = _archives(settings, (topic,), table)
    ranges = _ranges(found.coverage(), partition, first, last)
    plan = found.plan(ranges)
    messages.print(f"{plan.records} records in {len(plan.files)} files", markup=False)
    for record in itertools.islice(found.read(ranges), limit):
        if as_json:
            click.echo(json_text(as_object(record)))
        else:
            click.echo(as_line(record, headers, timestamps, partitions))
    for number, missing in plan.missing.items():
        click.echo(f"not archived: {topic}/{number} {_named(missing.ranges())}", err=True)
    if plan.missing:
        click.get_current_context().exit(1)


def _archives(settings: Settings, topics: Sequence[str], table: Path | None) -> list[Archive]:
    from headwater.storage.archive.reader import Archive

    if table is not None:
        if len(topics) > 1:
            raise InputError("--table is one archive: name one topic at most")
        found = Archive(table.absolute())
        if topics and found.topic != topics[0]:
            raise InputError(f"{table} is the archive of {found.topic!r}, not of {topics[0]!r}")
        return [found]
    folder = archive_folder(settings)
    names = topics or sorted(log.parent.name for log in folder.glob("*/_delta_log"))
    if not names:
        raise InputError(
            f"there are no archives in {folder}",
            hint="`headwater run data_synchronization_job` makes one",
        )
    return [Archive.open(name, settings) for name in names]


def _status_lines(
    archive: Archive, states: Mapping[int, TopicPartitionState] | None
) -> Iterator[dict[str, Any]]:
    """For each partition, whether the archive or the topic has it."""
    coverage = archive.coverage()
    for partition in sorted({*coverage, *(states or {})}):
        there = coverage.get(partition)
        state = None if states is None else states.get(partition)
        behind = there.last + 1 if there else (state.first if state else 0)
        yield {
            "topic": archive.topic,
            "partition": partition,
            "first": there.first if there else None,
            "last": there.last if there else None,
            "records": len(there.archived) if there else 0,
            "holes": len(there.holes) if there else 0,
            "gaps": [list(gap) for gap in there.gaps] if there else [],
            "lag": max(state.end - behind, 0) if state else None,
            # Gone from the topic before they were archived.
            "lost": max(state.first - behind, 0) if state else None,
        }


def _print_status(found: Sequence[dict[str, Any]]) -> None:
    headings = ("topic", "partition", "first", "last", "records", "holes", "gaps", "lag", "lost")
    rows = [
        [_named(line[name]) if name == "gaps" else _plain(line[name]) for name in headings]
        for line in found
    ]
    print_table(headings, rows)


def _plain(value: Any) -> str:
    return "?" if value is None else str(value)


def _named(ranges: Sequence[Sequence[int]]) -> str:
    texts = [f"@{first}" if first == last else f"@{first}..{last}" for first, last in ranges]
    more = len(texts) - _GAPS_SHOWN
    return ", ".join(texts[:_GAPS_SHOWN]) + (f" and {more} more" if more > 0 else "") or "none"


def _ranges(
    coverage: Mapping[int, Coverage], partition: int | None, first: int, last: int | None
) -> dict[int, OffsetRanges]:
    """What was asked for, of each partition; without an end, up to what is archived."""
    from headwater.storage.offset_ranges import OffsetRanges

    if partition is not None and partition not in coverage:
        raise InputError(
            f"nothing of partition {partition} is archived",
            hint=f"archived: {', '.join(map(str, coverage)) or 'nothing'}",
        )
    chosen = coverage if partition is None else [partition]
    ranges = {}
    for number in chosen:
        there = coverage[number]
        begin, end = first or there.first, there.last if last is None else last
        if begin <= end:
            ranges[number] = OffsetRanges.of((begin, end))
    return ranges


@contextmanager
def _joining(topic: str) -> Iterator[Any]:
    with messages.status(f"{topic}: looking for small files") as shown:

        def progress(task: str, done: int, total: int) -> None:
            shown.update(f"{task}: {done} of {total} small files")

        yield progress
