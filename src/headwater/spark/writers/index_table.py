"""The table, written by Spark: one commit for each micro-batch, and compaction.

Exactly once, by position: a commit holds the edges of a batch and the ranges of offsets they
were read from, and what lies in a range that was read already is left out. So a batch that runs
again adds nothing, and neither does a checkpoint that was lost or is an old copy; by the number
of the batch, Delta's own way, the latter would lose edges silently.

Compaction is that of a log-structured merge: a level that has come to a certain number of
commits is joined, sorted and moved to the next in one commit. Each edge is written again once a
level, and an address is looked up in a bounded number of files.
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
from headwater.settings import fault_points
from headwater.spark.conf import configured
from headwater.spark.writers.index_ranges import JOINS, as_rows
from headwater.storage.delta.names import location, sql_name
from headwater.storage.index.contract import (
    COLUMNS,
    FORMAT_PROPERTY,
    FORMAT_VERSION,
    PARTITIONS,
    ROW_GROUP_ROWS,
    SCAN,
    SORTED_BY,
)

# Commits of a level that are joined into one of the next: a look-up opens at most so many files
# a level, and ten thousand batches are four levels.
_FANOUT = 16
# A task sorts and writes so many rows; some 10 to 40 MB.
_ROWS_PER_FILE = 5_000_000
# Spark's default of 200 tasks takes longer to start than a small batch takes to join.
_LEAST_SHUFFLES = 8
_ROWS_PER_SHUFFLE = 500_000

_WRITING = {
    "parquet.block.row.count.limit": str(ROW_GROUP_ROWS),
    # Differences of sorted numbers: 4 bytes an edge where plain ones take 10.
    "parquet.writer.version": "PARQUET_2_0",
    "spark.sql.parquet.compression.codec": "zstd",
    # Rows of level n are replaced by ones of level n+1: Delta takes that for a mistake.
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
}
# Listing some hundred files: Spark's default is ten thousand tasks, which take minutes.
_CLEANING = {
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    "spark.sql.shuffle.partitions": str(_LEAST_SHUFFLES),
}


@dataclass(frozen=True, slots=True)
class Scanned:
    """Offsets of a partition that were read: from `first` up to and with `last`."""

    topic: str
    partition: int
    first: int
    last: int


def make_table(spark: SparkSession, path: Path) -> None:
    """Make the table if it is not there.

    Raises:
        LineageIndexError: there is something else in its place.
    """
    columns = {**COLUMNS, **PARTITIONS}
    listed = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    properties = {
        FORMAT_PROPERTY: FORMAT_VERSION,
        "delta.enableDeletionVectors": "false",
        # Each micro-batch is a commit: a month of them would take long to open.
        "delta.logRetentionDuration": "interval 1 day",
        # Readers that keep the table open may for so long use what compaction has replaced.
        "delta.deletedFileRetentionDuration": "interval 1 hour",
    }
    given = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    try:
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {sql_name(path)} ({listed}) USING delta "
            f"PARTITIONED BY ({', '.join(PARTITIONS)}) TBLPROPERTIES ({given})"
        )
        rows = spark.sql(f"SHOW TBLPROPERTIES {sql_name(path)}").collect()
    except AnalysisException as error:
        raise _other_table(path, str(error).splitlines()[0]) from error
    form = {row["key"]: row["value"] for row in rows}.get(FORMAT_PROPERTY)
    if form != FORMAT_VERSION:
        raise _other_table(path, f"{FORMAT_PROPERTY}={form}")


def _other_table(path: Path, reason: str) -> LineageIndexError:
    return LineageIndexError(
        f"{path} is no index of form {FORMAT_VERSION}: {reason}",
        hint="set HEADWATER_INDEX__TABLE to another folder, or remove this one and the job's "
        "checkpoint",
        path=str(path),
    )


class IndexTable:
    """The one writer of an index."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        """Open the table, which `make_table` has made."""
        self._spark = spark
        self._location = location(path)
        self._name = sql_name(path)
        self._commits = self._count_files()
        self.scanned = self._read_scanned()

    def append(self, rows: Sequence[DataFrame], edges: int, scanned: Iterable[Scanned]) -> None:
        """Write what a batch found in one commit, then compact if it is time to.

        Args:
            edges: how many there are, to choose the number of files.
            scanned: the ranges that the rows were read from, which are among the rows.
        """
        fault_points.reach("before_index_commit")
        self._write(rows, edges, mode="append")
        fault_points.reach("after_index_commit")
        self.scanned = _normal([*self.scanned, *scanned])
        self._commits[0] += 1
        for level in self._full_levels():
            self._compact(level)

    def overlaps(self, ranges: Iterable[Scanned]) -> bool:
        """Whether some of these offsets were read before."""
        return any(
            (old.topic, old.partition) == (new.topic, new.partition)
            and old.first <= new.last
            and new.first <= old.last
            for new in ranges
            for old in self.scanned
        )

    def without_scanned(self, parsed: DataFrame) -> DataFrame:
        """The rows whose offsets were not read before."""
        known = parsed.sparkSession.createDataFrame(
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
        """How many commits a level has, as far as its files tell."""
        files = self._rows().where(F.col("kind") == SCAN).inputFiles()
        return Counter(int(file.partition("level=")[2].partition("/")[0]) for file in files)

    def _read_scanned(self) -> list[Scanned]:
        rows = self._rows().where(F.col("kind") == SCAN)
        found = rows.select("topic", "partition", "first", "last").collect()
        return _normal([Scanned(*row) for row in found])

    def _full_levels(self) -> Iterator[int]:
        level = 0
        while self._commits[level] >= _FANOUT:
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
        # Nothing is new in it: who follows the table as a stream need not look.
        where = {"replaceWhere": f"level = {level}", "dataChange": "false"}
        self._write(joined, number, mode="overwrite", **where)
        self._commits[level] = 0
        self._commits[level + 1] += 1
        if level:
            with configured(self._spark, _CLEANING):
                self._spark.sql(f"VACUUM {self._name}")

    def _write(self, rows: Sequence[DataFrame], number: int, mode: str, **options: str) -> None:
        together = rows[0]
        for more in rows[1:]:
            together = together.unionByName(more)
        order = (*PARTITIONS, *SORTED_BY)
        files = math.ceil(number / _ROWS_PER_FILE)
        # Not coalesce, which would make one task of all that comes before it, too.
        repartition = partial(together.repartitionByRange, files)
        spread = repartition(*order) if files > 1 else together.repartition(1)
        writer = spread.sortWithinPartitions(*order).write.format("delta").mode(mode)
        shuffles = str(max(_LEAST_SHUFFLES, number // _ROWS_PER_SHUFFLE))
        # The rows' own session: that of a streaming query is a copy of the one it began with.
        with configured(
            together.sparkSession, {**_WRITING, "spark.sql.shuffle.partitions": shuffles}
        ):
            writer.partitionBy(*PARTITIONS).options(**options).save(self._location)


def _normal(ranges: Iterable[Scanned]) -> list[Scanned]:
    """The same offsets in as few ranges as can be."""
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
