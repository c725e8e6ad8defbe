"""Writes the table of the lineage index: one commit per micro-batch, and compaction.

Exactly once by position: a commit contains the edges of a batch and the offset ranges they were
read from; offsets of a range that was read before are left out. So neither a rerun of a batch nor
a lost or restored checkpoint adds duplicates. With Delta's own way, the batch id, a restored
checkpoint would lose edges silently.

Compaction works like a log-structured merge tree: when a level has a number of commits, its rows
are joined, sorted and moved to the next level in one commit. Each edge is rewritten once per
level, and a lookup reads a bounded number of files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import LineageIndexError
from headwater.model.local_files import file_uri
from headwater.settings import fault_points
from headwater.spark.configuration import configured
from headwater.spark.local_rows import local_rows
from headwater.spark.writers.index_ranges import JOINS, as_rows
from headwater.storage.delta import sql_name
from headwater.storage.index.contract import (
    COLUMNS,
    FORMAT_PROPERTY,
    FORMAT_VERSION,
    PARTITIONS,
    ROW_GROUP_ROWS,
    SCAN,
    SORTED_BY,
)

# Commits of a level that are joined into one of the next: a lookup opens at most this many files
# per level, and ten thousand batches are four levels.
FANOUT = 16
# Rows that a task sorts and writes: some 10 to 40 MB.
_ROWS_PER_FILE = 5_000_000
# Spark's default of 200 tasks takes longer to start than a small batch takes to join.
_MIN_SHUFFLES = 8
_ROWS_PER_SHUFFLE = 500_000

_WRITING = {
    "parquet.block.row.count.limit": str(ROW_GROUP_ROWS),
    # Delta encoding of sorted numbers: 4 bytes per edge instead of 10.
    "parquet.writer.version": "PARQUET_2_0",
    "spark.sql.parquet.compression.codec": "zstd",
    # Rows of level n are replaced by rows of level n+1, which Delta's check would refuse.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
}
# For listing some hundred files; Spark's default of ten thousand tasks takes minutes.
_VACUUM = {
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.shuffle.partitions": str(_MIN_SHUFFLES),
}


@dataclass(frozen=True, slots=True)
class Scanned:
    """Offsets of a partition that were read, from `first` to `last` inclusive."""

    topic: str
    partition: int
    first: int
    last: int


def make_table(spark: SparkSession, path: Path) -> None:
    """Create the table if it does not exist.

    Raises:
        LineageIndexError: the path contains something else.
    """
    columns = {**COLUMNS, **PARTITIONS}
    listed = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    properties = {
        FORMAT_PROPERTY: FORMAT_VERSION,
        "delta.enableDeletionVectors": "false",
        # Each micro-batch is a commit: opening a table with a month of them would be slow.
        "delta.logRetentionDuration": "interval 1 day",
        # Readers may use files that compaction has replaced for this long.
        "delta.deletedFileRetentionDuration": "interval 1 hour",
    }
    table_properties = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    try:
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {sql_name(path)} ({listed}) USING delta "
            f"PARTITIONED BY ({', '.join(PARTITIONS)}) TBLPROPERTIES ({table_properties})"
        )
        rows = spark.sql(f"SHOW TBLPROPERTIES {sql_name(path)}").collect()
    except AnalysisException as error:
        raise _other_table(path, str(error).splitlines()[0]) from error
    version = {row["key"]: row["value"] for row in rows}.get(FORMAT_PROPERTY)
    if version != FORMAT_VERSION:
        raise _other_table(path, f"{FORMAT_PROPERTY}={version}")


def _other_table(path: Path, reason: str) -> LineageIndexError:
    return LineageIndexError(
        f"{path} is not a lineage index of format {FORMAT_VERSION}: {reason}",
        hint="set HEADWATER_INDEX__TABLE to another folder, or remove this folder and the "
        "checkpoint of the job",
        path=str(path),
    )


class IndexTable:
    """The only writer of an index.

    Args:
        fanout: number of commits at which a level is compacted.
    """

    def __init__(self, spark: SparkSession, path: Path, *, fanout: int = FANOUT) -> None:
        """Open the table, which `make_table` has created."""
        self._fanout = fanout
        self._spark = spark
        self._location = file_uri(path)
        self._name = sql_name(path)
        self._commits = self._count_files()
        self.scanned = self._read_scanned()

    def append(self, rows: Sequence[DataFrame], edges: int, scanned: Iterable[Scanned]) -> None:
        """Write the rows of a batch in one commit, then compact full levels.

        Args:
            edges: number of edges, to choose the number of files.
            scanned: the ranges that the rows were read from, which the rows contain as well.
        """
        fault_points.reach("before_index_commit")
        self._write(rows, edges, mode="append")
        fault_points.reach("after_index_commit")
        self.scanned = _normalized([*self.scanned, *scanned])
        self._commits[0] += 1
        for level in self._full_levels():
            self._compact(level)

    def overlaps(self, ranges: Iterable[Scanned]) -> bool:
        """Whether any of these offsets were read before."""
        return any(
            (old.topic, old.partition) == (new.topic, new.partition)
            and old.first <= new.last
            and new.first <= old.last
            for new in ranges
            for old in self.scanned
        )

    def without_scanned(self, parsed: DataFrame) -> DataFrame:
        """The rows whose offsets were not read before."""
        known = local_rows(
            parsed.sparkSession,
            [(s.topic, s.partition, s.first, s.last) for s in self.scanned],
            "topic string, partition int, first bigint, last bigint",
        )
        on = (
            (parsed["topic"] == known["topic"])
            & (parsed["partition"] == known["partition"])
            & parsed["offset"].between(known["first"], known["last"])
        )
        return parsed.join(F.broadcast(known), on, "left_anti")

    def _rows(self) -> DataFrame:
        return self._spark.read.format("delta").load(self._location)

    def _count_files(self) -> Counter[int]:
        """The number of commits of each level, derived from its files."""
        files = self._rows().where(F.col("kind") == SCAN).inputFiles()
        return Counter(int(file.partition("level=")[2].partition("/")[0]) for file in files)

    def _read_scanned(self) -> list[Scanned]:
        rows = self._rows().where(F.col("kind") == SCAN)
        ranges = rows.select("topic", "partition", "first", "last").collect()
        return _normalized([Scanned(*row) for row in ranges])

    def _full_levels(self) -> Iterator[int]:
        level = 0
        while self._commits[level] >= self._fanout:
            yield level
            level += 1

    def _compact(self, level: int) -> None:
        rows = self._rows().where(F.col("level") == level)
        number = rows.count()
        joined = [
            as_rows(kind, level + 1, join(rows.where(F.col("kind") == kind)))
            for kind, join in JOINS.items()
        ]
        fault_points.reach("before_index_compaction")
        # No data changes: streaming readers of the table can skip the commit.
        where = {"replaceWhere": f"level = {level}", "dataChange": "false"}
        self._write(joined, number, mode="overwrite", **where)
        self._commits[level] = 0
        self._commits[level + 1] += 1
        if level:
            with configured(self._spark, _VACUUM):
                self._spark.sql(f"VACUUM {self._name}")

    def _write(self, rows: Sequence[DataFrame], number: int, mode: str, **options: str) -> None:
        together = rows[0]
        for more in rows[1:]:
            together = together.unionByName(more)
        order = (*PARTITIONS, *SORTED_BY)
        files = math.ceil(number / _ROWS_PER_FILE)
        # Not coalesce, which would also run the previous steps in one task.
        repartition = partial(together.repartitionByRange, files)
        spread = repartition(*order) if files > 1 else together.repartition(1)
        writer = spread.sortWithinPartitions(*order).write.format("delta").mode(mode)
        shuffles = str(max(_MIN_SHUFFLES, number // _ROWS_PER_SHUFFLE))
        # The session of the rows: a streaming query runs in a cloned session.
        with configured(
            together.sparkSession, {**_WRITING, "spark.sql.shuffle.partitions": shuffles}
        ):
            writer.partitionBy(*PARTITIONS).options(**options).save(self._location)


def _normalized(ranges: Iterable[Scanned]) -> list[Scanned]:
    """The same offsets in as few ranges as possible."""
    joined: list[Scanned] = []
    for each in sorted(ranges, key=lambda s: (s.topic, s.partition, s.first)):
        before = joined[-1] if joined else None
        if (
            before is not None
            and (before.topic, before.partition) == (each.topic, each.partition)
            and each.first <= before.last + 1
        ):
            last = max(before.last, each.last)
            joined[-1] = Scanned(before.topic, before.partition, before.first, last)
        else:
            joined.append(each)
    return joined
