"""Writes micro-batches to a Delta or Iceberg table, each once.

Both formats let a commit carry who made it. A batch that runs again after a kill finds its own
commit there and writes nothing: no row twice, and no reader sees half a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.errors import InputError, LineageTableError
from headwater.settings import fault_points
from headwater.spark.writers.lineage_struct import JobRun, stored_lineage
from headwater.spark.writers.merge_into import ROWS, MergeRule, merge
from headwater.storage.tables.contract import COLUMN, TYPE, TableFormat
from headwater.storage.tables.registry import KnownTable

ORDINAL_COLUMN = "ordinal"
_QUERY_ID = "headwater.query-id"
_BATCH_ID = "headwater.batch-id"
# Of a partitioned Iceberg table: rows are sorted by partition before they are written. Else a task
# has a file open for each partition that it meets, and some hundred of them fill the heap.
_ONE_FILE_AT_A_TIME = "TBLPROPERTIES ('write.spark.fanout.enabled' = 'false')"


class Table(ABC):
    """A table of one format."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark = spark
        self.name = name

    @abstractmethod
    def known(self) -> KnownTable:
        """Under which name and where it is found by the questions."""

    @abstractmethod
    def ensure(self, schema: StructType, partitioned_by: Sequence[str] = ()) -> None:
        """Make it if it is not there."""

    @abstractmethod
    def columns(self) -> StructType:
        """Those that it has."""

    @abstractmethod
    def append(self, rows: DataFrame, query_id: str, batch: int) -> None:
        """Write a batch in one commit, unless it is there."""

    def merge(self, rows: DataFrame, rule: MergeRule, query_id: str, batch: int) -> int:
        """Merge a batch in one commit, unless it is there; gives how many rows that were.

        Raises:
            InputError: this format has no merge here.
        """
        raise InputError(
            f"rows are merged into Iceberg tables only, not into {self.name}",
            hint="leave out `merge`, or choose table_format='iceberg'",
        )


class DeltaTable(Table):
    """A Delta table in a folder."""

    def __init__(self, spark: SparkSession, location: Path) -> None:
        super().__init__(spark, str(location))
        self._location = location.absolute()
        # With its scheme: a bare path would be one of the cluster's default file system.
        self._uri = f"file://{self._location}"

    def known(self) -> KnownTable:
        return KnownTable(self.name, str(self._location))

    def ensure(self, schema: StructType, partitioned_by: Sequence[str] = ()) -> None:
        if not (self._location / "_delta_log").is_dir():
            empty = self.spark.createDataFrame([], schema)
            empty.write.format("delta").mode("ignore").partitionBy(*partitioned_by).save(self._uri)

    def columns(self) -> StructType:
        return self.spark.read.format("delta").load(self._uri).schema

    def append(self, rows: DataFrame, query_id: str, batch: int) -> None:
        # Delta leaves out a commit of an application whose version it has.
        once = {"txnAppId": query_id, "txnVersion": str(batch)}
        rows.write.format("delta").mode("append").options(**once).save(self._uri)


class IcebergTable(Table):
    """An Iceberg table of a catalog, such as `demo.news.visits`."""

    def known(self) -> KnownTable:
        described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.name}").collect()
        location = next(row["data_type"] for row in described if row["col_name"] == "Location")
        return KnownTable(self.name, location.removeprefix("file:"))

    def ensure(self, schema: StructType, partitioned_by: Sequence[str] = ()) -> None:
        namespace = self.name.rpartition(".")[0]
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        # Two jobs may start at once on a new table.
        parts = f"PARTITIONED BY ({', '.join(partitioned_by)}) {_ONE_FILE_AT_A_TIME}"
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({schema.toDDL()}) USING iceberg "
            + (parts if partitioned_by else "")
        )

    def columns(self) -> StructType:
        return self.spark.table(self.name).schema

    def append(self, rows: DataFrame, query_id: str, batch: int) -> None:
        if self._rows_there(query_id, batch) is not None:
            return
        (
            rows.writeTo(self.name)
            .option(f"snapshot-property.{_QUERY_ID}", query_id)
            .option(f"snapshot-property.{_BATCH_ID}", str(batch))
            .append()
        )

    def merge(self, rows: DataFrame, rule: MergeRule, query_id: str, batch: int) -> int:
        there = self._rows_there(query_id, batch)
        if there is not None:
            return there
        return merge(self.name, rows, rule, {_QUERY_ID: query_id, _BATCH_ID: str(batch)})

    def _rows_there(self, query_id: str, batch: int) -> int | None:
        """How many rows the batch's own commit brought; None if there is none."""
        summary = F.col("summary")
        number = summary[_BATCH_ID].cast("bigint")
        found = (
            self.spark.table(f"{self.name}.snapshots")
            .where((summary[_QUERY_ID] == query_id) & (number >= batch))
            .orderBy(number)
            .select(number, summary[ROWS].cast("bigint"))
            .head()
        )
        if found is None:
            return None
        return int(found[1] or 0) if found[0] == batch else 0


