"""Which rows were made from given records: the lineage column as numbers, no row by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.model import JobOutput, TopicPartition
from headwater.model.address import ADDRESS_PATTERN, MAX_OFFSET
from headwater.storage.offset_ranges import Numbers, OffsetRanges

Rows = NDArray[np.bool_]

# No address has this offset or partition.
_NONE = -1
_ADDRESS = f"^{ADDRESS_PATTERN}$"


def rows_made_from(lineage: pa.Table, parents: Mapping[TopicPartition, OffsetRanges]) -> Rows:
    """The rows of which a parent is among these records."""
    single = _among(lineage["topic"], lineage["partition"], lineage["offset"], parents)
    lists = lineage["parents"].combine_chunks()
    if lists.null_count == len(lists):
        return single
    address = pc.extract_regex(pc.list_flatten(lists), pattern=_ADDRESS)
    field = pc.struct_field
    listed = _among(
        field(address, "topic"),
        field(address, "partition").cast(pa.int64()),
        _offsets(field(address, "offset")),
        parents,
    )
    single[np.asarray(pc.list_parent_indices(lists))[listed]] = True
    return single


def rows_of_job(lineage: pa.Table, asked: JobOutput) -> Rows:
    """The rows that a job made."""
    wanted = pc.equal(lineage["job_name"], asked.job_name)
    if asked.job_version is not None:
        wanted = pc.and_(wanted, pc.equal(lineage["job_version"], asked.job_version))
    if asked.batches is not None:
        first, last = asked.batches
        batch = lineage["batch_version"]
        wanted = pc.and_(
            wanted, pc.and_(pc.greater_equal(batch, first), pc.less_equal(batch, last))
        )
    return np.asarray(pc.fill_null(wanted, False))


def _among(
    topics: pa.Array,
    partitions: pa.Array,
    offsets: pa.Array,
    parents: Mapping[TopicPartition, OffsetRanges],
) -> Rows:
    partition, offset = _numbers(partitions), _numbers(offsets)
    found = np.zeros(len(offset), dtype=np.bool_)
    of_topic: dict[str, Rows] = {}
    for (topic, number), among in parents.items():
        if topic not in of_topic:
            of_topic[topic] = np.asarray(pc.fill_null(pc.equal(topics, topic), False))
        rows = np.flatnonzero(of_topic[topic] & (partition == number))
        at = np.searchsorted(among.last, offset[rows], side="left")
        near = np.minimum(at, len(among.first) - 1)
        found[rows] |= (at < len(among.first)) & (among.first[near] <= offset[rows])
    return found


def _offsets(digits: pa.Array) -> pa.Array:
    """Up to 19 digits; numbers beyond Kafka's range match nothing."""
    offset = digits.cast(pa.uint64())
    in_range = pc.less_equal(offset, pa.scalar(MAX_OFFSET, pa.uint64()))
    return pc.if_else(in_range, offset, None).cast(pa.int64())


def _numbers(column: pa.Array) -> Numbers:
    return np.asarray(pc.fill_null(column, _NONE), dtype=np.int64)
