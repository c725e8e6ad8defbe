"""Maintains the lineage index, which `headwater impact` reads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from headwater.collector.metadata import describe_shipped_job
from headwater.errors import CheckpointError, InputError, LineageIndexError, TopicNotFoundError
from headwater.jobs.options import BatchQuery, StreamOptions, stream_options
from headwater.kafka import KafkaRuns, end_offsets, find_topics
from headwater.model.local_files import private_home
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings
from headwater.spark.local_rows import local_rows
from headwater.spark.session import create_session
from headwater.spark.source import read_stream, with_brokers
from headwater.spark.writers.index_parse import (
    REFUSED,
    UNREADABLE,
    WITHOUT_LINEAGE,
    is_compact,
    parse_lineage,
    with_runs,
)
from headwater.spark.writers.index_ranges import as_rows, edges_of, made_of, within_of
from headwater.spark.writers.index_table import FANOUT, IndexTable, Scanned, make_table
from headwater.spark.writers.table import only_writer
from headwater.storage.checkpoint import read_identity, read_progress
from headwater.storage.index.contract import EDGE, MADE, SCAN, WITHIN, index_path
from headwater.storage.query_identity import RECREATED_INPUT

_LOG = logging.getLogger(__name__)

# All topics except Kafka's internal ones.
ALL_TOPICS = "(?!__).+"
# The first start may have years of records to read; this many fit into the driver's memory.
_RECORDS_PER_BATCH = 1_000_000

_OWN = (
    click.Option(["--topics"], metavar="A,B,…", help="Topics to index."),
    click.Option(
        ["--topic-pattern"],
        metavar="REGEX",
        help=f"Index all topics with a matching name, also new ones.  [default: {ALL_TOPICS}]",
    ),
    click.Option(
        ["--max-records-per-batch"],
        type=click.IntRange(1),
        default=_RECORDS_PER_BATCH,
        show_default=True,
    ),
    click.Option(
        ["--compact-at-commits"],
        type=click.IntRange(2),
        default=FANOUT,
        hidden=True,
        help="Commits of a level that are compacted into one.",
    ),
    click.Option(
        ["--allow-gaps"],
        is_flag=True,
        help="Continue if records or topics were deleted before they were indexed.",
    ),
)


@stream_options(job_name="lineage_index", trigger="10 seconds", own=_OWN)
def main(settings: Settings, options: StreamOptions) -> None:
    """Index the lineage headers of all topics in a Delta table."""
    settings = with_brokers(settings, options.bootstrap_servers)
    if RECREATED_INPUT in options.accept:
        raise InputError(
            f"--accept {RECREATED_INPUT}: an index has the addresses of the former records",
            hint=f"remove {index_path(settings)} and the job's checkpoint, and start again",
        )
    source = _source(options)
    path = index_path(settings)
    _LOG.info("%s -> %s, starting Spark", " ".join(source.values()), path)
    spark = create_session(
        options.job_name,
        settings,
        connectors=("kafka", "delta"),
    )
    if path.parent == settings.home_dir:
        private_home(settings.home_dir)
    make_table(spark, path)

    def prepare(resources: ExitStack) -> BatchQuery:
        resources.enter_context(only_writer(path, spark, _in_use(path)))
        table = IndexTable(spark, path, fanout=options.own["compact_at_commits"])
        _refuse_other_checkpoint(table, options.local_checkpoint, path)
        _refuse_recreated_topics(table, options.local_checkpoint, settings)
        records = read_stream(
            spark,
            (),
            settings,
            starting_offsets=options.starting_offsets,
            options={**source, **options.limits()},
        )
        parsed = parse_lineage(records)
        # The reported lineage is that of the edges, the most important of the three kinds of rows.
        rows = as_rows(EDGE, 0, edges_of(parsed))
        lineage = options.lineage_of(rows, [delta_table(str(path))])
        describe_shipped_job(
            settings,
            options.job_name,
            source_system="kafka",
            target_system="delta",
            description="Edges between records, from the lineage headers of all topics",
            location=Path(__file__),
        )
        return BatchQuery(lineage, parsed, _add_to(table, KafkaRuns(settings.kafka)))

    options.run(spark, settings, prepare)


def _in_use(path: Path) -> Callable[[str], LineageIndexError]:
    return lambda holder: LineageIndexError(
        f"another job is writing the index: {holder}",
        hint="an index has one writer: stop that job, or set HEADWATER_INDEX__TABLE to "
        "another folder",
        path=str(path),
    )


def _source(options: StreamOptions) -> dict[str, str]:
    topics, pattern = options.own["topics"], options.own["topic_pattern"]
    if topics and pattern:
        raise InputError("--topics and --topic-pattern are mutually exclusive")
    if topics:
        return {"subscribe": topics}
    return {"subscribePattern": pattern or ALL_TOPICS}


def _add_to(table: IndexTable, runs: KafkaRuns) -> Callable[[DataFrame, int], None]:
    def add(parsed: DataFrame, batch: int) -> None:
        # Read once from Kafka, used three times.
        cached = parsed.persist()
        try:
            scans = _count(cached)
            if table.overlaps(_ranges(scans)):
                cached = table.without_scanned(cached)
                scans = _count(cached)
            if not scans:
                return
            ranges = sum(row["ranges"] for row in scans)
            edges = sum(row["edges"] for row in scans) + ranges
            # A second pass over the batch, only where there are such records.
            compact = any(row["compact"] for row in scans)
            stamped = with_runs(cached, runs) if compact else cached
            rows = [
                as_rows(EDGE, 0, edges_of(cached)),
                as_rows(MADE, 0, made_of(stamped)),
                as_rows(SCAN, 0, local_rows(cached.sparkSession, scans, _SCANS)),
            ]
            if ranges:
                rows.append(as_rows(WITHIN, 0, within_of(cached)))
            table.append(rows, edges, _ranges(scans))
            _LOG.info("batch %d: %d edges%s", batch, edges, _problems(scans))
        finally:
            parsed.unpersist()

    return add


_SCANS = "topic string, partition int" + "".join(
    f", `{name}` bigint"
    for name in (
        *("first", "last", "records"),
        *(WITHOUT_LINEAGE, UNREADABLE, REFUSED),
        *("unlisted", "edges", "ranges", "compact"),
    )
)


def _count(parsed: DataFrame) -> list[Row]:
    """The offsets that were read from each partition, and counts of what they contain."""

    def count_of(result: str) -> Column:
        return F.count_if(F.col("lineage") == result).alias(result)

    counted = parsed.groupBy("topic", "partition").agg(
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.count("*").alias("records"),
        *(count_of(result) for result in (WITHOUT_LINEAGE, UNREADABLE, REFUSED)),
        F.sum("unlisted").alias("unlisted"),
        F.sum(F.size("parents")).alias("edges"),
        F.sum(F.size("ranges")).alias("ranges"),
        F.count_if(is_compact()).alias("compact"),
    )
    return counted.collect()


def _ranges(scans: list[Row]) -> list[Scanned]:
    return [Scanned(row["topic"], row["partition"], row["first"], row["last"]) for row in scans]


def _problems(scans: list[Row]) -> str:
    kinds = (UNREADABLE, REFUSED, "unlisted")
    counts = {kind: sum(row[kind] for row in scans) for kind in kinds}
    return "".join(f", {count} {kind}" for kind, count in counts.items() if count)


def _refuse_other_checkpoint(table: IndexTable, checkpoint: Path, path: Path) -> None:
    """Refuse a used checkpoint for an empty table: its batches would never be indexed."""
    if read_progress(checkpoint).committed >= 0 and not table.scanned:
        raise CheckpointError(
            f"{checkpoint} has read records already, but the index {path} is empty",
            hint="remove the checkpoint as well; the job then reads all topics from the beginning",
            checkpoint=str(checkpoint),
        )


def _refuse_recreated_topics(table: IndexTable, checkpoint: Path, settings: Settings) -> None:
    """Refuse topics that were deleted and recreated: their offsets belong to other records."""
    rebuild = f"remove {index_path(settings)} and the job's checkpoint, and start again"
    stored = read_identity(checkpoint)
    known = stored.inputs if stored is not None and table.scanned else {}
    for topic, found in find_topics(known, settings.kafka).items():
        if found.id != known[topic]:
            raise LineageIndexError(
                f"the index contains the topic {topic!r} with the id {known[topic]}, but the id in "
                f"Kafka is {found.id}: it was recreated, or this is another cluster",
                hint=rebuild,
                topic=topic,
            )
    topics = {scanned.topic for scanned in table.scanned}
    for topic in sorted(topics):
        try:
            ends = end_offsets(topic, settings.kafka)
        except TopicNotFoundError:
            continue
        for scanned in table.scanned:
            if scanned.topic == topic and scanned.last >= ends.get(scanned.partition, 0):
                raise LineageIndexError(
                    f"the index contains {topic}/{scanned.partition}@{scanned.last}, which is "
                    "after the end of the topic: it was recreated, or this is another cluster",
                    hint=rebuild,
                    topic=topic,
                )


if __name__ == "__main__":
    main()
