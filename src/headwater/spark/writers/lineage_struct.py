"""The lineage column of a table, built from the lineage column of a query."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.spark.source import has_exact_parents, parents_text
from headwater.storage.tables.contract import FIELDS


@dataclass(frozen=True, slots=True)
class JobRun:
    """What produces the rows: a job, its version and one run."""

    job_name: str
    job_version: str
    run_id: str | None


def stored_lineage(lineage: Column, job_run: JobRun, batch: int, ordinal: Column) -> Column:
    """The lineage of a row as stored in the table.

    The record id is that of a Kafka record by the same job from the same parents; see
    `model.record.record_id`. It is null if the parents are not known exactly.
    """
    single = lineage["parents"].isNull()
    text = parents_text(lineage)
    parents = F.concat_ws(",", text, lineage["rest"])
    ordinal = F.coalesce(ordinal.cast("bigint"), F.lit(0))
    identity = F.concat_ws(
        "\0",
        F.lit(job_run.job_name),
        F.coalesce(lineage["all_parents_hash"], text, F.lit("")),
        ordinal.cast("string"),
    )
    return _struct(
        job_run,
        topic=F.when(single, lineage["topic"]),
        partition=F.when(single, lineage["partition"]),
        offset=F.when(single, lineage["offset"]),
        parents=F.when(~single & (parents != ""), F.split(parents, ",")),
        record_id=F.when(has_exact_parents(lineage), F.substring(F.sha2(identity, 256), 1, 32)),
        batch_version=F.lit(batch),
    )


def file_lineage(file: Column, key: Column, job_run: JobRun) -> Column:
    """The lineage of a row that a batch job read from a file, which is its parent.

    Args:
        key: identifies the row within the file.
    """
    identity = F.concat_ws("\0", F.lit(job_run.job_name), file, key)
    return _struct(
        job_run, parents=F.array(file), record_id=F.substring(F.sha2(identity, 256), 1, 32)
    )


def _struct(job_run: JobRun, **values: Column) -> Column:
    fields = {
        **dict.fromkeys(FIELDS, F.lit(None)),
        "job_name": F.lit(job_run.job_name),
        "job_version": F.lit(job_run.job_version),
        "run_id": F.lit(job_run.run_id),
        **values,
    }
    return F.struct(*(fields[name].cast(kind).alias(name) for name, kind in FIELDS.items()))
