"""The struct column of a table, made from the lineage that rows carry through a query."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.spark.lineage_columns import parents_text
from headwater.storage.tables.contract import FIELDS


@dataclass(frozen=True, slots=True)
class JobRun:
    """Who makes the rows: a job, its version, and one start of it."""

    job_name: str
    job_version: str
    run_id: str | None


def stored_lineage(lineage: Column, maker: JobRun, batch: int, ordinal: Column) -> Column:
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
    return _struct(
        maker,
        topic=F.when(single, lineage["topic"]),
        partition=F.when(single, lineage["partition"]),
        offset=F.when(single, lineage["offset"]),
        parents=F.when(~single & (everyone != ""), F.split(everyone, ",")),
        record_id=F.substring(F.sha2(identity, 256), 1, 32),
        batch_version=F.lit(batch),
    )


def file_lineage(file: Column, key: Column, maker: JobRun) -> Column:
    """What is kept of a row that a batch job read from a file: its parent is the file.

    Args:
        key: what tells the row from others of the same file.
    """
    identity = F.concat_ws("\0", F.lit(maker.job_name), file, key)
    return _struct(
        maker, parents=F.array(file), record_id=F.substring(F.sha2(identity, 256), 1, 32)
    )


def _struct(maker: JobRun, **given: Column) -> Column:
    fields = {
        **dict.fromkeys(FIELDS, F.lit(None)),
        "job_name": F.lit(maker.job_name),
        "job_version": F.lit(maker.job_version),
        "run_id": F.lit(maker.run_id),
        **given,
    }
    return F.struct(*(fields[name].cast(kind).alias(name) for name, kind in FIELDS.items()))
