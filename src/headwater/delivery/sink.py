"""Starts a query on Headwater's own Kafka sink (`java/`), which makes the headers and sends.

The sink takes the columns by their place: topic, key, value, lineage, ordinal, error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headwater.delivery.dead_letter.columns import ERROR_COLUMN
from headwater.kafka import max_record_bytes
from headwater.model.headers import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.model.topic_names import parents_topic
from headwater.settings import Settings
from headwater.spark.connectors import OWN_SINK
from headwater.spark.kafka_source import client_options
from headwater.spark.lineage_columns import LINEAGE_COLUMN

ORDINAL_COLUMN = "ordinal"
COLUMNS = ("topic", "key", "value", LINEAGE_COLUMN, ORDINAL_COLUMN, ERROR_COLUMN)

_CLOSE_MILLIS = 10_000


@dataclass(frozen=True)
class Target:
    """Where a query writes, and what it puts on every record."""

    job_name: str
    job_version: str
    # A local folder, or a URI of a file system that Spark knows.
    checkpoint: Path | str
    # The output first; rows name the one that they go to.
    topics: tuple[str, ...]
    trigger: Mapping[str, Any]
    # The order of the stamp's headers; the two shipped jobs differ in it.
    header_order: Sequence[str] = (JOB_NAME, JOB_VERSION, BATCH_VERSION)
    # Where records go that Kafka refuses for what they are; without it they stop the job.
    failures_topic: str | None = None
    # Whether each task has the rows of one partition of the input, as without a shuffle.
    one_input_per_task: bool = False
    # Whether a first parent has one output only, made from it and whichever others were there
    # first: a batch that is run again may choose others.
    one_per_first_parent: bool = False

    @property
    def location(self) -> str:
        """The checkpoint, for Spark."""
        return location_of(self.checkpoint)


def location_of(checkpoint: Path | str) -> str:
    """For Spark; with its scheme, as a bare path would be one of the cluster's default."""
    if isinstance(checkpoint, Path):
        return f"file://{checkpoint.absolute()}"
    return checkpoint


def sink_rows(rows: DataFrame, topic: Column) -> DataFrame:
    """The columns of the sink, from rows with key, value, lineage, error and maybe ordinal."""
    key = F.col("key").cast("binary") if "key" in rows.columns else F.lit(None).cast("binary")
    ordinal = F.col(ORDINAL_COLUMN) if ORDINAL_COLUMN in rows.columns else F.lit(None)
    return rows.select(
        topic.alias("topic"),
        key.alias("key"),
        F.col("value"),
        F.col(LINEAGE_COLUMN),
        ordinal.cast("bigint").alias(ORDINAL_COLUMN),
        F.col(ERROR_COLUMN),
    )


def start(
    rows: DataFrame,
    target: Target,
    run_id: str,
    options: Mapping[str, str],
    settings: Settings,
    *,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start the query; `options` are those of a delivery mode."""
    given = _options(target, run_id, options, settings)
    return (
        rows.select(*COLUMNS)
        .writeStream.format(OWN_SINK)
        .options(**given, checkpointLocation=target.location)
        .trigger(**(trigger or target.trigger))
        .queryName(target.job_name)
        .start()
    )


def send_batch(
    rows: DataFrame,
    target: Target,
    run_id: str,
    batch: int,
    options: Mapping[str, str],
    settings: Settings,
    *,
    own_headers: Mapping[str, str],
) -> None:
    """Send rows that are all there, as one batch of this number; `own_headers` go on each record.

    The producers are those of the run, and stay for its next batch: `close_producers_of`.
    """
    given = _options(target, run_id, options, settings)
    headers = "\n".join(word for pair in own_headers.items() for word in pair)
    rows.select(*COLUMNS).write.format(OWN_SINK).mode("append").options(
        **given, queryId=run_id, batch=str(batch), ownHeaders=headers
    ).save()


def _options(
    target: Target, run_id: str, options: Mapping[str, str], settings: Settings
) -> dict[str, str]:
    return {
        "jobName": target.job_name,
        "jobVersion": target.job_version,
        "runId": run_id,
        "headerOrder": "\n".join(target.header_order),
        "droppedHeaders": "\n".join(settings.jobs.drop_headers),
        "outputTopic": target.topics[0],
        "parentsTopic": parents_topic(target.topics[0]),
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "lanesOfInput": str(target.one_input_per_task).lower(),
        **({"failuresTopic": target.failures_topic} if target.failures_topic else {}),
        **options,
        # A batch above the topic's limit would be refused with all that is in it.
        "kafka.batch.size": str(min(int(options["kafka.batch.size"]), _limit(target, settings))),
        **client_options(settings),
    }


def _limit(target: Target, settings: Settings) -> int:
    return min(max_record_bytes(topic, settings.kafka) for topic in target.topics)


def close_producers(spark: SparkSession, query: StreamingQuery) -> None:
    """Those that the sink has kept for the query in the driver's JVM; bounded."""
    close_producers_of(spark, str(query.id))


def close_producers_of(spark: SparkSession, query_id: str) -> None:
    """The same by the query's id."""
    jvm: Any = spark._jvm  # noqa: SLF001
    jvm.headwater.delivery.Producers.close(query_id, _CLOSE_MILLIS)
