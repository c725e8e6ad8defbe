"""Starts queries on Headwater's Kafka sink (`java/`), which builds the headers and sends.

The sink reads columns by position, in the order of `COLUMNS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headwater.errors import InputError
from headwater.kafka import find_topics, max_record_bytes
from headwater.model.dead_letter import LATE, REFERENCE_FIELDS, TOO_LARGE, UNKNOWN_TOPIC
from headwater.model.foreign_headers import CONTENT_HEADERS, INHERITED_HEADERS
from headwater.model.header import BATCH_VERSION, JOB_NAME, JOB_VERSION
from headwater.model.topic_names import DEAD_LETTER_SUFFIX, LATE_SUFFIX, PARENTS_SUFFIX
from headwater.settings import Settings
from headwater.spark.configuration import OWN_SINK
from headwater.spark.query_runner import checkpoint_uri
from headwater.spark.source import (
    HEADERS_TYPE,
    LINEAGE_COLUMN,
    bounded_lineage,
    client_options,
    connect_once,
    parents_text,
)

ORDINAL_COLUMN = "ordinal"
ERROR_COLUMN = "error"
RAW_VALUE_COLUMN = "raw_value"

# As in rows for Spark's own Kafka sink.
TOPIC_COLUMN = "topic"
PARTITION_COLUMN = "partition"
HEADERS_COLUMN = "headers"

COLUMNS = (
    TOPIC_COLUMN,
    "key",
    "value",
    LINEAGE_COLUMN,
    ORDINAL_COLUMN,
    ERROR_COLUMN,
    PARTITION_COLUMN,
    HEADERS_COLUMN,
)

_CLOSE_MILLIS = 10_000


@dataclass(frozen=True)
class OutputTopics:
    """The topics that a query writes to.

    With several outputs, the column `topic` of a row has the name of its output.
    """

    outputs: tuple[str, ...]
    with_late: bool = False

    @property
    def dead_letters(self) -> tuple[str, ...]:
        return tuple(output + DEAD_LETTER_SUFFIX for output in self.outputs)

    @property
    def late(self) -> tuple[str, ...]:
        return tuple(output + LATE_SUFFIX for output in self.outputs if self.with_late)

    def existing(self, settings: Settings) -> tuple[str, ...]:
        """Without topics for dead letters and late records that are missing and not created."""
        optional = (*self.dead_letters, *self.late)
        if settings.jobs.create_topics:
            return (*self.outputs, *optional)
        return (*self.outputs, *find_topics(optional, settings.kafka))

    @property
    def parents(self) -> tuple[str, ...]:
        """For parents that do not fit into the header of an aggregated row."""
        return tuple(output + PARENTS_SUFFIX for output in self.outputs)

    def __iter__(self) -> Iterator[str]:
        yield from (*self.outputs, *self.dead_letters, *self.late)


@dataclass(frozen=True)
class SinkTarget:
    """The topics a query writes to, and what it adds to every record."""

    job_name: str
    job_version: str
    # A local folder, or a URI that Spark can read.
    checkpoint: Path | str
    topics: OutputTopics
    trigger: Mapping[str, Any]
    # The order of the stamp headers, which differs between the shipped jobs; `compact` has none.
    header_order: Sequence[str] = (JOB_NAME, JOB_VERSION, BATCH_VERSION)
    stamp: str = "full"
    # Whether records that Kafka rejects as invalid become dead letters, or stop the job.
    dead_letter_failures: bool = False
    # Whether a batch that fails in the code of the job is run again in this process.
    retries_errors: bool = False
    # Whether each task has the rows of one input partition, as without a shuffle.
    one_input_per_task: bool = False
    # Whether each first parent has one output, whose other parents are those that were read
    # first: a rerun of a batch may choose others.
    one_per_first_parent: bool = False
    # Spark's: append, update or complete.
    output_mode: str = "append"
    # Differences between the checkpoint and the query that are not refused.
    accept: frozenset[str] = frozenset()

    @property
    def location(self) -> str:
        """The checkpoint as a URI."""
        return checkpoint_uri(self.checkpoint)


def sink_rows(rows: DataFrame, topic: Column) -> DataFrame:
    """The columns of the sink. `key`, `ordinal`, `partition` and `headers` are optional in rows.

    A dead letter has the headers of its parent, and any partition.
    """

    def optional(name: str, kind: str) -> Column:
        return (F.col(name) if name in rows.columns else F.lit(None)).cast(kind).alias(name)

    valid = F.col(ERROR_COLUMN).isNull()
    return rows.select(
        topic.alias("topic"),
        optional("key", "binary"),
        F.col("value"),
        F.col(LINEAGE_COLUMN),
        optional(ORDINAL_COLUMN, "bigint"),
        F.col(ERROR_COLUMN),
        F.when(valid, optional(PARTITION_COLUMN, "int")).alias(PARTITION_COLUMN),
        F.when(valid, optional(HEADERS_COLUMN, HEADERS_TYPE)).alias(HEADERS_COLUMN),
    )


def start(
    rows: DataFrame,
    target: SinkTarget,
    run_id: str,
    options: Mapping[str, str],
    settings: Settings,
    *,
    trigger: Mapping[str, Any] | None = None,
) -> StreamingQuery:
    """Start the query; `options` are those of a delivery mode."""
    sink_options = _options(target, run_id, options, settings)
    return (
        rows.select(*COLUMNS)
        .writeStream.format(OWN_SINK)
        .options(**sink_options, checkpointLocation=target.location)
        .outputMode(target.output_mode)
        .trigger(**(trigger or target.trigger))
        .queryName(target.job_name)
        .start()
    )


def send_batch(
    rows: DataFrame,
    target: SinkTarget,
    run_id: str,
    batch: int,
    options: Mapping[str, str],
    settings: Settings,
    *,
    own_headers: Mapping[str, str],
    query_id: str | None = None,
) -> None:
    """Send a batch DataFrame under this batch id; `own_headers` are added to each record.

    Producers are kept for the next batch of the query or run: `close_producers_of` closes them.
    """
    sink_options = _options(target, run_id, options, settings)
    headers = "\n".join(word for pair in own_headers.items() for word in pair)
    rows.select(*COLUMNS).write.format(OWN_SINK).mode("append").options(
        **sink_options, queryId=query_id or run_id, batch=str(batch), ownHeaders=headers
    ).save()


def _options(
    target: SinkTarget, run_id: str, options: Mapping[str, str], settings: Settings
) -> dict[str, str]:
    limit = _limit(target, settings)
    sink_options = {
        "jobName": target.job_name,
        "jobVersion": target.job_version,
        "runId": run_id,
        "headerOrder": "\n".join(target.header_order),
        "stamp": target.stamp,
        "droppedHeaders": "\n".join(settings.jobs.drop_headers),
        "inheritedHeaders": "\n".join(INHERITED_HEADERS),
        "contentHeaders": "\n".join(CONTENT_HEADERS),
        "moreHeaders": "\n".join(settings.jobs.inherit_headers),
        # In a topic with a small limit, headers must leave space for the value.
        "maxHeaderBytes": str(min(settings.jobs.max_header_bytes, limit // 4)),
        "maxHeaders": str(settings.jobs.max_headers),
        "outputTopics": "\n".join(target.topics.outputs),
        "parentsSuffix": PARENTS_SUFFIX,
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "oneInputPerTask": str(target.one_input_per_task).lower(),
        "deadLetterSuffix": DEAD_LETTER_SUFFIX,
        "deadLetterFailures": str(target.dead_letter_failures).lower(),
        "sendsAborted": str(target.retries_errors).lower(),
        **options,
        # A batch above the topic's limit would be rejected with all its records.
        "kafka.batch.size": str(min(int(options["kafka.batch.size"]), limit)),
        **client_options(settings),
    }
    connect_once(sink_options, settings)
    return sink_options


def _limit(target: SinkTarget, settings: Settings) -> int:
    return min(max_record_bytes(each, settings.kafka) for each in target.topics.existing(settings))


def close_producers_of(spark: SparkSession, query_id: str) -> None:
    """Close the producers that the sink keeps for a query in the driver's JVM, in ten seconds."""
    jvm: Any = spark._jvm  # noqa: SLF001
    jvm.dev.headwater.delivery.Producers.close(query_id, _CLOSE_MILLIS)


