"""Reads the records of ranges: from the archive or, where that has none, from Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.errors import ArchiveGapError, InputError, TopicNotFoundError
from headwater.kafka import partition_states, read_topic, topic_id
from headwater.model import AddressRange, Record, TopicPartition
from headwater.settings import Settings
from headwater.storage.archive.contract import archive_path
from headwater.storage.archive.reader import Archive
from headwater.storage.offset_ranges import OffsetRanges


def read_ranges(
    ranges: Iterable[AddressRange], settings: Settings, max_records: int
) -> list[list[Record]]:
    """The records by topic and partition, in order; records in several ranges once.

    Raises:
        InputError: the ranges contain more than `max_records` offsets.
        ArchiveGapError: records are neither archived nor in Kafka.
    """
    wanted: dict[TopicPartition, OffsetRanges] = {}
    for each in ranges:
        partition, offsets = (each.topic, each.partition), OffsetRanges.of((each.first, each.last))
        wanted[partition] = wanted[partition] | offsets if partition in wanted else offsets
    number = sum(map(len, wanted.values()))
    if number > max_records:
        raise InputError(
            f"the ranges contain {number} offsets, more than {max_records}",
            hint="raise --limit, or HEADWATER_REPLAY__MAX_RESOLVED_RECORDS",
        )
    return [
        sorted(_read(partition, offsets, settings), key=lambda record: record.address)
        for partition, offsets in sorted(wanted.items())
    ]


def _read(partition: TopicPartition, wanted: OffsetRanges, settings: Settings) -> Iterator[Record]:
    topic, number = partition
    missing, archive = wanted, None
    if (archive_path(topic, settings) / "_delta_log").is_dir():
        archive = Archive.open(topic, settings)
        missing = archive.plan({number: wanted}).missing.get(number, OffsetRanges.of())
        yield from archive.read({number: wanted})
    if not missing:
        return
    first, last = missing.ranges()[0][0], missing.ranges()[-1][1]
    begin, end = _in_kafka(partition, archive, settings)
    if first < begin or last >= end:
        raise ArchiveGapError(
            f"{AddressRange(topic, number, first, last)} is neither archived nor in Kafka",
            hint=f"`headwater archive status {topic}` shows what is archived",
        )
    for record in read_topic(
        topic, settings.kafka, start={number: first}, until={number: last + 1}
    ):
        if missing & OffsetRanges.of((record.address.offset, record.address.offset)):
            yield record


def _in_kafka(
    partition: TopicPartition, archive: Archive | None, settings: Settings
) -> tuple[int, int]:
    """The first offset in Kafka, and the end; empty if there is no such topic."""
    topic, number = partition
    try:
        # The offsets of a recreated topic belong to other records.
        if archive is not None and topic_id(topic, settings.kafka) != archive.topic_id:
            return 0, 0
        for state in partition_states(topic, settings.kafka):
            if state.partition == number:
                return state.first, state.end
    except TopicNotFoundError:
        pass
    return 0, 0
