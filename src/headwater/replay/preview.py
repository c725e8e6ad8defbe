"""A preview: what the logic makes of some records now, beside what the target has of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.rows import rows_to_send
from headwater.delivery.sink import ORDINAL_COLUMN
from headwater.replay.plan import Plan
from headwater.replay.results import find_results
from headwater.replay.rows import ArchiveRows
from headwater.replay.table_path import table_path
from headwater.replay.table_target import read_table, table_rows
from headwater.replay.transform import Transform
from headwater.settings import Settings
from headwater.spark.lineage_columns import LINEAGE_COLUMN, lineage_identity, with_lineage
from headwater.spark.writers.lineage_struct import JobRun
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.contract import COLUMN

# By what identifies a result: its value, which may be null.
Results = Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A result, by what identifies it: what the target has, and what it would get."""

    identity: str
    old: bytes | None
    new: bytes | None
    has_old: bool
    has_new: bool

    @property
    def same(self) -> bool:
        return self.has_old and self.has_new and self.old == self.new


def preview(
    plan: Plan, logic: Transform, spark: SparkSession, settings: Settings, sample: int
) -> list[Difference]:
    """The results of the plan's first records, so many; nothing is written."""
    archive = Archive.open(plan.topic, settings)
    archived = ArchiveRows.open(spark, archive, plan.filters, plan.fields)
    rows = archived.in_order(plan.offsets).limit(sample).cache()
    try:
        outputs = logic.function(with_lineage(rows))
        if plan.into_table:
            new, old = _in_table(outputs, plan)
        else:
            inputs = _inputs(rows.select("partition", "offset").collect())
            new, old = _made(outputs, plan, settings), _in_topic(plan, inputs, settings)
    finally:
        rows.unpersist()
    return [
        Difference(name, old.get(name), new.get(name), name in old, name in new)
        for name in {**new, **old}
    ]


def _inputs(rows: Sequence[Row]) -> dict[int, OffsetRanges]:
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row["partition"], []).append((row["offset"], row["offset"]))
    return {partition: OffsetRanges.of(*ranges) for partition, ranges in found.items()}


def _made(outputs: DataFrame, plan: Plan, settings: Settings) -> Results:
    rows = rows_to_send(outputs, (plan.target, ""), settings.jobs.max_value_bytes)
    identity = lineage_identity(F.col(LINEAGE_COLUMN), plan.job_name, F.col(ORDINAL_COLUMN))
    found = rows.select(identity.alias("identity"), "value").collect()
    return {row["identity"]: _bytes(row["value"]) for row in found}


def _in_topic(plan: Plan, inputs: Mapping[int, OffsetRanges], settings: Settings) -> Results:
    found = find_results(plan, inputs, settings)
    return {identity: record.value for identity, record in found.items()}


def _in_table(outputs: DataFrame, plan: Plan) -> tuple[Results, Results]:
    """Rows as JSON without their lineage, by their record ids."""
    made = table_rows(outputs, JobRun(plan.job_name, plan.job_version, None), 0)
    columns = [name for name in made.columns if name != COLUMN]
    fields = (F.col(COLUMN)["record_id"].alias("id"), F.to_json(F.struct(*columns)).alias("row"))
    new = {row["id"]: row["row"].encode() for row in made.select(*fields).collect()}
    if not (table_path(plan.target) / "_delta_log").is_dir():
        return new, {}
    there = read_table(outputs.sparkSession, plan.target)
    mine = F.col(COLUMN)["record_id"].isin(list(new))
    if not set(columns) <= set(there.columns):
        columns = [name for name in there.columns if name != COLUMN]
        fields = (fields[0], F.to_json(F.struct(*columns)).alias("row"))
    return new, {
        row["id"]: row["row"].encode() for row in there.where(mine).select(*fields).collect()
    }


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