# Operators of a plan after which a task may have rows of several input partitions.
_SHUFFLES = re.compile(
    r"\b(Aggregate|Join|Repartition\w*|Sort|Distinct|Deduplicate\w*|Window|Coalesce|Rebalance\w*"
    r"|GlobalLimit|LocalLimit|Offset|Tail|\w*MapGroups\w*|TransformWithState\w*)\b"
)

# Operators that may give a row many parents; only a join of such rows can have too many.
_MANY_PARENTS = r"\b(Aggregate|\w*MapGroups\w*|TransformWithState\w*)\b"

_SOURCES = re.compile(r"\bStreamingRelation\w*")


def rows_to_send(records: DataFrame, topics: OutputTopics, limit: int) -> DataFrame:
    """Valid and invalid records in one pass; each row has the topic it is sent to. Values with more
    bytes than `limit` go to the dead letter topic."""
    if re.search(r"Join\b", _plan(records)) and re.search(_MANY_PARENTS, _plan(records)):
        records = records.withColumn(LINEAGE_COLUMN, bounded_lineage(F.col(LINEAGE_COLUMN)))
    rows = _with_errors(records, topics, limit)
    error, raw = F.col(ERROR_COLUMN), F.col(RAW_VALUE_COLUMN)
    value = F.when(error.isNotNull(), dead_letter_value(raw, error, limit)).otherwise(
        F.col("value")
    )
    dead_letters = _topic_of(topics.outputs, topics.dead_letters)
    topic = F.when(error.isNotNull(), dead_letters).otherwise(_topic_of(topics.outputs))
    if topics.late:
        late = _topic_of(topics.outputs, topics.late)
        topic = F.when(error["kind"] == LATE, late).otherwise(topic)
    return sink_rows(rows.withColumn("value", value), topic)


