"""The results of a plan's inputs that the target already has; read without Spark.

The lineage index locates results as far as it has read the target. After that offset, and
without an index, the target itself is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.errors import LineageIndexError, TopicNotFoundError
from headwater.kafka import KafkaRuns, RecordReader, end_offsets, read_topic
from headwater.model import Address, Record
from headwater.model.header import encode, identity_of, origin_of
from headwater.model.progress import Progress, no_progress
from headwater.model.run_record import RunLookup
from headwater.model.topic_names import dead_letter_topic
from headwater.replay.plan import Plan, table_path
from headwater.settings import Settings
from headwater.storage.index.reader import LineageIndex
from headwater.storage.offset_ranges import OffsetRanges, clip
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import KnownTable


def count_results(plan: Plan, settings: Settings, progress: Progress = no_progress) -> int:
    """How many records or rows of the target were made from the plan's inputs."""
    inputs = {(plan.topic, partition): ranges for partition, ranges in plan.offsets.items()}
    if plan.into_table:
        path = table_path(plan.target)
        if not (path / "_delta_log").is_dir():
            return 0
        return LineageTable(KnownTable(str(path), str(path))).find(inputs, None).rows
    index, read_up_to = _index(plan.target, settings)
    total = 0
    for partition, offsets in inputs.items() if index else ():
        for block in index.edges_from(partition, offsets) if index else ():
            if block.partition[0] == plan.target:
                _, first, last = clip(block.parent_first, block.parent_last, offsets)
                total += int((last - first + 1).sum())
    unindexed = _read(plan.target, read_up_to, settings, progress)
    runs = KafkaRuns(settings.kafka)
    return total + sum(1 for record in unindexed if _is_result(record, plan, plan.offsets, runs))


def find_results(
    plan: Plan, inputs: Mapping[int, OffsetRanges], settings: Settings
) -> dict[str, Record]:
    """The latest results of some inputs in a topic, by identity; dead letters included.

    Records that were made from ranges of inputs have no identity, and are left out.
    """
    results: dict[str, Record] = {}
    for topic in (plan.target, dead_letter_topic(plan.target)):
        for record in _results(topic, plan, inputs, settings):
            lineage = origin_of(record).lineage
            identity = identity_of(encode(lineage)) if lineage is not None else None
            if identity is not None:
                results[identity] = record
    return results


def _results(
    topic: str, plan: Plan, inputs: Mapping[int, OffsetRanges], settings: Settings
) -> Iterator[Record]:
    index, read_up_to = _index(topic, settings)
    runs = KafkaRuns(settings.kafka)
    if index is not None:
        addresses: set[Address] = set()
        for partition, offsets in inputs.items():
            for block in index.edges_from((plan.topic, partition), offsets):
                if block.partition[0] == topic:
                    which, first, last = clip(block.parent_first, block.parent_last, offsets)
                    shift = (block.first - block.parent_first)[which]
                    children = OffsetRanges.union([(first + shift, last + shift)])
                    addresses |= {
                        Address(*block.partition, offset) for offset in children.offsets()
                    }
        with RecordReader(settings.kafka) as reader:
            for address in sorted(addresses):
                record = reader.fetch(address)
                if isinstance(record, Record) and _is_result(record, plan, inputs, runs):
                    yield record
    for record in _read(topic, read_up_to, settings, no_progress):
        if _is_result(record, plan, inputs, runs):
            yield record


def _index(topic: str, settings: Settings) -> tuple[LineageIndex | None, dict[int, int]]:
    """The index, and the end of what it has read of each partition of a topic without a gap."""
    try:
        index = LineageIndex.open(settings)
    except LineageIndexError:
        return None, {}
    covered = {key[1]: each for key, each in index.coverage().items() if key[0] == topic}
    contiguous = all(len(each.offsets.first) == 1 for each in covered.values())
    if not covered or not contiguous:
        return None, {}
    return index, {partition: each.end for partition, each in covered.items()}


def _read(
    topic: str, start: Mapping[int, int], settings: Settings, progress: Progress
) -> Iterator[Record]:
    try:
        ends = end_offsets(topic, settings.kafka)
    except TopicNotFoundError:
        return
    begin = {p: min(start.get(p, 0), end) for p, end in ends.items()}
    yield from read_topic(topic, settings.kafka, start=begin, until=ends, progress=progress)


def _is_result(
    record: Record, plan: Plan, inputs: Mapping[int, OffsetRanges], runs: RunLookup
) -> bool:
    origin = origin_of(record, runs)
    if origin.lineage is None or origin.job_name != plan.job_name:
        return False
    return any(
        parent.topic == plan.topic
        and parent.partition in inputs
        and inputs[parent.partition].meets(parent.offset, parent.offset)
        for parent in origin.lineage.parents
    )
