"""Writes micro-batches to a Delta or Iceberg table, each once.

In both formats a commit contains the query and batch that wrote it. A batch that is rerun after a
kill finds its commit and writes nothing: no row twice, and no reader sees part of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.errors import (
    CheckpointError,
    CheckpointInUseError,
    HeadwaterError,
    InputError,
    LineageTableError,
)
from headwater.model.local_files import file_uri, local_folder, local_path
from headwater.settings import fault_points
from headwater.spark.compat import ddl_of, with_all_columns
from headwater.spark.local_rows import local_rows
from headwater.spark.query_runner import lease
from headwater.spark.writers.lineage_struct import JobRun, stored_lineage
from headwater.spark.writers.merge_into import ROWS, MergeRule, merge, snapshot_configuration
from headwater.storage.checkpoint import query_id, read_progress
from headwater.storage.query_identity import DUPLICATES
from headwater.storage.tables.contract import COLUMN, TYPE, TableFormat
from headwater.storage.tables.registry import KnownTable

ORDINAL_COLUMN = "ordinal"
_QUERY_ID = "headwater.query-id"
_BATCH_ID = "headwater.batch-id"
_DELTA_APPLICATION = "spark.databricks.delta.write.txnAppId"
_DELTA_VERSION = "spark.databricks.delta.write.txnVersion"
# For partitioned Iceberg tables: sort rows by partition before the write. Otherwise a task has an
# open file for each of its partitions, and some hundred of them fill the heap.
_SORTED_WRITES = "TBLPROPERTIES ('write.spark.fanout.enabled' = 'false')"


class Table(ABC):
    """A table of one format."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark = spark
        self.name = name

    @abstractmethod
    def known(self) -> KnownTable:
        """Name and location by which queries find it."""

    @abstractmethod
    def ensure(self, schema: StructType, partitioned_by: Sequence[str] = ()) -> None:
        """Create it if it does not exist."""

    @abstractmethod
    def rows(self) -> DataFrame:
        """The rows of its current version."""

    def columns(self) -> StructType:
        """The columns of the table."""
        return self.rows().schema

    @abstractmethod
    def append(self, rows: DataFrame, query_id: str, batch: int) -> None:
        """Write a batch in one commit, unless it is already written."""

    @abstractmethod
    def newest_batch(self, query_id: str) -> int | None:
        """The newest batch of a query in the table; None if there is none."""

    def may_have_forgotten(self, query_id: str, batch: int) -> bool:
        """Whether the batch may be committed although the table does not show it."""
        return False

    @abstractmethod
    def merge(self, rows: DataFrame, rule: MergeRule, query_id: str, batch: int) -> int:
        """Merge a batch in one commit, unless it is already written; returns the number of rows.

        Raises:
            LineageTableError: all attempts conflicted with concurrent commits.
        """


class DeltaTable(Table):
    """A Delta table in a folder."""

    def __init__(self, spark: SparkSession, location: Path) -> None:
        super().__init__(spark, str(location))
        self._location = location.absolute()
        self._uri = file_uri(self._location)

    def known(self) -> KnownTable:
        return KnownTable(self.name, str(self._location))

    def ensure(self, schema: StructType, partitioned_by: Sequence[str] = ()) -> None:
        if not (self._location / "_delta_log").is_dir():
            empty = local_rows(self.spark, (), schema)
            empty.write.format("delta").mode("ignore").partitionBy(*partitioned_by).save(self._uri)

    def rows(self) -> DataFrame:
        return self.spark.read.format("delta").load(self._uri)

    def append(self, rows: DataFrame, query_id: str, batch: int) -> None:
        # Delta skips a commit with an application id and version that it already has.
        once = {"txnAppId": query_id, "txnVersion": str(batch)}
        rows.write.format("delta").mode("append").options(**once).save(self._uri)

    def newest_batch(self, query_id: str) -> int | None:
        try:
            from headwater.storage.delta.open_table import transaction_version
        except ImportError:
            # The extra `index` is not installed.
            return None
        return transaction_version(self._location, query_id)

    def merge(self, rows: DataFrame, rule: MergeRule, query_id: str, batch: int) -> int:
        # As options of a write; a statement takes them from the session.
        once = {_DELTA_APPLICATION: query_id, _DELTA_VERSION: str(batch)}
        return merge(f"delta.`{self._uri}`", rows, rule, once)


