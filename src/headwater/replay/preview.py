"""A preview: the new results of some records, compared with the results in the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwater.delivery.sink import ORDINAL_COLUMN, OutputTopics, rows_to_send
from headwater.replay.plan import Plan, table_path
from headwater.replay.results import find_results
from headwater.replay.rows import ORDER_CONFIGURATION, ArchivedRows
from headwater.replay.table_target import read_table, table_rows
from headwater.replay.transform import Transform
from headwater.settings import Settings
from headwater.spark.configuration import configured
from headwater.spark.source import LINEAGE_COLUMN, lineage_identity, with_lineage
from headwater.spark.utc import IN_UTC
from headwater.spark.writers.lineage_struct import JobRun
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges
from headwater.storage.tables.contract import COLUMN

# Values, which may be null, by the identity of the result.
Results = Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A result: the value in the target, and the value that a replay would write."""

    identity: str
    old: bytes | None
    new: bytes | None
    has_old: bool
    has_new: bool

    @property
    def same(self) -> bool:
        return self.has_old and self.has_new and self.old == self.new


def preview(
    plan: Plan, transform: Transform, spark: SparkSession, settings: Settings, limit: int
) -> list[Difference]:
    """The results of the plan's first `limit` records; nothing is written."""
    with configured(spark, ORDER_CONFIGURATION):
        return _preview(plan, transform, spark, settings, limit)


def _preview(
    plan: Plan, transform: Transform, spark: SparkSession, settings: Settings, limit: int
) -> list[Difference]:
    archive = Archive.open(plan.topic, settings)
    archived = ArchivedRows.open(spark, archive, plan.filters, plan.fields)
    rows = archived.in_order(plan.offsets).limit(limit).cache()
    try:
        outputs = transform.function(with_lineage(rows))
        if plan.into_table:
            new, old = _in_table(outputs, plan)
        else:
            inputs = _inputs(rows.select("partition", "offset").collect())
            new, old = _new_results(outputs, plan, settings), _in_topic(plan, inputs, settings)
    finally:
        rows.unpersist()
    return [
        Difference(name, old.get(name), new.get(name), name in old, name in new)
        for name in {**new, **old}
    ]


def _inputs(rows: Sequence[Row]) -> dict[int, OffsetRanges]:
    pairs: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        pairs.setdefault(row["partition"], []).append((row["offset"], row["offset"]))
    return {partition: OffsetRanges.of(*ranges) for partition, ranges in pairs.items()}


def _new_results(outputs: DataFrame, plan: Plan, settings: Settings) -> Results:
    rows = rows_to_send(outputs, OutputTopics((plan.target,)), settings.jobs.max_value_bytes)
    identity = lineage_identity(F.col(LINEAGE_COLUMN), plan.job_name, F.col(ORDINAL_COLUMN))
    collected = rows.select(identity.alias("identity"), "value").collect()
    # A result that was made from a range of inputs has no identity to compare it by.
    known = (row for row in collected if row["identity"] is not None)
    return {row["identity"]: _bytes(row["value"]) for row in known}


def _in_topic(plan: Plan, inputs: Mapping[int, OffsetRanges], settings: Settings) -> Results:
    results = find_results(plan, inputs, settings)
    return {identity: record.value for identity, record in results.items()}


def _in_table(outputs: DataFrame, plan: Plan) -> tuple[Results, Results]:
    """New and old rows as JSON without their lineage, by record id."""
    made = table_rows(outputs, JobRun(plan.job_name, plan.job_version, None), 0)
    columns = [name for name in made.columns if name != COLUMN]
    fields = (F.col(COLUMN)["record_id"].alias("id"), _as_json(columns))
    identified = made.select(*fields).where(F.col("id").isNotNull())
    new = {row["id"]: row["row"].encode() for row in identified.collect()}
    if not (table_path(plan.target) / "_delta_log").is_dir():
        return new, {}
    table = read_table(outputs.sparkSession, plan.target)
    same_ids = F.col(COLUMN)["record_id"].isin(list(new))
    if not set(columns) <= set(table.columns):
        columns = [name for name in table.columns if name != COLUMN]
        fields = (fields[0], _as_json(columns))
    return new, {
        row["id"]: row["row"].encode() for row in table.where(same_ids).select(*fields).collect()
    }


def _as_json(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*columns), IN_UTC).alias("row")


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