def _topic_of(outputs: Sequence[str], topics: Sequence[str] | None = None) -> Column:
    """The one of `topics` that belongs to the output of a row; the first for an unknown output."""
    names = topics or outputs
    topic = F.lit(names[0])
    for output, name in zip(outputs[1:], names[1:], strict=True):
        topic = F.when(F.col(TOPIC_COLUMN) == output, F.lit(name)).otherwise(topic)
    return topic


def _with_errors(records: DataFrame, topics: OutputTopics, limit: int) -> DataFrame:
    """With binary values, raw values, and the error of invalid records."""
    columns = records.columns
    rows = records.withColumn("value", F.col("value").cast("binary"))
    if RAW_VALUE_COLUMN not in columns:
        rows = rows.withColumn(RAW_VALUE_COLUMN, F.col("value"))
    error = size_error(F.col("value"), limit)
    if len(topics.outputs) > 1:
        error = F.coalesce(_topic_error(topics.outputs), error)
    if ERROR_COLUMN in columns:
        error = F.coalesce(F.col(ERROR_COLUMN), error)
    return rows.withColumn(ERROR_COLUMN, error)


def _topic_error(outputs: Sequence[str]) -> Column:
    """Set where the column `topic` has none of the outputs."""
    named = F.coalesce(F.concat(F.lit("'"), F.col(TOPIC_COLUMN), F.lit("'")), F.lit("null"))
    expected = F.lit(f", expected one of {', '.join(outputs)}")
    known = F.coalesce(F.col(TOPIC_COLUMN).isin(*outputs), F.lit(False))
    return F.when(
        ~known, error_of(UNKNOWN_TOPIC, F.concat(F.lit("the row's topic is "), named, expected))
    )