def table_of(spark: SparkSession, table: str | Path, table_format: TableFormat) -> Table:
    """The table: a folder for Delta, a name in a catalog for Iceberg.

    Raises:
        InputError: an unknown format, or a name that is none.
    """
    if table_format == "delta":
        return DeltaTable(spark, Path(table))
    if table_format != "iceberg":
        raise InputError(f"unknown table format: {table_format!r}", hint="known: delta, iceberg")
    parts = str(table).split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise InputError(
            f"not the name of an Iceberg table: {str(table)!r}",
            hint="catalog, namespace and table, separated by dots, such as `demo.news.visits`",
        )
    return IcebergTable(spark, str(table))


def writer_of(
    table: Table,
    maker: JobRun,
    rule: MergeRule | None = None,
    note: Callable[[int, int], None] = lambda batch, rows: None,
) -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: gives the rows their lineage, and appends or merges them.

    Args:
        note: gets the number of each batch that was merged, and of its rows.
    """

    def write(rows: DataFrame, batch: int) -> None:
        query_id = _query_id(rows)
        fault_points.reach("before_table_commit")
        kept = stored(rows, maker, batch)
        if rule is None:
            table.append(kept, query_id, batch)
        else:
            note(batch, table.merge(kept, rule, query_id, batch))
        fault_points.reach("after_table_commit")

    return write


def stored(rows: DataFrame, maker: JobRun, batch: int) -> DataFrame:
    """Rows as a table keeps them."""
    ordinal = F.col(ORDINAL_COLUMN) if ORDINAL_COLUMN in rows.columns else F.lit(0)
    lineage = stored_lineage(F.col(COLUMN), maker, batch, ordinal)
    return rows.withColumn(COLUMN, lineage).drop(ORDINAL_COLUMN)


def check_columns(table: Table, rows: DataFrame) -> None:
    """The table must have the rows' columns, or a batch would fail in the middle of a stream; and
    none beyond them that has to be filled.

    Raises:
        LineageTableError: names the column.
    """
    columns = table.columns()
    there = {field.name: field.dataType for field in columns}
    for field in columns:
        if not field.nullable and field.name not in rows.columns:
            raise LineageTableError(
                f"table {table.name}: column `{field.name}` must not be null, but is not written",
                hint=f"ALTER TABLE … ALTER COLUMN {field.name} DROP NOT NULL",
                table=table.name,
            )
    for field in rows.schema:
        kind = there.get(field.name)
        if kind is None or kind.simpleString() != field.dataType.simpleString():
            found = "is not there" if kind is None else f"is {kind.simpleString()}"
            raise LineageTableError(
                f"table {table.name}: column `{field.name}` should be "
                f"{field.dataType.simpleString()}, but {found}",
                hint=f"ALTER TABLE … ADD COLUMN; `{COLUMN}` is {TYPE}",
                table=table.name,
            )


def _query_id(rows: DataFrame) -> str:
    # Of the thread that runs the micro-batch.
    context = rows.sparkSession.sparkContext
    found = context.getLocalProperty("sql.streaming.queryId")
    assert found is not None  # noqa: S101 - Spark sets it for every streaming query
    return found
