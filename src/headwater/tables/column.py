"""The struct column of a table, made from the lineage that rows carry through a query."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.rowlineage.columns import parents_text
from headwater.tables.contract import FIELDS


@dataclass(frozen=True, slots=True)
class Maker:
    """Who makes the rows: a job, its version, and one start of it."""

    job_name: str
    job_version: str
    run_id: str | None


def stored_lineage(lineage: Column, maker: Maker, batch: int, ordinal: Column) -> Column:
    """What is kept of a row's lineage.

    The record id is the one that a record in Kafka, made by the same job from the same parents,
    would have; see `model.lineage.record_id`.
    """
    single = lineage["parents"].isNull()
    text = parents_text(lineage)
    everyone = F.concat_ws(",", text, lineage["rest"])
    ordinal = F.coalesce(ordinal.cast("bigint"), F.lit(0))
    identity = F.concat_ws(
        "\0",
        F.lit(maker.job_name),
        F.coalesce(lineage["all_parents_hash"], text, F.lit("")),
        ordinal.cast("string"),
    )
    fields = {
        "topic": F.when(single, lineage["topic"]),
        "partition": F.when(single, lineage["partition"]),
        "offset": F.when(single, lineage["offset"]),
        "parents": F.when(~single & (everyone != ""), F.split(everyone, ",")),
        "record_id": F.substring(F.sha2(identity, 256), 1, 32),
        "job_name": F.lit(maker.job_name),
        "job_version": F.lit(maker.job_version),
        "batch_version": F.lit(batch),
        "run_id": F.lit(maker.run_id),
    }
    return F.struct(*(fields[name].cast(kind).alias(name) for name, kind in FIELDS.items()))
