"""What tells the outputs of a replay apart: Spark columns for it, and what is there already."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.model.headers import JOB_NAME, LINEAGE
from headwater.replay.digest_columns import record_hash
from headwater.storage.offset_ranges import OffsetRanges

IDENTITY, CONTENT = "_identity", "_content"
_PARTITION, _OFFSET = "_partition", "_offset"
# `1 RUN PARENTS…`, without what follows ` >`: see `rowlineage.codec.identity_of`.
_IDENTITY_IN_HEADER = r"^1 \S+ (.*?)(?: >.*)?$"
_RUN_IN_HEADER = r"^1 (\S+) "
# One parent, with the place among the outputs of that parent or without.
_SINGLE = r"^([^,]+)/(\d+)@(\d+)(?: #\d+)?$"


def header_text(name: str) -> Column:
    """The first header of that name, as text."""
    found = F.filter("headers", lambda header: header["key"] == name)
    return F.try_element_at(found, F.lit(1))["value"].cast("string")


def in_topic(records: DataFrame, job_name: str, run_id: str) -> DataFrame:
    """Identity and content of what a job wrote to a topic, but for one of its runs."""
    lineage = header_text(LINEAGE)
    identity = F.regexp_extract(lineage, _IDENTITY_IN_HEADER, 1)
    return records.where(
        (header_text(JOB_NAME) == job_name)
        & (F.regexp_extract(lineage, _RUN_IN_HEADER, 1) != run_id)
    ).select(
        identity.alias(IDENTITY),
        record_hash(identity, F.col("key"), F.col("value")).alias(CONTENT),
    )


def from_inputs(existing: DataFrame, topic: str, offsets: Mapping[int, OffsetRanges]) -> DataFrame:
    """Those that may be made again from these inputs; of several parents, all."""
    identity = F.col(IDENTITY)
    single = identity.rlike(_SINGLE)

    def part(number: int) -> Column:
        return F.regexp_extract(identity, _SINGLE, number)

    partition, offset = part(2).try_cast("int"), part(3).try_cast("bigint")
    near = reduce(
        Column.__or__,
        (
            (partition == number) & offset.between(int(of.first[0]), int(of.last[-1]))
            for number, of in offsets.items()
        ),
    )
    return existing.where(~single | ((part(1) == topic) & near))


def without(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """Rows without those that are there with the same content; their order stays."""
    there = F.broadcast(existing.select(IDENTITY, CONTENT).distinct())
    return rows.join(there, [IDENTITY, CONTENT], "left_anti")
