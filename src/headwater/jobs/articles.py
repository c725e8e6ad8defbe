"""The table of news articles: one contract for the batch job and the streaming job.

Each row says who wrote it last: `kafka_partition`, `kafka_offset` and `processed_at` are of the
streaming job, `batch_processed_at` and `processing_job` of the batch job, `lineage` of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.spark.writers.merge_into import MergeRule
from headwater.storage.tables.contract import COLUMN, TYPE

# What an article is, in the JSON of the topic and in CSV files.
FIELDS: Mapping[str, str] = {
    "id": "string",
    "published_at": "timestamp",
    "title": "string",
    "body": "string",
    "source": "string",
    "url": "string",
}
# Without an id nothing can be merged, without a time there is no partition to lay it into.
REQUIRED = ("id", "published_at")

# What the jobs add.
OWN: Mapping[str, str] = {
    "kafka_partition": "int",
    "kafka_offset": "bigint",
    "processed_at": "timestamp",
    "lineage_job_id": "string",
    "batch_processed_at": "timestamp",
    "processing_job": "string",
    "lineage_enabled": "boolean",
}
PARTITIONED_BY = ("days(published_at)",)

# Set on rows that stand for a deletion; no column of the table.
DELETED = "_deleted"

# Of one id in a batch the highest offset wins. A record that the table holds already, or one
# before it, changes nothing: reading a topic again from the start takes nothing back.
MERGE_FROM_TOPIC = MergeRule(
    key="id",
    newest=("kafka_offset", "kafka_partition"),
    unless="t.lineage.topic = s.lineage.topic AND t.kafka_partition = s.kafka_partition "
    "AND t.kafka_offset >= s.kafka_offset",
    deleted=DELETED,
)
# A file has no order of its own: the later article wins, then the greater file name and text, so
# that the same files always give the same rows. What is the same already stays as it is.
MERGE_FROM_FILES = MergeRule(
    key="id",
    newest=("published_at", "lineage.parents", "title", "body", "source", "url"),
    unless=" AND ".join(f"t.{name} <=> s.{name}" for name in FIELDS),
)


def table_schema() -> StructType:
    """The columns of the table; each may be null, as the jobs fill different ones."""
    columns = {**FIELDS, **OWN, COLUMN: TYPE}
    ddl = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return cast(StructType, StructType.fromDDL(ddl))


def article_rows(
    rows: DataFrame, article: Mapping[str, Column], lineage: Column, **own: Column
) -> DataFrame:
    """Rows of the table: the article's fields, what the job adds, and its lineage."""
    fields = [article[name].cast(kind).alias(name) for name, kind in FIELDS.items()]
    marked = [DELETED] if DELETED in rows.columns else []
    added = [
        own.get(name, F.lit(None)).cast(kind).alias(name)  # what the other job adds is null
        for name, kind in OWN.items()
    ]
    return rows.select(*fields, *added, lineage.alias(COLUMN), *marked)
