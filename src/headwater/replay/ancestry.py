"""Selects input records by their outputs: the ancestors of given records or of a job's output.

Reads Kafka and the lineage index, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.errors import InputError, TopicNotFoundError
from headwater.kafka import RecordReader, end_offsets
from headwater.model import Address, AddressRange, JobOutput, TopicPartition
from headwater.settings import Settings
from headwater.storage.index.reader import LineageIndex
from headwater.storage.offset_ranges import OffsetRanges
from headwater.tracing import TraceNode, trace

# A pipeline has a few hops; a topic that feeds itself would be followed without end.
_MAX_HOPS = 100


def inputs_of(
    outputs: Iterable[Address], topic: str, settings: Settings, *, allow_ranges: bool = False
) -> dict[int, OffsetRanges]:
    """The ancestors of these records in a topic, over any number of hops, by partition.

    Args:
        allow_ranges: select complete ranges of the topic that contain ancestors.

    Raises:
        InputError: an output has no ancestor in the topic, does not list all its parents, or names
            ranges that are not allowed or in another topic.
    """
    pairs: dict[int, list[tuple[int, int]]] = {}
    with RecordReader(settings.kafka) as reader:
        for output in outputs:
            root = trace(output, settings, reader=reader)
            ancestors, ranges = _ancestors(root, topic, allow_ranges)
            if not ancestors and not ranges:
                reason = root.reason or "its ancestors are in other topics"
                raise InputError(f"{output} was not made from topic {topic!r}: {reason}")
            for address in ancestors:
                pairs.setdefault(address.partition, []).append((address.offset, address.offset))
            for within in ranges:
                pairs.setdefault(within.partition, []).append((within.first, within.last))
    return {partition: OffsetRanges.of(*ranges) for partition, ranges in pairs.items()}


def _ancestors(
    root: TraceNode, topic: str, allow_ranges: bool
) -> tuple[set[Address], set[AddressRange]]:
    ancestors: set[Address] = set()
    ranges: set[AddressRange] = set()
    seen: set[Address] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if node.address in seen:
            continue
        seen.add(node.address)
        if node.address.topic == topic and node is not root:
            ancestors.add(node.address)
            continue
        if node.unlisted or node.truncated or node.more_parents:
            more = "may have" if node.more_parents else "has"
            raise InputError(
                f"{node.address} {more} more parents than its lineage header lists",
                hint="select the records with --offsets",
            )
        for within in node.ranges:
            _refuse_range(str(node.address), str(within), within.topic == topic, allow_ranges)
            ranges.add(within)
        pending.extend(node.parents)
    return ancestors, ranges


def _refuse_range(record: str, within: str, in_topic: bool, allow_ranges: bool) -> None:
    """Refuse a range whose records need not all be inputs, or that would have to be followed."""
    if allow_ranges and in_topic:
        return
    hint = "select the records with --offsets"
    if in_topic:
        hint = f"--allow-ranges replays all records of the ranges; or {hint}"
    raise InputError(
        f"which records {record} was made from is not known: they are within {within}", hint=hint
    )


def inputs_made_by(
    made_by: JobOutput,
    topic: str,
    settings: Settings,
    *,
    allow_gaps: bool = False,
    allow_ranges: bool = False,
) -> dict[int, OffsetRanges]:
    """The ancestors in a topic of everything that a job made, by partition.

    Args:
        allow_ranges: select complete ranges that contain ancestors.

    Raises:
        LineageIndexError: there is no index.
        InputError: the index has no output of the job, or is incomplete, or has ranges that are not
            allowed.
    """
    index = LineageIndex.open(settings)
    outputs: dict[TopicPartition, OffsetRanges] = {}
    for made in index.made_by(made_by.job_name, made_by.job_version, made_by.batches):
        _add(outputs, made.partition, OffsetRanges.of((made.first, made.last)))
    if not outputs:
        raise InputError(
            f"the index has no output of {made_by}",
            hint="`headwater run lineage_index_job --available-now` updates it",
        )
    if not allow_gaps:
        _refuse_incomplete_index(outputs, index, settings)
    inputs = _climb(outputs, topic, index, allow_ranges)
    if not inputs:
        raise InputError(f"no output of {made_by} was made from topic {topic!r}")
    return inputs


def _climb(
    outputs: Mapping[TopicPartition, OffsetRanges],
    topic: str,
    index: LineageIndex,
    allow_ranges: bool,
) -> dict[int, OffsetRanges]:
    inputs: dict[int, OffsetRanges] = {}
    seen: dict[TopicPartition, OffsetRanges] = dict(outputs)
    level = dict(outputs)
    for _ in range(_MAX_HOPS):
        next_level: dict[TopicPartition, OffsetRanges] = {}
        parents, within = index.parents_of(level), index.ranges_of(level)
        for partition, offsets in within.items():
            (first, last), *_ = offsets.ranges()
            example = f"{partition[0]}/{partition[1]}@{first}..{last}"
            # The index follows ranges as fast as single records, also over several hops.
            _refuse_range("the output", example, True, allow_ranges)
            _add(parents, partition, offsets)
        for partition, offsets in parents.items():
            if partition[0] == topic:
                inputs[partition[1]] = inputs.get(partition[1], offsets) | offsets
                continue
            new = offsets - seen[partition] if partition in seen else offsets
            if new:
                next_level[partition] = new
                _add(seen, partition, new)
        if not next_level:
            return inputs
        level = next_level
    raise InputError(f"topic {topic!r} is not reached within {_MAX_HOPS} hops")


def _add(
    known: dict[TopicPartition, OffsetRanges], partition: TopicPartition, more: OffsetRanges
) -> None:
    known[partition] = known[partition] | more if partition in known else more


def _refuse_incomplete_index(
    outputs: Mapping[TopicPartition, OffsetRanges], index: LineageIndex, settings: Settings
) -> None:
    """Refuse if the index may lack some of the job's records, or some of their parents."""
    coverage = index.coverage()
    for topic in sorted({partition[0] for partition in outputs}):
        try:
            ends = end_offsets(topic, settings.kafka)
        except TopicNotFoundError:
            continue
        for partition, end in ends.items():
            known = coverage.get((topic, partition))
            if end and (known is None or known.end < end):
                raise InputError(
                    f"the index has read {topic}/{partition} up to "
                    f"{known.end if known else 0} of {end}",
                    hint="`headwater run lineage_index_job --available-now` updates it; "
                    "--allow-gaps continues without",
                )
            if known is not None and known.unlisted:
                raise InputError(
                    f"records of {topic}/{partition} have {known.unlisted} parents that the index "
                    "does not list",
                    hint="select the records with --offsets, or continue with --allow-gaps",
                )