class IcebergTable(Table):
    """An Iceberg table of a catalog, such as `demo.news.visits`."""

    def known(self) -> KnownTable:
        described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        location = next(row["data_type"] for row in described if row["col_name"] == "Location")
        return KnownTable(self.name, str(local_path(location) or location))

    def ensure(self, schema: StructType, partitioned_by: Sequence[str] = ()) -> None:
        namespace = self.name.rpartition(".")[0]
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        # IF NOT EXISTS: two jobs may create the table at the same time.
        parts = f"PARTITIONED BY ({', '.join(partitioned_by)}) {_SORTED_WRITES}"
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({ddl_of(schema)}) USING iceberg "
            + (parts if partitioned_by else "")
        )

    def rows(self) -> DataFrame:
        return self.spark.table(self.name)

    def append(self, rows: DataFrame, query_id: str, batch: int) -> None:
        if self._rows_written(query_id, batch) is not None:
            return
        (
            with_all_columns(rows, self.columns)
            .writeTo(self.name)
            .option(f"snapshot-property.{_QUERY_ID}", query_id)
            .option(f"snapshot-property.{_BATCH_ID}", str(batch))
            .append()
        )

    def merge(self, rows: DataFrame, rule: MergeRule, query_id: str, batch: int) -> int:
        written = self._rows_written(query_id, batch)
        if written is not None:
            return written
        properties = {_QUERY_ID: query_id, _BATCH_ID: str(batch)}
        return merge(self.name, rows, rule, snapshot_configuration(properties))

    def newest_batch(self, query_id: str) -> int | None:
        summary = F.col("summary")
        newest = (
            self.spark.table(f"{self.name}.snapshots")
            .where(summary[_QUERY_ID] == query_id)
            .agg(F.max(summary[_BATCH_ID].cast("bigint")))
            .head()
        )
        return None if newest is None or newest[0] is None else int(newest[0])

    def may_have_forgotten(self, query_id: str, batch: int) -> bool:
        """Whether snapshots after the last known commit of the query have expired."""
        if self._rows_written(query_id, batch) is not None:
            return False
        marked = F.col("summary")[_QUERY_ID] == query_id
        rows = self.spark.table(f"{self.name}.snapshots").select(
            "snapshot_id", "parent_id", marked.alias("marked")
        )
        snapshots = {row["snapshot_id"]: row for row in rows.collect()}
        refs = self.spark.table(f"{self.name}.refs").where(F.col("name") == "main")
        current = refs.select("snapshot_id").head()
        each = None if current is None else current[0]
        while each is not None:
            if each not in snapshots:
                return True
            # An earlier batch of the query: no snapshot since then is missing.
            if snapshots[each]["marked"]:
                return False
            each = snapshots[each]["parent_id"]
        return False

    def _rows_written(self, query_id: str, batch: int) -> int | None:
        """The number of rows in the commit of the batch; None if it is not committed."""
        summary = F.col("summary")
        batch_id = summary[_BATCH_ID].cast("bigint")
        snapshot = (
            self.spark.table(f"{self.name}.snapshots")
            .where((summary[_QUERY_ID] == query_id) & (batch_id >= batch))
            .orderBy(batch_id)
            .select(batch_id, summary[ROWS].cast("bigint"))
            .head()
        )
        if snapshot is None:
            return None
        return int(snapshot[1] or 0) if snapshot[0] == batch else 0


def refuse_other_progress(
    table: Table, checkpoint: Path | str, folder: Path, accept: Collection[str]
) -> None:
    """Refuse a checkpoint whose next batch the table would take for a committed one, or can't
    recognize as committed.

    Args:
        checkpoint: its path or URI.
        folder: the checkpoint, or a local copy of it.

    Raises:
        CheckpointError: the table has later batches of the query; or one was interrupted, and
            the snapshots that would show its commit have expired.
    """
    query, progress = query_id(folder), read_progress(folder)
    newest = None if query is None else table.newest_batch(query)
    if newest is not None and newest > progress.started:
        raise CheckpointError(
            f"{checkpoint} is older than table {table.name}: its newest batch is "
            f"{progress.started}, but the table has batch {newest} of this query",
            hint="use the newest checkpoint: the table would not accept other rows with the same "
            "batch ids. With a new --checkpoint, all records are written again",
            checkpoint=str(checkpoint),
        )
    if query is None or progress.cut_off is None or DUPLICATES in accept:
        return
    if table.may_have_forgotten(query, progress.cut_off):
        raise CheckpointError(
            f"{checkpoint}: batch {progress.cut_off} was interrupted, and snapshots of table "
            f"{table.name} have expired since: whether the batch is committed is not known",
            hint=f"look for its rows: `lineage.batch_version = {progress.cut_off}`. To write them "
            f"again: --accept {DUPLICATES}, or LineageJob(accept=[…])",
            checkpoint=str(checkpoint),
        )


