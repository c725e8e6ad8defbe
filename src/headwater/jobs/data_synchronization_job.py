"""Archives a topic in a Delta table: every record unchanged, with its address."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click
from pyspark.sql import DataFrame

from headwater.collector.query import Gap
from headwater.collector.streaming import observe_row_count
from headwater.errors import ArchiveError, InternalError, UnavailableError
from headwater.jobs.options import BatchQuery, StreamOptions, stream_options
from headwater.kafka import input_topic, partition_states, topic_id
from headwater.model.local_files import state_folder
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings
from headwater.settings.path_option import PathOption
from headwater.spark.session import create_session
from headwater.spark.source import read_stream, with_brokers
from headwater.spark.writers.archive_rows import archive_rows, check_field
from headwater.spark.writers.archive_table import append, make_table, without
from headwater.spark.writers.table import only_writer
from headwater.storage.archive.compaction import compact, is_due, vacuum
from headwater.storage.archive.contract import archive_path
from headwater.storage.archive.coverage import record_holes
from headwater.storage.archive.position import (
    next_offsets,
    refuse_gaps,
    refuse_old_checkpoint,
    refuse_other_checkpoint,
    refuse_recreated_topic,
)
from headwater.storage.archive.reader import Archive
from headwater.storage.checkpoint import checkpoint_location, read_checkpoint
from headwater.storage.offset_ranges import OffsetRanges

_LOG = logging.getLogger(__name__)

_NAME, _TOPIC = "data_synchronization", "visits"
# The first start may have years of records to read; this many are some hundred megabytes.
_RECORDS_PER_BATCH = 1_000_000
# VACUUM lists the complete table.
_VACUUM_SECONDS = 3_600.0

_OWN = (
    click.Option(
        ["--table"],
        type=PathOption(file_okay=False, table=True),
        help="Folder of the Delta table.  [default: HEADWATER_HOME/archive/TOPIC]",
    ),
    click.Option(
        ["--event-time-field"],
        default="event_time",
        show_default=True,
        help="Field of the JSON value that determines the hour of a row.",
    ),
    click.Option(
        ["--max-records-per-batch"],
        type=click.IntRange(1),
        default=_RECORDS_PER_BATCH,
        show_default=True,
    ),
    click.Option(
        ["--allow-gaps"],
        is_flag=True,
        help="Continue if records were deleted before they were archived; "
        "`headwater archive status` shows the gap.",
    ),
)


@stream_options(
    job_name="data_synchronization", input_topic="visits", trigger="5 seconds", own=_OWN
)
def main(settings: Settings, options: StreamOptions) -> None:
    """Archive a topic in a Delta table, with the address of every record."""
    settings = with_brokers(settings, options.bootstrap_servers)
    topic, field = options.input_topic, options.own["event_time_field"]
    check_field(field)
    if topic != _TOPIC and options.own["checkpoint"] is None:
        # Each topic needs its own checkpoint.
        checkpoint = checkpoint_location(f"{_NAME}-{topic}", None, settings)
        options = replace(options, checkpoint=checkpoint)
    path = (options.own["table"] or archive_path(topic, settings)).absolute()
    input_topic(topic, settings.kafka)
    known_as = topic_id(topic, settings.kafka)
    _LOG.info("%s -> %s, starting Spark", topic, path)
    spark = create_session(
        options.job_name,
        settings,
        connectors=("kafka", "delta"),
    )
    if path.parent == settings.home_dir / "archive":
        state_folder(settings.home_dir, "archive")
    make_table(spark, path, topic, known_as)

    def prepare(resources: ExitStack) -> BatchQuery:
        resources.enter_context(only_writer(path, spark, _in_use(path)))
        archive = _open(path, topic)
        refuse_recreated_topic(archive, known_as)
        records = read_stream(
            spark,
            [topic],
            settings,
            starting_offsets=_starting_offsets(archive, settings, options),
            options=options.limits(),
        )
        rows = archive_rows(records, field)
        lineage = options.lineage_of(rows, [delta_table(str(path))])
        lineage.gaps.extend(_gaps(archive, settings))
        batches = ArchiveBatches(archive, settings, options.local_checkpoint, lineage.gaps)
        observed = observe_row_count(rows, settings, options.job_name)
        return BatchQuery(lineage, observed, batches.add)

    options.run(spark, settings, prepare)


def _open(path: Path, topic: str) -> Archive:
    archive = Archive(path)
    if archive.topic != topic:
        raise ArchiveError(
            f"{path} is the archive of {archive.topic!r}, not of {topic!r}",
            hint="each topic needs its own archive: choose another --table",
            path=str(path),
        )
    return archive


def _in_use(path: Path) -> Callable[[str], ArchiveError]:
    return lambda holder: ArchiveError(
        f"another job is writing the archive: {holder}",
        hint="an archive has one writer: stop that job, or choose another --table",
        path=str(path),
    )


def _starting_offsets(archive: Archive, settings: Settings, options: StreamOptions) -> str:
    """Starting offsets without a checkpoint: the end of the archive, unless it is empty."""
    states = partition_states(archive.topic, settings.kafka)
    archived_up_to = next_offsets(archive)
    checkpoint = read_checkpoint(options.local_checkpoint)
    if options.own["allow_gaps"]:
        for topic, partition, first, last in _gaps(archive, settings):
            _LOG.warning("gap: %s/%d@%d to @%d were deleted", topic, partition, first, last)
    else:
        refuse_gaps(archive.topic, archived_up_to, states)
        if checkpoint is not None:
            refuse_other_checkpoint(checkpoint, archived_up_to, archive)
            refuse_old_checkpoint(checkpoint, archive, states)
    if not archived_up_to:
        return options.starting_offsets
    offsets = {
        str(state.partition): max(archived_up_to.get(state.partition, state.first), state.first)
        for state in states
    }
    return json.dumps({archive.topic: offsets})


def _gaps(archive: Archive, settings: Settings) -> list[Gap]:
    """Records that were deleted before they were archived."""
    archived_up_to = next_offsets(archive)
    return [
        (archive.topic, state.partition, offset, state.first - 1)
        for state in partition_states(archive.topic, settings.kafka)
        if (offset := archived_up_to.get(state.partition, state.first)) < state.first
    ]


class ArchiveBatches:
    """Adds micro-batches to the archive, and compacts its small files from time to time."""

    def __init__(
        self,
        archive: Archive,
        settings: Settings,
        checkpoint: Path,
        gaps: list[Gap],
    ) -> None:
        self._archive = archive
        self._settings = settings
        self._checkpoint = checkpoint
        self._gaps = gaps
        self._vacuumed = 0.0

    def add(self, rows: DataFrame, batch: int) -> None:
        """Write the records that are not archived yet, in one commit."""
        archive = self._archive
        ranges = self._ranges(batch)
        refuse_recreated_topic(archive, topic_id(archive.topic, self._settings.kafka))
        archive.refresh()
        before = archive.plan(ranges)
        if before.files:
            # Only after a crash or with another checkpoint.
            archived = {
                partition: offsets & archive.coverage()[partition].archived
                for partition, offsets in ranges.items()
                if partition in archive.coverage()
            }
            rows = without(rows, archived)
        if before.missing:
            append(rows, archive.path)
            archive.refresh()
        self._note_holes(archive.plan(ranges).missing)
        self._compact()

    def _ranges(self, batch: int) -> dict[int, OffsetRanges]:
        """The offsets of the running batch, which Spark has recorded before its start."""
        checkpoint = read_checkpoint(self._checkpoint)
        if checkpoint is None or checkpoint.batch != batch:
            raise InternalError(f"{self._checkpoint} has no offsets of the running batch {batch}")
        topic = self._archive.topic
        started, committed = checkpoint.started.get(topic, {}), checkpoint.committed.get(topic, {})
        ranges = {}
        for partition, end in checkpoint.planned[topic].items():
            begin = committed.get(partition, started.get(partition, 0))
            if begin < end:
                ranges[partition] = OffsetRanges.of((begin, end - 1))
        return ranges

    def _note_holes(self, missing: Mapping[int, OffsetRanges]) -> None:
        """Offsets that were read and are not archived are holes, unless they have expired."""
        if not missing:
            return
        states = partition_states(self._archive.topic, self._settings.kafka)
        first = {state.partition: state.first for state in states}
        for partition, offsets in missing.items():
            kept = OffsetRanges.of((first.get(partition, 0), 2**63 - 1))
            if holes := offsets & kept:
                record_holes(self._archive.path, partition, holes)
            for begin, end in (offsets - kept).ranges():
                name = f"{self._archive.topic}/{partition}"
                _LOG.warning(
                    "gap: %s@%d to @%d expired before they were archived", name, begin, end
                )
                self._gaps.append((self._archive.topic, partition, begin, end))

    def _compact(self) -> None:
        if not is_due(self._archive, self._settings):
            return
        try:
            done = compact(self._archive, self._settings)
            _LOG.info("compacted %d small files, %d files remain", done.joined, done.files_after)
            if time.monotonic() - self._vacuumed > _VACUUM_SECONDS:
                self._vacuumed = time.monotonic()
                vacuum(self._archive)
        except (ArchiveError, UnavailableError) as error:
            # Archiving continues; the next batch tries again.
            _LOG.warning("small files were not compacted: %s", error.message)


if __name__ == "__main__":
    main()
