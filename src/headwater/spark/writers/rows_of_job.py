"""Rows of a job in a table, by which a lost checkpoint is noticed."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import functions as F

from headwater.model.header import MORE_PARENTS
from headwater.spark.writers.table import Table
from headwater.storage.tables.contract import COLUMN


def has_rows_of(table: Table, job_name: str, topics: Collection[str] | None) -> bool:
    """Whether the table has a row that the job made from one of these topics; None for any."""
    lineage = F.col(COLUMN)
    rows = table.rows().where(lineage["job_name"] == job_name)
    if topics is not None:
        parents = F.coalesce(lineage["parents"], F.array(lineage["topic"]))
        names = F.transform(parents, lambda parent: F.substring_index(parent, "/", 1))
        wanted = F.array(*map(F.lit, (*sorted(topics), MORE_PARENTS)))
        rows = rows.where(F.arrays_overlap(names, wanted))
    return bool(rows.limit(1).count())
