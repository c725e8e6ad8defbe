"""Writes the table of an archive: one commit per micro-batch.

Exactly once by position: offsets that are already archived are left out. So neither a rerun of a
batch nor a lost or restored checkpoint adds duplicates. With Delta's own way, the batch id, a
restored checkpoint would lose records silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import ArchiveError
from headwater.model.local_files import file_uri
from headwater.settings import fault_points
from headwater.spark.configuration import configured
from headwater.spark.local_rows import local_rows
from headwater.storage.archive.commit import commit_lock
from headwater.storage.archive.contract import (
    COLUMNS,
    FORMAT_PROPERTY,
    FORMAT_VERSION,
    PARTITIONED_BY,
    ROW_GROUP_ROWS,
    STATISTICS,
    TOPIC_ID_PROPERTY,
    TOPIC_PROPERTY,
)
from headwater.storage.delta import sql_name
from headwater.storage.offset_ranges import OffsetRanges

_WRITING = {
    "parquet.block.row.count.limit": str(ROW_GROUP_ROWS),
    # Each open file buffers this much; Parquet's default of 128 MB assumes few open files.
    "parquet.block.size": str(8 * 1024 * 1024),
    # Values rarely repeat, so a dictionary costs more than it saves.
    "parquet.enable.dictionary#value": "false",
    # Hours that a task writes concurrently. If it has more, Spark sorts the remaining rows by hour,
    # which doubles the cost.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # Spark's default type has no statistics and ends in 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def make_table(spark: SparkSession, path: Path, topic: str, topic_id: str) -> None:
    """Create the table if it does not exist.

    Raises:
        ArchiveError: the path contains something else.
    """
    listed = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    properties = {
        FORMAT_PROPERTY: FORMAT_VERSION,
        TOPIC_PROPERTY: topic,
        TOPIC_ID_PROPERTY: topic_id,
        # No statistics of values: each commit would contain a copy of the smallest one.
        "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
        "delta.enableDeletionVectors": "false",
        # Each micro-batch is a commit: listing months of them would be slow.
        "delta.logRetentionDuration": "interval 7 days",
        # Readers may use files that compaction has replaced for this long.
        "delta.deletedFileRetentionDuration": "interval 1 day",
    }
    table_properties = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    try:
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {sql_name(path)} ({listed}) USING delta "
            f"PARTITIONED BY ({', '.join(PARTITIONED_BY)}) TBLPROPERTIES ({table_properties})"
        )
    except AnalysisException as error:
        raise ArchiveError(
            f"{path} is not an archive: {str(error).splitlines()[0]}",
            hint="choose another folder with --table or HEADWATER_ARCHIVE__FOLDER",
            path=str(path),
        ) from error


def append(rows: DataFrame, path: Path) -> None:
    """Append rows in one commit."""
    fault_points.reach("before_archive_commit")
    writer = rows.write.format("delta").mode("append").partitionBy(*PARTITIONED_BY)
    # The session of the rows: a streaming query runs in a cloned session.
    with configured(rows.sparkSession, _WRITING), commit_lock(path):
        writer.save(file_uri(path))
    fault_points.reach("after_archive_commit")


def without(rows: DataFrame, archived: Mapping[int, OffsetRanges]) -> DataFrame:
    """The rows whose offsets are not archived."""
    ranges = [
        (partition, first, last)
        for partition, offsets in archived.items()
        for first, last in offsets.ranges()
    ]
    if not ranges:
        return rows
    known = local_rows(rows.sparkSession, ranges, "of int, first bigint, last bigint")
    on = (rows["partition"] == known["of"]) & rows["offset"].between(known["first"], known["last"])
    return rows.join(F.broadcast(known), on, "left_anti")
