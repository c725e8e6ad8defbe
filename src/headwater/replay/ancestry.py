"""Records named by what came of them: the inputs of given outputs, or of all that a job made.

Reads Kafka and the index of edges; no Spark is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.errors import InputError, TopicNotFoundError
from headwater.kafka import RecordReader, end_offsets
from headwater.model import Address, JobOutput, TopicPartition
from headwater.settings import Settings
from headwater.storage.index.reader import LineageIndex
from headwater.storage.offset_ranges import OffsetRanges
from headwater.tracing import TraceNode, trace

# A pipeline has a few hops; a topic that feeds itself has no end.
_MAX_HOPS = 100


def inputs_of(
    outputs: Iterable[Address], topic: str, settings: Settings
) -> dict[int, OffsetRanges]:
    """The records of a topic that these were made from, over any number of hops, by partition.

    Raises:
        InputError: an output has no such ancestor, or does not name all of its parents.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    with RecordReader(settings.kafka) as reader:
        for output in outputs:
            root = trace(output, settings, reader=reader)
            ancestors = _ancestors(root, topic)
            if not ancestors:
                reason = root.reason or "its ancestry leads elsewhere"
                raise InputError(f"{output} was not made from topic {topic!r}: {reason}")
            for address in ancestors:
                found.setdefault(address.partition, []).append((address.offset, address.offset))
    return {partition: OffsetRanges.of(*pairs) for partition, pairs in found.items()}


def _ancestors(root: TraceNode, topic: str) -> set[Address]:
    found: set[Address] = set()
    seen: set[Address] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.address in seen:
            continue
        seen.add(node.address)
        if node.address.topic == topic and node is not root:
            found.add(node.address)
            continue
        if node.unlisted or node.truncated:
            raise InputError(
                f"{node.address} was made from more records than can be told",
                hint="choose the records with --offsets",
            )
        waiting.extend(node.parents)
    return found


def inputs_made_by(
    made_by: JobOutput, topic: str, settings: Settings, *, allow_gaps: bool = False
) -> dict[int, OffsetRanges]:
    """The records of a topic that all which a job made comes from, by partition.

    Raises:
        LineageIndexError: there is no index.
        InputError: the job made nothing that is known, or the index does not know all of it.
    """
    index = LineageIndex.open(settings)
    outputs: dict[TopicPartition, OffsetRanges] = {}
    for made in index.made_by(made_by.job_name, made_by.job_version, made_by.batches):
        _add(outputs, made.place, OffsetRanges.of((made.first, made.last)))
    if not outputs:
        raise InputError(
            f"the index knows nothing that {made_by} made",
            hint="`headwater run lineage_index_job --available-now` brings it up to date",
        )
    if not allow_gaps:
        _refuse_unknown(outputs, index, settings)
    found = _climb(outputs, topic, index)
    if not found:
        raise InputError(f"nothing that {made_by} made comes from topic {topic!r}")
    return found


def _climb(
    outputs: Mapping[TopicPartition, OffsetRanges], topic: str, index: LineageIndex
) -> dict[int, OffsetRanges]:
    found: dict[int, OffsetRanges] = {}
    seen: dict[TopicPartition, OffsetRanges] = dict(outputs)
    level = dict(outputs)
    for _ in range(_MAX_HOPS):
        above: dict[TopicPartition, OffsetRanges] = {}
        for place, offsets in index.parents_of(level).items():
            if place[0] == topic:
                found[place[1]] = found.get(place[1], offsets) | offsets
                continue
            new = offsets - seen[place] if place in seen else offsets
            if new:
                above[place] = new
                _add(seen, place, new)
        if not above:
            return found
        level = above
    raise InputError(f"topic {topic!r} is not reached within {_MAX_HOPS} hops")


def _add(
    known: dict[TopicPartition, OffsetRanges], place: TopicPartition, more: OffsetRanges
) -> None:
    known[place] = known[place] | more if place in known else more


def _refuse_unknown(
    outputs: Mapping[TopicPartition, OffsetRanges], index: LineageIndex, settings: Settings
) -> None:
    """Refuse where the index may lack some of the job's records, or of their parents."""
    coverage = index.coverage()
    for topic in sorted({place[0] for place in outputs}):
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
                    hint="`headwater run lineage_index_job --available-now` brings it up to date; "
                    "--allow-gaps goes on without",
                )
            if known is not None and known.unlisted:
                raise InputError(
                    f"records of {topic}/{partition} have {known.unlisted} parents that the index "
                    "does not list",
                    hint="choose the records with --offsets, or go on with --allow-gaps",
                )