def table_of(spark: SparkSession, table: str | Path, table_format: TableFormat) -> Table:
    """The table: a folder for Delta, a name in a catalog for Iceberg.

    Raises:
        InputError: an unknown format, or an invalid name.
    """
    if table_format == "delta":
        try:
            return DeltaTable(spark, local_folder(table, table=True))
        except ValueError as error:
            raise InputError(
                f"the Delta table {error}",
                hint="for a table of a catalog use table_format='iceberg'",
            ) from None
    if table_format != "iceberg":
        raise InputError(f"unknown table format: {table_format!r}", hint="known: delta, iceberg")
    parts = str(table).split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise InputError(
            f"not an Iceberg table name: {str(table)!r}",
            hint="use catalog, namespace and table, such as `demo.news.visits`",
        )
    return IcebergTable(spark, str(table))


def writer_of(
    table: Table,
    job_run: JobRun,
    rule: MergeRule | None = None,
    on_merge: Callable[[int, int], None] = lambda batch, rows: None,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that adds the lineage and appends or merges the rows.

    Args:
        on_merge: called with the id of each merged batch and its number of rows.
    """

    def write(rows: DataFrame, batch: int) -> None:
        query = _query_id(rows)
        fault_points.reach("before_table_commit")
        with_lineage = with_stored_lineage(rows, job_run, batch)
        if rule is None:
            table.append(with_lineage, query, batch)
        else:
            on_merge(batch, table.merge(with_lineage, rule, query, batch))
        fault_points.reach("after_table_commit")

    return write


def with_stored_lineage(rows: DataFrame, job_run: JobRun, batch: int) -> DataFrame:
    """Rows as they are stored in a table."""
    ordinal = F.col(ORDINAL_COLUMN) if ORDINAL_COLUMN in rows.columns else F.lit(0)
    lineage = stored_lineage(F.col(COLUMN), job_run, batch, ordinal)
    return rows.withColumn(COLUMN, lineage).drop(ORDINAL_COLUMN)


def check_columns(table: Table, rows: DataFrame) -> None:
    """Check that the table has the columns of the rows and no other required one, so that the query
    does not fail at its first batch.

    Raises:
        LineageTableError: names the column.
    """
    columns = table.columns()
    existing = {field.name: field.dataType for field in columns}
    for field in columns:
        if not field.nullable and field.name not in rows.columns:
            raise LineageTableError(
                f"table {table.name}: column `{field.name}` must not be null, but is not written",
                hint=f"ALTER TABLE … ALTER COLUMN {field.name} DROP NOT NULL",
                table=table.name,
            )
    for field in rows.schema:
        kind = existing.get(field.name)
        if kind is None or kind.simpleString() != field.dataType.simpleString():
            actual = "is missing" if kind is None else f"is {kind.simpleString()}"
            raise LineageTableError(
                f"table {table.name}: column `{field.name}` should be "
                f"{field.dataType.simpleString()}, but {actual}",
                hint=f"ALTER TABLE … ADD COLUMN; `{COLUMN}` is {TYPE}",
                table=table.name,
            )


def _query_id(rows: DataFrame) -> str:
    # Set on the thread that runs the micro-batch.
    context = rows.sparkSession.sparkContext
    query = context.getLocalProperty("sql.streaming.queryId")
    assert query is not None  # noqa: S101 - Spark sets it for every streaming query
    return query


@contextmanager
def only_writer(
    table: Path, spark: SparkSession, refused: Callable[[str], HeadwaterError]
) -> Iterator[None]:
    """Hold a table that has one writer while the body runs.

    Args:
        refused: builds the error if another process holds it, from a description of the holder.
    """
    with ExitStack() as stack:
        try:
            # Table readers ignore folders that start with an underscore.
            stack.enter_context(lease(table / "_writer", spark))
        except CheckpointInUseError as error:
            raise refused(error.message) from error
        yield
