"""Keeps the index of edges, from which `headwater impact` answers: which records came of one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import click
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from headwater.collector.metadata import describe_shipped_job
from headwater.collector.streaming import query_run
from headwater.errors import CheckpointError, InputError, LineageIndexError, TopicNotFoundError
from headwater.jobs.options import StreamOptions, stream_options
from headwater.kafka import end_offsets
from headwater.openlineage.tables import delta_table
from headwater.settings import Settings
from headwater.spark import create_session, read_topics_stream, run_until_stopped
from headwater.spark.lease import only_writer
from headwater.spark.writers.index_parse import REFUSED, UNREADABLE, WITHOUT_LINEAGE, parse_lineage
from headwater.spark.writers.index_ranges import as_rows, edges_of, made_of
from headwater.spark.writers.index_table import IndexTable, Scanned, make_table
from headwater.storage.checkpoint import read_progress
from headwater.storage.index.contract import EDGE, MADE, SCAN, index_path

_LOG = logging.getLogger(__name__)

# Every topic but Kafka's own.
ALL_TOPICS = "(?!__).+"
# The first start may meet years of records; so many at a time fit into the driver's memory.
_RECORDS_PER_BATCH = 1_000_000

_OWN = (
    click.Option(["--topics"], metavar="A,B,…", help="Topics to index."),
    click.Option(
        ["--topic-pattern"],
        metavar="REGEX",
        help=f"Index all topics of such a name, new ones too.  [default: {ALL_TOPICS}]",
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
        help="Go on when records are gone that were not indexed yet, or a whole topic.",
    ),
)


@stream_options(job_name="lineage_index", trigger="10 seconds", own=_OWN)
def main(settings: Settings, options: StreamOptions) -> None:
    """Read the lineage headers of all topics into the index of edges, a Delta table."""
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": options.bootstrap_servers})
    settings = settings.model_copy(update={"kafka": kafka})
    source = _source(options)
    path = index_path(settings)
    _LOG.info("%s -> %s, starting Spark", " ".join(source.values()), path)
    spark = create_session(
        options.job_name,
        settings,
        connectors=("kafka", "delta"),
    )
    make_table(spark, path)
    with only_writer(path, spark, _in_use(path)):
        table = IndexTable(spark, path)
        _refuse_other_checkpoint(table, options.local_checkpoint, path)
        _refuse_topics_made_anew(table, settings)
        records = read_topics_stream(
            spark,
            settings,
            **source,
            startingOffsets=options.starting_offsets,
            failOnDataLoss=str(not options.own["allow_gaps"]).lower(),
            maxOffsetsPerTrigger=str(options.own["max_records_per_batch"]),
        )
        parsed = parse_lineage(records)
        # Of the three kinds of rows that the index has, edges are what it is for.
        rows = as_rows(EDGE, 0, edges_of(parsed))
        lineage = options.lineage_of(rows, [delta_table(str(path))])
        describe_shipped_job(
            settings,
            options.job_name,
            source_system="kafka",
            target_system="delta",
            description="Which records came of which, from the headers of all topics",
            location=Path(__file__),
        )
        with query_run(spark, options.local_checkpoint, lineage, settings) as run:
            query = (
                parsed.writeStream.foreachBatch(_add_to(table))
                .option("checkpointLocation", f"file://{options.local_checkpoint}")
                .queryName(options.job_name)
                .trigger(**options.trigger_arguments())
                .start()
            )
            run_until_stopped(query, run.stop, settings, run.on_batch)


def _in_use(path: Path) -> Callable[[str], LineageIndexError]:
    return lambda holder: LineageIndexError(
        f"another job writes the index: {holder}",
        hint="an index has one writer: stop that job, or set HEADWATER_INDEX__TABLE to "
        "another folder",
        path=str(path),
    )


def _source(options: StreamOptions) -> dict[str, str]:
    topics, pattern = options.own["topics"], options.own["topic_pattern"]
    if topics and pattern:
        raise InputError("--topics and --topic-pattern exclude each other")
    if topics:
        return {"subscribe": topics}
    return {"subscribePattern": pattern or ALL_TOPICS}


def _add_to(table: IndexTable) -> Callable[[DataFrame, int], None]:
    def add(parsed: DataFrame, batch: int) -> None:
        # Read once from Kafka, looked at three times.
        kept = parsed.persist()
        try:
            found = _count(kept)
            if table.overlaps(_ranges(found)):
                kept = table.without_scanned(kept)
                found = _count(kept)
            if not found:
                return
            edges = sum(row["edges"] for row in found)
            scans = kept.sparkSession.createDataFrame(found)
            rows = [
                as_rows(EDGE, 0, edges_of(kept)),
                as_rows(MADE, 0, made_of(kept)),
                as_rows(SCAN, 0, scans),
            ]
            table.append(rows, edges, _ranges(found))
            _LOG.info("batch %d: %d edges%s", batch, edges, _troubles(found))
        finally:
            parsed.unpersist()

    return add


def _count(parsed: DataFrame) -> list[Row]:
    """For each partition which offsets were read, and what was found there."""

    def number_of(word: str) -> Column:
        return F.count_if(F.col("lineage") == word).alias(word)

    counted = parsed.groupBy("topic", "partition").agg(
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
        F.count("*").alias("records"),
        *(number_of(word) for word in (WITHOUT_LINEAGE, UNREADABLE, REFUSED)),
        F.sum("unlisted").alias("unlisted"),
        F.sum(F.size("parents")).alias("edges"),
    )
    return counted.collect()


def _ranges(found: list[Row]) -> list[Scanned]:
    return [Scanned(row["topic"], row["partition"], row["first"], row["last"]) for row in found]


def _troubles(found: list[Row]) -> str:
    words = (UNREADABLE, REFUSED, "unlisted")
    sums = {word: sum(row[word] for row in found) for word in words}
    return "".join(f", {number} {word}" for word, number in sums.items() if number)


def _refuse_other_checkpoint(table: IndexTable, checkpoint: Path, path: Path) -> None:
    """What the checkpoint has behind it must be in the table, or it would never be."""
    if read_progress(checkpoint).committed >= 0 and not table.scanned:
        raise CheckpointError(
            f"{checkpoint} has read records already, but the index {path} is empty",
            hint="remove the checkpoint, too; the job then reads all topics from the beginning",
            checkpoint=str(checkpoint),
        )


def _refuse_topics_made_anew(table: IndexTable, settings: Settings) -> None:
    """Offsets of a topic that was deleted and made anew mean other records now."""
    topics = {scanned.topic for scanned in table.scanned}
    for topic in sorted(topics):
        try:
            ends = end_offsets(topic, settings.kafka)
        except TopicNotFoundError:
            continue
        for scanned in table.scanned:
            if scanned.topic == topic and scanned.last >= ends.get(scanned.partition, 0):
                raise LineageIndexError(
                    f"the index holds {topic}/{scanned.partition}@{scanned.last}, which is beyond "
                    "the end of the topic: it was made anew, or this is another cluster",
                    hint=f"remove {index_path(settings)} and the job's checkpoint, and start again",
                    topic=topic,
                )


if __name__ == "__main__":
    main()
