"""Writes news articles from a topic to an Iceberg table, with lineage in the catalog.

Articles are merged by `id`; of several in a micro-batch the highest offset wins. A tombstone
deletes its article. Invalid records and those without an id go to `<topic>-dead-letter`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.collector.metadata import describe_shipped_job
from headwater.collector.query import QueryDescription
from headwater.collector.streaming import table_output, topic_outputs
from headwater.delivery.dead_letter.columns import parse_json
from headwater.delivery.modes import delivery_mode
from headwater.delivery.sink import (
    ERROR_COLUMN,
    OutputTopics,
    SinkTarget,
    close_producers_of,
    rows_to_send,
    send_batch,
)
from headwater.jobs.articles import (
    CHECKPOINT,
    DELETED,
    FIELDS,
    MERGE_FROM_TOPIC,
    PARTITIONED_BY,
    REQUIRED,
    TABLE,
    TOPIC,
    article_rows,
    article_settings,
    table_schema,
)
from headwater.jobs.options import (
    CHECKPOINT_HELP,
    BatchQuery,
    StreamOptions,
    stream_options,
)
from headwater.kafka import ensure_topic, input_topic
from headwater.model.dead_letter import MISSING_FIELD
from headwater.model.topic_names import dead_letter_topic
from headwater.openlineage.events import OBSERVED, Roles
from headwater.settings import Settings
from headwater.spark.query_runner import OnBatch, ThrottledCallback, new_run_id
from headwater.spark.session import create_session
from headwater.spark.source import (
    LINEAGE_COLUMN,
    read_stream,
    refuse_unsafe_properties,
    with_brokers,
    with_lineage,
)
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.table import (
    Table,
    check_columns,
    table_of,
    with_stored_lineage,
    writer_of,
)
from headwater.storage.checkpoint import checkpoint_location
from headwater.storage.tables.registry import KnownTable, register

_LOG = logging.getLogger(__name__)

NAME = "StreamWriteRawWithLineage"
# The delivery mode of dead letters.
_LETTERS = delivery_mode("idempotent")
# The first start may have years of articles to read; a merge caches a batch in memory and on disk.
_RECORDS_PER_BATCH = 100_000
# As many as Spark keeps: counts of a batch without a progress event are removed.
_KEPT_BATCHES = 100

_OWN = (
    click.Option(["--input-topic"], help=TOPIC.help),
    click.Option(["--table"], metavar="NAME", help=TABLE.help),
    click.Option(["--checkpoint"], help=CHECKPOINT_HELP + CHECKPOINT.help),
    click.Option(
        ["--max-records-per-batch"],
        type=click.IntRange(1),
        default=_RECORDS_PER_BATCH,
        show_default=True,
    ),
)


@stream_options(job_name=NAME, trigger="10 seconds", own=_OWN)
def main(settings: Settings, options: StreamOptions) -> None:
    """Merge news articles from a topic into an Iceberg table until stopped."""
    settings = article_settings(with_brokers(settings, options.bootstrap_servers))
    options = _with_variables(options, settings)
    topic, name = options.input_topic, TABLE.value(options.own["table"], settings)
    partitions = input_topic(topic, settings.kafka).partitions
    if settings.jobs.create_topics:
        ensure_topic(dead_letter_topic(topic), partitions, settings.kafka)
    _LOG.info("%s -> %s, starting Spark", topic, name)
    refuse_unsafe_properties(_LETTERS.name, _LETTERS.options(), settings)
    spark = create_session(options.job_name, settings, connectors=("kafka", "iceberg"))
    job_run = JobRun(options.job_name, options.job_version, new_run_id())
    records = read_stream(
        spark,
        [topic],
        settings,
        starting_offsets=options.starting_offsets,
        options=options.limits(),
    )
    parsed = with_id_errors(parse_json(with_lineage(records), FIELDS, required=REQUIRED))
    table = table_of(spark, name, "iceberg")
    rows = articles_of(parsed, job_run).drop(DELETED)
    known = _prepare(table, rows, job_run, settings)
    describe_shipped_job(
        settings,
        options.job_name,
        source_system="kafka",
        target_system="iceberg",
        description="News articles from a topic, merged by id",
        location=Path(__file__),
    )
    lineage = _lineage(options, rows, known, settings)

    def prepare(resources: ExitStack) -> BatchQuery:
        batches = resources.enter_context(ArticleBatches(spark, table, job_run, options, settings))
        return BatchQuery(lineage, parsed, batches.write, batches.counted)

    options.run(spark, settings, prepare, run_id=str(job_run.run_id))


def _lineage(
    options: StreamOptions, rows: DataFrame, known: KnownTable, settings: Settings
) -> QueryDescription:
    letters = dead_letter_topic(options.input_topic)
    outputs = [
        table_output(known.name, known.location, "iceberg"),
        *topic_outputs([letters], settings),
    ]
    return replace(
        options.lineage_of(rows, outputs),
        roles=Roles(dead_letters=(letters,), with_lineage=True),
        unnested=(LINEAGE_COLUMN,),
    )


def _prepare(table: Table, rows: DataFrame, job_run: JobRun, settings: Settings) -> KnownTable:
    table.ensure(table_schema(), PARTITIONED_BY)
    check_columns(table, with_stored_lineage(rows, job_run, 0))
    known = table.known()
    register(known, settings)
    return known


def _with_variables(options: StreamOptions, settings: Settings) -> StreamOptions:
    checkpoint = CHECKPOINT.value(options.own["checkpoint"], settings)
    return replace(
        options,
        input_topic=TOPIC.value(options.own["input_topic"], settings),
        checkpoint=checkpoint_location(NAME, checkpoint, settings),
    )


def with_id_errors(parsed: DataFrame) -> DataFrame:
    """Add an error to records without an article id: an empty id, or a tombstone without a key."""
    tombstone = F.col("value").isNull()
    article_id = F.when(tombstone, F.col("key").cast("string")).otherwise(F.col("data")["id"])
    message = F.when(tombstone, F.lit("a tombstone without a key deletes nothing")).otherwise(
        F.lit("field 'id' is missing or empty")
    )
    error = F.struct(F.lit(MISSING_FIELD).alias("kind"), message.alias("message"))
    missing = F.coalesce(F.length(article_id) == 0, F.lit(True))
    errors = F.coalesce(F.col(ERROR_COLUMN), F.when(missing, error))
    return parsed.withColumn(ERROR_COLUMN, errors)


def articles_of(parsed: DataFrame, job_run: JobRun, *, lineage_enabled: bool = True) -> DataFrame:
    """Rows of the table; tombstones become rows with the id to delete."""
    tombstone = F.col("value").isNull()
    valid = parsed.where(F.col(ERROR_COLUMN).isNull())
    article = {name: F.col("data")[name] for name in FIELDS}
    article["id"] = F.when(tombstone, F.col("key").cast("string")).otherwise(article["id"])
    return article_rows(
        valid.withColumn(DELETED, tombstone),
        article,
        F.col(LINEAGE_COLUMN),
        kafka_partition=F.col("partition"),
        kafka_offset=F.col("offset"),
        processed_at=F.current_timestamp(),
        lineage_job_id=F.lit(job_run.run_id),
        lineage_enabled=F.lit(lineage_enabled),
    )


class ArticleBatches:
    """Writes micro-batches: articles to the table, invalid records to the dead letter topic.

    A batch that is rerun finds its commit in the table, and sends its dead letters again with the
    same record ids.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        job_run: JobRun,
        options: StreamOptions,
        settings: Settings,
    ) -> None:
        self._spark = spark
        self._job_run = job_run
        self._run_id = str(job_run.run_id)
        self._settings = settings
        # By batch, until its progress event: merged rows, and dead letters.
        self._merged: dict[int, int] = {}
        self._dead_letters: dict[int, int] = {}
        self._merge = writer_of(table, job_run, MERGE_FROM_TOPIC, self._merged.__setitem__)
        self._dead_letter_target = SinkTarget(
            options.job_name,
            options.job_version,
            options.checkpoint,
            OutputTopics((options.input_topic,)),
            options.trigger_arguments(),
        )

    def __enter__(self) -> ArticleBatches:
        return self

    def __exit__(self, *raised: object) -> None:
        close_producers_of(self._spark, self._run_id)

    def counted(self, on_batch: OnBatch | None) -> OnBatch | None:
        """A callback that adds the counts of merged rows and dead letters to the progress."""
        if on_batch is None:
            return None

        def add_counts(progress: Mapping[str, Any]) -> None:
            batch = progress["batchId"]
            rows, letters = self._merged.pop(batch, 0), self._dead_letters.pop(batch, 0)
            observed = dict(progress.get("observedMetrics") or {})
            observed[OBSERVED] = {"rows": rows, "dead_letter": letters}
            on_batch({**progress, "observedMetrics": observed})

        return ThrottledCallback(add_counts)

    def write(self, rows: DataFrame, batch: int) -> None:
        """For `foreachBatch`."""
        # Read once from Kafka, used twice.
        rows.persist()
        try:
            self._send_dead_letters(rows.where(F.col(ERROR_COLUMN).isNotNull()), batch)
            enabled = self._settings.lineage_enabled_for(self._job_run.job_name)
            self._merge(articles_of(rows, self._job_run, lineage_enabled=enabled), batch)
        finally:
            rows.unpersist()
            for counts in (self._merged, self._dead_letters):
                counts.pop(batch - _KEPT_BATCHES, None)

    def _send_dead_letters(self, invalid: DataFrame, batch: int) -> None:
        self._dead_letters[batch] = invalid.count()
        if not self._dead_letters[batch]:
            return
        limit = self._settings.jobs.max_value_bytes
        send_batch(
            rows_to_send(invalid, self._dead_letter_target.topics, limit),
            self._dead_letter_target,
            self._run_id,
            batch,
            _LETTERS.options(),
            self._settings,
            own_headers={},
        )


if __name__ == "__main__":
    main()