def has_shuffle(records: DataFrame) -> bool:
    """Whether a task may have rows of several input partitions."""
    return shuffles_of(records) > 0


def shuffles_of(records: DataFrame) -> int:
    """Number of operators that move rows between tasks or change their order."""
    return len(_SHUFFLES.findall(_plan(records)))


def has_one_source(records: DataFrame) -> bool:
    """Whether all rows are of one stream."""
    return len(_SOURCES.findall(_plan(records))) == 1


def topics_for_parents(records: DataFrame, topics: OutputTopics) -> tuple[str, ...]:
    """The topics for parents that do not fit into the header, if rows are aggregated."""
    return topics.parents if re.search(r"\bAggregate\b", _plan(records)) else ()


def _plan(records: DataFrame) -> str:
    return str(records._jdf.queryExecution().analyzed().toString())  # noqa: SLF001


_TYPES = {TOPIC_COLUMN: "string", PARTITION_COLUMN: "int", HEADERS_COLUMN: HEADERS_TYPE}


def check_topic_columns(records: DataFrame, *topics: str) -> None:
    """Refuse rows without the columns of a record.

    With several topics, the column `topic` is required, too.
    """
    if not topics or len(set(topics)) < len(topics):
        raise InputError(f"output topics must be different, at least one: {', '.join(topics)!r}")
    what = f"topic {', '.join(map(repr, topics))}"
    value = ("value", "the record's value, text or binary")
    topic = (TOPIC_COLUMN, f"one of the outputs: {', '.join(topics)}")
    several = len(topics) > 1
    _require(records, what, (value, *((topic,) if several else ())))
    for name, kind in _TYPES.items():
        if name == TOPIC_COLUMN and not several:
            continue
        if name in records.columns and records.schema[name].dataType.simpleString() != kind:
            raise InputError(
                f"rows for {what} have a column {name!r} of type "
                f"{records.schema[name].dataType.simpleString()}",
                hint=f"cast it to {kind}, as for Spark's Kafka sink, or drop it",
            )


def check_table_columns(rows: DataFrame, table: str | Path) -> None:
    if ERROR_COLUMN in rows.columns:
        raise InputError(
            f"rows for table {str(table)!r} have a column {ERROR_COLUMN!r}, but a table has no "
            "dead letter topic",
            hint="write invalid records to a topic in another job, and drop the column here",
        )


def _require(rows: DataFrame, target: str, columns: Sequence[tuple[str, str]]) -> None:
    for required, what in columns:
        if required not in rows.columns:
            raise InputError(
                f"rows for {target} have no column {required!r}: {', '.join(rows.columns)}",
                hint=f"`{required}` is {what}",
            )


def no_error() -> Column:
    """The `error` of a good record."""
    return F.lit(None).cast("struct<kind:string,message:string>")


def error_of(kind: str, message: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), message.alias("message"))


def size_error(value: Column, limit: int) -> Column:
    """Set where the value is longer than `limit` bytes."""
    message = F.concat(
        F.lit("the value has "),
        F.length(value).cast("string"),
        F.lit(f" bytes, {limit} are allowed"),
    )
    return F.when(F.length(value) > limit, error_of(TOO_LARGE, message)).otherwise(no_error())


def dead_letter_value(raw: Column, error: Column, limit: int) -> Column:
    """The raw bytes, or a reference to the original if the value is too large."""
    parts = (parents_text(F.col(LINEAGE_COLUMN)), F.length(raw), F.sha2(raw, 256))
    named = zip(REFERENCE_FIELDS, parts, strict=True)
    reference = F.to_json(F.struct(*(part.alias(name) for name, part in named)))
    # A value may be malformed and too large at once.
    large = (error["kind"] == TOO_LARGE) | (F.length(raw) > limit)
    return F.when(large, reference.cast("binary")).otherwise(raw)
