"""Writes news articles from a topic to an Iceberg table, and tells the catalog.

Articles are merged by `id`; of several in a micro-batch the highest offset wins. A tombstone
deletes its article. What is no article, or has no id, goes to `<topic>-dead-letter`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.collector.metadata import describe_shipped_job
from headwater.collector.query import QueryDescription
from headwater.collector.streaming import query_run, table_output, topic_outputs
from headwater.delivery.dead_letter.columns import ERROR_COLUMN, parse_json
from headwater.delivery.registry import delivery_mode
from headwater.delivery.rows import rows_to_send
from headwater.delivery.sink import Target, close_producers_of, location_of, send_batch
from headwater.jobs.articles import (
    DELETED,
    FIELDS,
    MERGE_FROM_TOPIC,
    PARTITIONED_BY,
    REQUIRED,
    article_rows,
    table_schema,
)
from headwater.jobs.options import StreamOptions, stream_options
from headwater.kafka import ensure_topic
from headwater.model.dead_letter import MISSING_FIELD
from headwater.model.topic_names import dead_letter_topic
from headwater.openlineage.progress import OBSERVED, Roles
from headwater.settings import Settings
from headwater.spark import (
    OnBatch,
    create_session,
    read_topic_stream,
    run_until_stopped,
)
from headwater.spark.lineage_columns import LINEAGE_COLUMN, with_lineage
from headwater.spark.query_runner import ThrottledCallback, new_run_id
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.table import Table, check_columns, stored, table_of, writer_of
from headwater.storage.tables.registry import KnownTable, register

_LOG = logging.getLogger(__name__)

NAME = "StreamWriteRawWithLineage"
_PARTITIONS = 2
# The first start may meet years of articles; a merge holds a batch in memory and on disk.
_RECORDS_PER_BATCH = 100_000
# As many as Spark does: figures of a batch that is never told of must not stay for ever.
_REMEMBERED_BATCHES = 100

_OWN = (
    click.Option(["--input-topic"], help="Default: the setting articles.topic."),
    click.Option(["--table"], metavar="NAME", help="Default: the setting articles.table."),
    click.Option(
        ["--max-records-per-batch"],
        type=click.IntRange(1),
        default=_RECORDS_PER_BATCH,
        show_default=True,
    ),
)


@stream_options(job_name=NAME, trigger="10 seconds", own=_OWN)
def main(settings: Settings, options: StreamOptions) -> None:
    """Merge news articles from a topic into an Iceberg table, until it is told to stop."""
    kafka = settings.kafka.model_copy(update={"bootstrap_servers": options.bootstrap_servers})
    settings = settings.model_copy(update={"kafka": kafka})
    options = _with_settings(options, settings)
    topic, name = options.input_topic, options.own["table"] or settings.articles.table
    if settings.jobs.create_topics:
        for each in (topic, dead_letter_topic(topic)):
            ensure_topic(each, _PARTITIONS, settings.kafka)
    _LOG.info("%s -> %s, starting Spark", topic, name)
    spark = create_session(options.job_name, settings, connectors=("kafka", "iceberg"))
    maker = JobRun(options.job_name, options.job_version, new_run_id())
    records = read_topic_stream(
        spark,
        topic,
        settings,
        starting_offsets=options.starting_offsets,
        maxOffsetsPerTrigger=str(options.own["max_records_per_batch"]),
    )
    parsed = named(parse_json(with_lineage(records), FIELDS, required=REQUIRED))
    table = table_of(spark, name, "iceberg")
    rows = articles_of(parsed, maker).drop(DELETED)
    known = _prepare(table, rows, maker, settings)
    describe_shipped_job(
        settings,
        options.job_name,
        source_system="kafka",
        target_system="iceberg",
        description="News articles from a topic, merged by id",
        location=Path(__file__),
    )
    lineage, run_id = _lineage(options, rows, known, settings), str(maker.run_id)
    with (
        query_run(spark, options.checkpoint, lineage, settings, run_id=run_id) as run,
        ArticleBatches(spark, table, maker, options, settings) as batches,
    ):
        query = (
            parsed.writeStream.foreachBatch(batches.write)
            .option("checkpointLocation", location_of(options.checkpoint))
            .queryName(options.job_name)
            .trigger(**options.trigger_arguments())
            .start()
        )
        run_until_stopped(query, run.stop, settings, batches.counted(run.on_batch))


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
        roles=Roles(dead_letter=letters, with_lineage=True),
        whole=(LINEAGE_COLUMN,),
    )


def _prepare(table: Table, rows: DataFrame, maker: JobRun, settings: Settings) -> KnownTable:
    table.ensure(table_schema(), PARTITIONED_BY)
    check_columns(table, stored(rows, maker, 0))
    known = table.known()
    register(known, settings)
    return known


def _with_settings(options: StreamOptions, settings: Settings) -> StreamOptions:
    topic = options.own["input_topic"] or settings.articles.topic
    checkpoint = settings.articles.checkpoint
    if checkpoint is None or options.own["checkpoint"] is not None:
        return replace(options, input_topic=topic)
    local = "://" not in checkpoint or checkpoint.startswith("file://")
    place = Path(checkpoint.removeprefix("file://")).absolute() if local else checkpoint
    return replace(options, input_topic=topic, checkpoint=place)


def named(parsed: DataFrame) -> DataFrame:
    """With an error where no article is named: an empty id, or a tombstone without a key."""
    tombstone = F.col("value").isNull()
    name = F.when(tombstone, F.col("key").cast("string")).otherwise(F.col("data")["id"])
    message = F.when(tombstone, F.lit("a tombstone without a key deletes nothing")).otherwise(
        F.lit("field 'id' is missing or empty")
    )
    error = F.struct(F.lit(MISSING_FIELD).alias("kind"), message.alias("message"))
    nameless = F.coalesce(F.length(name) == 0, F.lit(True))
    found = F.coalesce(F.col(ERROR_COLUMN), F.when(nameless, error))
    return parsed.withColumn(ERROR_COLUMN, found)


def articles_of(parsed: DataFrame, maker: JobRun, *, told: bool = True) -> DataFrame:
    """Rows of the table, and of tombstones the id that is to be deleted."""
    tombstone = F.col("value").isNull()
    good = parsed.where(F.col(ERROR_COLUMN).isNull())
    article = {name: F.col("data")[name] for name in FIELDS}
    article["id"] = F.when(tombstone, F.col("key").cast("string")).otherwise(article["id"])
    return article_rows(
        good.withColumn(DELETED, tombstone),
        article,
        F.col(LINEAGE_COLUMN),
        kafka_partition=F.col("partition"),
        kafka_offset=F.col("offset"),
        processed_at=F.current_timestamp(),
        lineage_job_id=F.lit(maker.run_id),
        lineage_enabled=F.lit(told),
    )


class ArticleBatches:
    """Writes micro-batches: articles to the table, what is none to the dead letter.

    A batch that runs again finds its commit in the table, and sends its dead letters once more,
    with the same record ids.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        maker: JobRun,
        options: StreamOptions,
        settings: Settings,
    ) -> None:
        self._spark = spark
        self._maker = maker
        self._run_id = str(maker.run_id)
        self._settings = settings
        # By batch, until it is told of: rows that were merged, and records that were set aside.
        self._merged: dict[int, int] = {}
        self._aside: dict[int, int] = {}
        self._merge = writer_of(table, maker, MERGE_FROM_TOPIC, self._merged.__setitem__)
        self._letters = Target(
            options.job_name,
            options.job_version,
            options.checkpoint,
            (options.input_topic, dead_letter_topic(options.input_topic)),
            options.trigger_arguments(),
        )

    def __enter__(self) -> ArticleBatches:
        return self

    def __exit__(self, *raised: object) -> None:
        close_producers_of(self._spark, self._run_id)

    def counted(self, on_batch: OnBatch | None) -> OnBatch | None:
        """Adds to what Spark tells of a batch how many rows were merged and set aside."""
        if on_batch is None:
            return None

        def take(progress: Mapping[str, Any]) -> None:
            batch = progress["batchId"]
            rows, letters = self._merged.pop(batch, 0), self._aside.pop(batch, 0)
            observed = dict(progress.get("observedMetrics") or {})
            observed[OBSERVED] = {"rows": rows, "dead_letter": letters}
            on_batch({**progress, "observedMetrics": observed})

        return ThrottledCallback(take)

    def write(self, rows: DataFrame, batch: int) -> None:
        """For `foreachBatch`."""
        # Read once from Kafka, looked at twice.
        rows.persist()
        try:
            self._set_aside(rows.where(F.col(ERROR_COLUMN).isNotNull()), batch)
            told = self._settings.lineage_enabled_for(self._maker.job_name)
            self._merge(articles_of(rows, self._maker, told=told), batch)
        finally:
            rows.unpersist()
            for figures in (self._merged, self._aside):
                figures.pop(batch - _REMEMBERED_BATCHES, None)

    def _set_aside(self, bad: DataFrame, batch: int) -> None:
        self._aside[batch] = bad.count()
        if not self._aside[batch]:
            return
        limit = self._settings.jobs.max_value_bytes
        send_batch(
            rows_to_send(bad, self._letters.topics, limit),
            self._letters,
            self._run_id,
            batch,
            delivery_mode("idempotent").options(),
            self._settings,
            own_headers={},
        )


if __name__ == "__main__":
    main()
