"""The table of an archive, written by Spark: one commit for each micro-batch.

Exactly once, by position: offsets that are archived already are left out. So a batch that runs
again adds nothing, and neither does a checkpoint that was lost or is an older copy; by the number
of the batch, Delta's own way, the latter would lose records silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import ArchiveError
from headwater.settings import fault_points
from headwater.spark.conf import configured
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
from headwater.storage.delta.names import location, sql_name
from headwater.storage.offset_ranges import OffsetRanges

_WRITING = {
    "parquet.block.row.count.limit": str(ROW_GROUP_ROWS),
    # Each open file may hold as much in memory; Parquet's own 128 MB are meant for a few.
    "parquet.block.size": str(8 * 1024 * 1024),
    # Values are hardly ever the same: looking for those that are costs more than it saves.
    "parquet.enable.dictionary#value": "false",
    # So many hours are written side by side. Only when a task meets more of them does Spark sort
    # what is left by the hour, which costs as much again.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # Spark's older form has no statistics and ends in 2262.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def make_table(spark: SparkSession, path: Path, topic: str, topic_id: str) -> None:
    """Make the table if it is not there.

    Raises:
        ArchiveError: there is something else in its place.
    """
    listed = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    properties = {
        FORMAT_PROPERTY: FORMAT_VERSION,
        TOPIC_PROPERTY: topic,
        TOPIC_ID_PROPERTY: topic_id,
        # Of values nobody asks for the least; it would be a copy of the first in every commit.
        "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
        "delta.enableDeletionVectors": "false",
        # Each micro-batch is a commit: months of them would take long to list.
        "delta.logRetentionDuration": "interval 7 days",
        # Readers may for so long use what compaction has replaced.
        "delta.deletedFileRetentionDuration": "interval 1 day",
    }
    given = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    try:
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {sql_name(path)} ({listed}) USING delta "
            f"PARTITIONED BY ({', '.join(PARTITIONED_BY)}) TBLPROPERTIES ({given})"
        )
    except AnalysisException as error:
        raise ArchiveError(
            f"{path} is no archive: {str(error).splitlines()[0]}",
            hint="choose another folder with --table or HEADWATER_ARCHIVE__FOLDER",
            path=str(path),
        ) from error


def append(rows: DataFrame, path: Path) -> None:
    """Write rows in one commit."""
    fault_points.reach("before_archive_commit")
    writer = rows.write.format("delta").mode("append").partitionBy(*PARTITIONED_BY)
    # The rows' own session: that of a streaming query is a copy of the one it began with.
    with configured(rows.sparkSession, _WRITING), commit_lock(path):
        writer.save(location(path))
    fault_points.reach("after_archive_commit")


def without(rows: DataFrame, archived: Mapping[int, OffsetRanges]) -> DataFrame:
    """The rows whose offsets are not among these."""
    ranges = [
        (partition, first, last)
        for partition, offsets in archived.items()
        for first, last in offsets.ranges()
    ]
    if not ranges:
        return rows
    known = rows.sparkSession.createDataFrame(ranges, "of int, first bigint, last bigint")
    on = (rows["partition"] == known["of"]) & rows["offset"].between(known["first"], known["last"])
    return rows.join(F.broadcast(known), on, "left_anti")
