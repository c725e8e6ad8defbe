"""What a target has already of the inputs of a plan; read without Spark.

The index of edges tells where results lie, as far as it has read the target; behind that, and
without an index, the target itself is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.errors import LineageIndexError, TopicNotFoundError
from headwater.kafka import RecordReader, end_offsets, read_topic
from headwater.model import Address, Record
from headwater.model.header_codec import encode, identity_of
from headwater.model.headers import origin_of
from headwater.model.progress import Progress, no_progress
from headwater.model.topic_names import dead_letter_topic
from headwater.replay.plan import Plan
from headwater.replay.table_path import table_path
from headwater.settings import Settings
from headwater.storage.index.reader import LineageIndex
from headwater.storage.offset_ranges import OffsetRanges, clip
from headwater.storage.tables.reader import LineageTable
from headwater.storage.tables.registry import KnownTable


def count_results(plan: Plan, settings: Settings, progress: Progress = no_progress) -> int:
    """How many records or rows of the target were made from the plan's inputs."""
    inputs = {(plan.topic, partition): of for partition, of in plan.offsets.items()}
    if plan.into_table:
        path = table_path(plan.target)
        if not (path / "_delta_log").is_dir():
            return 0
        return LineageTable(KnownTable(str(path), str(path))).find(inputs, None).rows
    index, read_up_to = _index(plan.target, settings)
    total = 0
    for place, offsets in inputs.items() if index else ():
        for block in index.edges_from(place, offsets) if index else ():
            if block.place[0] == plan.target:
                _, first, last = clip(block.parent_first, block.parent_last, offsets)
                total += int((last - first + 1).sum())
    behind = _read(plan.target, read_up_to, settings, progress)
    return total + sum(1 for record in behind if _is_result(record, plan, plan.offsets))


def find_results(
    plan: Plan, inputs: Mapping[int, OffsetRanges], settings: Settings
) -> dict[str, Record]:
    """Of some inputs the newest results in a topic, by their identity; dead letters too."""
    found: dict[str, Record] = {}
    for topic in (plan.target, dead_letter_topic(plan.target)):
        for record in _results(topic, plan, inputs, settings):
            lineage = origin_of(record).lineage
            if lineage is not None:
                found[identity_of(encode(lineage))] = record
    return found


def _results(
    topic: str, plan: Plan, inputs: Mapping[int, OffsetRanges], settings: Settings
) -> Iterator[Record]:
    index, read_up_to = _index(topic, settings)
    if index is not None:
        addresses: set[Address] = set()
        for partition, offsets in inputs.items():
            for block in index.edges_from((plan.topic, partition), offsets):
                if block.place[0] == topic:
                    which, first, last = clip(block.parent_first, block.parent_last, offsets)
                    shift = (block.first - block.parent_first)[which]
                    children = OffsetRanges.union([(first + shift, last + shift)])
                    addresses |= {Address(*block.place, one) for one in children.offsets()}
        with RecordReader(settings.kafka) as reader:
            for address in sorted(addresses):
                record = reader.fetch(address)
                if isinstance(record, Record) and _is_result(record, plan, inputs):
                    yield record
    for record in _read(topic, read_up_to, settings, no_progress):
        if _is_result(record, plan, inputs):
            yield record


def _index(topic: str, settings: Settings) -> tuple[LineageIndex | None, dict[int, int]]:
    """The index, and up to where it has read a topic without a break."""
    try:
        index = LineageIndex.open(settings)
    except LineageIndexError:
        return None, {}
    known = {place: found for place, found in index.coverage().items() if place[0] == topic}
    whole = all(len(found.offsets.first) == 1 for found in known.values())
    if not known or not whole:
        return None, {}
    return index, {place[1]: found.end for place, found in known.items()}


def _read(
    topic: str, start: Mapping[int, int], settings: Settings, progress: Progress
) -> Iterator[Record]:
    try:
        ends = end_offsets(topic, settings.kafka)
    except TopicNotFoundError:
        return
    begin = {p: min(start.get(p, 0), end) for p, end in ends.items()}
    yield from read_topic(topic, settings.kafka, start=begin, until=ends, progress=progress)


def _is_result(record: Record, plan: Plan, inputs: Mapping[int, OffsetRanges]) -> bool:
    origin = origin_of(record)
    if origin.lineage is None or origin.job_name != plan.job_name:
        return False
    return any(
        parent.topic == plan.topic
        and parent.partition in inputs
        and inputs[parent.partition].meets(parent.offset, parent.offset)
        for parent in origin.lineage.parents
    )
