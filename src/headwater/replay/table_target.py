"""A Delta table as the target of a replay: a step is a commit, and can be taken back."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.dead_letter.columns import ERROR_COLUMN, RAW_VALUE_COLUMN, no_error
from headwater.errors import LineageTableError
from headwater.replay.digest_columns import record_hash
from headwater.replay.identities import CONTENT, IDENTITY
from headwater.replay.table_path import table_path
from headwater.replay.target import Context, Ends, ReplayTarget
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.table import DeltaTable, check_columns, stored
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.contract import COLUMN
from headwater.storage.tables.registry import register


class TableTarget(ReplayTarget):
    """The table. Rows that can't be processed have no place in it: they are counted."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        plan = context.plan
        self._table = DeltaTable(context.spark, table_path(plan.target))
        self._maker = JobRun(plan.job_name, plan.job_version, context.run_id)

    def prepare(self, inputs: DataFrame, outputs: DataFrame) -> None:
        if COLUMN not in outputs.columns:
            raise LineageTableError(
                f"the logic's rows have no column {COLUMN!r}: {', '.join(outputs.columns)}",
                hint="keep it in every select",
            )
        rows = table_rows(outputs, self._maker, 0)
        self._table.ensure(rows.schema)
        check_columns(self._table, rows)
        register(self._table.known(), self.context.settings)

    def ends(self) -> Ends:
        return {}

    def before_step(self) -> None:
        """Nothing: a commit is there or not."""

    def rows(self, outputs: DataFrame, step: int) -> DataFrame:
        rows = outputs
        if ERROR_COLUMN not in rows.columns:
            rows = rows.withColumn(ERROR_COLUMN, no_error())
        rows = _identified(stored(rows.drop(RAW_VALUE_COLUMN), self._maker, step))
        return rows.withColumn(CONTENT, F.when(F.col(ERROR_COLUMN).isNull(), F.col(CONTENT)))

    def existing(self) -> DataFrame:
        lineage = F.col(COLUMN)
        others = (lineage["job_name"] == self._maker.job_name) & ~lineage["run_id"].eqNullSafe(
            self.context.run_id
        )
        rows = read_table(self.context.spark, self.context.plan.target).where(others)
        return _identified(rows).select(
            IDENTITY,
            CONTENT,
            lineage["partition"].alias("partition"),
            lineage["offset"].alias("offset"),
        )

    def near(self, existing: DataFrame, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
        partition, offset = F.col("partition"), F.col("offset")
        near = partition.isNull()
        for number, of in offsets.items():
            first, last = int(of.first[0]), int(of.last[-1])
            near = near | ((partition == number) & offset.between(first, last))
        return existing.where(near)

    def write(self, rows: DataFrame, step: int, *, again: bool) -> int:
        # Delta itself leaves out a commit that it has: whatever a kill cut off is there or not.
        self._table.append(_good(rows), self.context.run_id, step)
        return 0


def table_rows(outputs: DataFrame, maker: JobRun, step: int) -> DataFrame:
    """What came of records, as a table keeps it; what could not be processed is left out."""
    return stored(_good(outputs), maker, step)


def _good(rows: DataFrame) -> DataFrame:
    if ERROR_COLUMN in rows.columns:
        rows = rows.where(F.col(ERROR_COLUMN).isNull())
    return rows.drop(ERROR_COLUMN, RAW_VALUE_COLUMN)


def _identified(rows: DataFrame) -> DataFrame:
    """With the record id, and a hash of it and of all columns but the lineage."""
    identity = F.col(COLUMN)["record_id"]
    names = [name for name in rows.columns if name not in (COLUMN, ERROR_COLUMN)]
    content = F.to_json(F.struct(*names)).cast("binary")
    nothing = F.lit(None).cast("binary")
    return rows.withColumn(IDENTITY, identity).withColumn(
        CONTENT, record_hash(identity, nothing, content)
    )


def read_table(spark: SparkSession, target: str) -> DataFrame:
    return spark.read.format("delta").load(f"file://{table_path(target)}")


def rows_of_run(spark: SparkSession, target: str, run_id: str) -> DataFrame:
    """What a replay has in the table, identified."""
    rows = read_table(spark, target)
    return _identified(rows.where(F.col(COLUMN)["run_id"] == run_id))


def remove_run(spark: SparkSession, target: str, run_id: str) -> int:
    """Take the rows of a replay back, and no others, in one commit; returns how many."""
    if not (table_path(target) / "_delta_log").is_dir():
        return 0
    jvm = spark._jvm.io.delta.tables.DeltaTable  # type: ignore[union-attr]  # noqa: SLF001
    table = jvm.forPath(spark._jsparkSession, f"file://{table_path(target)}")  # noqa: SLF001
    rows = read_table(spark, target).where(F.col(COLUMN)["run_id"] == run_id).count()
    condition = F.col(COLUMN)["run_id"] == F.lit(run_id)
    table.delete(condition._jc)  # noqa: SLF001
    return rows
