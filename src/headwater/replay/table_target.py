"""A Delta table as the target of a replay: each step is one commit, and can be undone."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.sink import ERROR_COLUMN, RAW_VALUE_COLUMN, no_error
from headwater.errors import LineageTableError
from headwater.model.local_files import file_uri
from headwater.replay.identities import CONTENT, IDENTITY, record_hash
from headwater.replay.plan import table_path
from headwater.replay.target import Ends, ReplayContext, ReplayTarget
from headwater.spark.utc import IN_UTC
from headwater.spark.writers.lineage_struct import JobRun
from headwater.spark.writers.table import DeltaTable, check_columns, with_stored_lineage
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.contract import COLUMN
from headwater.storage.tables.registry import register


class TableTarget(ReplayTarget):
    """The table. Rows that can't be processed are not written to it, only counted."""

    def __init__(self, context: ReplayContext) -> None:
        super().__init__(context)
        plan = context.plan
        self._table = DeltaTable(context.spark, table_path(plan.target))
        self._job_run = JobRun(plan.job_name, plan.job_version, context.run_id)

    def prepare(self, inputs: DataFrame, outputs: DataFrame) -> None:
        if COLUMN not in outputs.columns:
            raise LineageTableError(
                f"the transform's rows have no column {COLUMN!r}: {', '.join(outputs.columns)}",
                hint="keep it in every select",
            )
        rows = table_rows(outputs, self._job_run, 0)
        self._table.ensure(rows.schema)
        check_columns(self._table, rows)
        register(self._table.known(), self.context.settings)

    def ends(self) -> Ends:
        return {}

    def before_step(self) -> None:
        """Nothing to do: a commit is atomic."""

    def rows(self, outputs: DataFrame, step: int) -> DataFrame:
        rows = outputs
        if ERROR_COLUMN not in rows.columns:
            rows = rows.withColumn(ERROR_COLUMN, no_error())
        rows = _identified(with_stored_lineage(rows.drop(RAW_VALUE_COLUMN), self._job_run, step))
        return rows.withColumn(CONTENT, F.when(F.col(ERROR_COLUMN).isNull(), F.col(CONTENT)))

    def existing(self) -> DataFrame:
        lineage = F.col(COLUMN)
        others = (lineage["job_name"] == self._job_run.job_name) & ~lineage["run_id"].eqNullSafe(
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
        for number, ranges in offsets.items():
            first, last = int(ranges.first[0]), int(ranges.last[-1])
            near = near | ((partition == number) & offset.between(first, last))
        return existing.where(near)

    def write(self, rows: DataFrame, step: int, *, again: bool) -> int:
        # Delta skips a commit that it already has, so an interrupted step can simply be repeated.
        self._table.append(_without_errors(rows), self.context.run_id, step)
        return 0


def table_rows(outputs: DataFrame, job_run: JobRun, step: int) -> DataFrame:
    """The outputs as the table stores them, without rows that could not be processed."""
    return with_stored_lineage(_without_errors(outputs), job_run, step)


def _without_errors(rows: DataFrame) -> DataFrame:
    if ERROR_COLUMN in rows.columns:
        rows = rows.where(F.col(ERROR_COLUMN).isNull())
    return rows.drop(ERROR_COLUMN, RAW_VALUE_COLUMN)


def _identified(rows: DataFrame) -> DataFrame:
    """Adds the record id, and a hash of it and of all columns except the lineage."""
    identity = F.col(COLUMN)["record_id"]
    names = [name for name in rows.columns if name not in (COLUMN, ERROR_COLUMN)]
    # The hash does not depend on the session's time zone: another session may compare it.
    content = F.to_json(F.struct(*names), IN_UTC).cast("binary")
    no_key = F.lit(None).cast("binary")
    return rows.withColumn(IDENTITY, identity).withColumn(
        CONTENT, record_hash(identity, no_key, content)
    )


def read_table(spark: SparkSession, target: str) -> DataFrame:
    return spark.read.format("delta").load(file_uri(table_path(target)))


def rows_of_run(spark: SparkSession, target: str, run_id: str) -> DataFrame:
    """The rows of a replay in the table, with their identities."""
    rows = read_table(spark, target)
    return _identified(rows.where(F.col(COLUMN)["run_id"] == run_id))


def remove_run(spark: SparkSession, target: str, run_id: str) -> int:
    """Delete the rows of a replay in one commit; returns their number."""
    if not (table_path(target) / "_delta_log").is_dir():
        return 0
    jvm = spark._jvm.io.delta.tables.DeltaTable  # type: ignore[union-attr]  # noqa: SLF001
    table = jvm.forPath(spark._jsparkSession, file_uri(table_path(target)))  # noqa: SLF001
    rows = read_table(spark, target).where(F.col(COLUMN)["run_id"] == run_id).count()
    condition = F.col(COLUMN)["run_id"] == F.lit(run_id)
    table.delete(condition._jc)  # noqa: SLF001
    return rows
