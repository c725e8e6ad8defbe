"""The rows of a streaming query with another source: the stream without some records, or a batch of
its records. Everything above the source, such as the user's functions, stays as it is."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.errors import InputError
from headwater.model import Address
from headwater.spark.session import own_class

# Options of a stream that do not apply to a batch of named offsets.
_STREAM_OPTIONS = frozenset(
    each.lower()
    for each in (
        *("subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets"),
        *("startingTimestamp", "startingOffsetsByTimestamp", "endingTimestamp"),
        *("startingOffsetsByTimestampStrategy", "endingOffsetsByTimestamp"),
        *("minPartitions", "maxRecordsPerPartition", "maxTriggerDelay"),
        *("maxOffsetsPerTrigger", "minOffsetsPerTrigger"),
    )
)

_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True, slots=True)
class OffsetSpan:
    """Offsets of a partition from `first` to before `end`."""

    topic: str
    partition: int
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def address(self) -> Address:
        """The address of the first offset."""
        return Address(self.topic, self.partition, self.first)

    def halves(self) -> tuple[OffsetSpan, OffsetSpan]:
        middle = (self.first + self.end) // 2
        return (
            OffsetSpan(self.topic, self.partition, self.first, middle),
            OffsetSpan(self.topic, self.partition, middle, self.end),
        )


def refuse_combined_rows(rows: DataFrame) -> None:
    """Refuse rows whose failed input records can't be isolated.

    Raises:
        InputError: names the operator, or the sources.
    """
    plan: Any = own_class("isolation.StreamPlan")
    java = rows._jdf  # noqa: SLF001
    sources, combining = list(plan.sources(java)), list(plan.combining(java))
    if combining:
        why = f"a row may depend on several records, by the operator {combining[0]}"
    elif sources != ["kafka"]:
        why = f"the rows have {len(sources)} streams ({', '.join(sources)})"
    else:
        return
    raise InputError(
        f"on_error='dead-letter' can't isolate a record that fails: {why}",
        hint="it needs rows of one stream of `read`, which may have several topics, without "
        "aggregates, joins of streams, deduplication, limits and state. Otherwise return the "
        "error in a column `error`; see the guide on own jobs",
    )


def without_records(rows: DataFrame, addresses: Iterable[Address]) -> DataFrame:
    """The streaming rows, made without the records at these addresses."""
    return _with(rows, "where", (~_is_any(addresses))._jc)  # noqa: SLF001


def made_from(rows: DataFrame, records: DataFrame) -> DataFrame:
    """The rows that the query makes from these records, as a batch DataFrame."""
    return _with(rows, "ofBatch", records._jdf)  # noqa: SLF001


def records_at(
    rows: DataFrame,
    spans: Sequence[OffsetSpan],
    *,
    without: Iterable[Address] = (),
    tasks: int | None = None,
) -> DataFrame:
    """The records of the stream in these spans, one for each partition, as a batch DataFrame.

    Args:
        without: addresses of records that are left out.
        tasks: into about how many tasks the spans are split. Default: one for each.
    """
    java: Any = rows._jdf  # noqa: SLF001
    source = dict(own_class("isolation.StreamPlan").options(java))
    options = {name: each for name, each in source.items() if name.lower() not in _STREAM_OPTIONS}
    assigned: dict[str, list[int]] = defaultdict(list)
    first: dict[str, dict[str, int]] = defaultdict(dict)
    end: dict[str, dict[str, int]] = defaultdict(dict)
    for span in spans:
        assigned[span.topic].append(span.partition)
        first[span.topic][str(span.partition)] = span.first
        end[span.topic][str(span.partition)] = span.end
    options |= {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(first),
        "endingOffsets": json.dumps(end),
    }
    if tasks is not None:
        options["minPartitions"] = str(tasks)
    records = rows.sparkSession.read.format("kafka").options(**options).load()
    excluded = list(without)
    return records.where(~_is_any(excluded)) if excluded else records


@contextmanager
def part_of_query(spark: SparkSession, query_id: str) -> Iterator[None]:
    """Spark jobs of the body are not reported as the application's own: they look like those of a
    micro-batch."""
    context = spark.sparkContext
    before = context.getLocalProperty(_QUERY_ID)
    context.setLocalProperty(_QUERY_ID, query_id)
    try:
        yield
    finally:
        context.setLocalProperty(_QUERY_ID, before)  # type: ignore[arg-type]  # None removes it


def _is_any(addresses: Iterable[Address]) -> Column:
    offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
    for each in addresses:
        offsets[each.topic, each.partition].append(each.offset)
    conditions = [
        (F.col("topic") == topic) & (F.col("partition") == partition) & F.col("offset").isin(some)
        for (topic, partition), some in offsets.items()
    ]
    return reduce(Column.__or__, conditions)


def _with(rows: DataFrame, method: str, argument: Any) -> DataFrame:
    plan: Any = own_class("isolation.StreamPlan")
    java = getattr(plan, method)(rows._jdf, argument)  # noqa: SLF001
    return DataFrame(java, rows.sparkSession)
