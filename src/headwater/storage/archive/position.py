"""Checks before a job starts that archive, checkpoint and topic match.

Otherwise the archive would have gaps: the topic was recreated, records have expired, or the archive
or the checkpoint is missing or an older copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.errors import ArchiveError, ArchiveGapError, CheckpointError
from headwater.kafka import TopicPartitionState
from headwater.storage.archive.reader import Archive
from headwater.storage.checkpoint import CheckpointState


def next_offsets(archive: Archive) -> dict[int, int]:
    """The first offset that is not archived, by partition."""
    return {partition: known.last + 1 for partition, known in archive.coverage().items()}


def refuse_recreated_topic(archive: Archive, topic_id: str) -> None:
    """Offsets of a recreated topic are those of other records.

    Raises:
        ArchiveError: the archive is of an earlier topic with this name.
    """
    if archive.topic_id != topic_id:
        raise ArchiveError(
            f"{archive.path} holds the topic {archive.topic!r} with the id {archive.topic_id}, "
            f"but the id in Kafka is {topic_id}: the topic was recreated, or this is another "
            "cluster",
            hint="archive the new topic with another --table and --checkpoint, or remove "
            f"{archive.path} and the job's checkpoint",
            topic=archive.topic,
        )


def refuse_gaps(
    topic: str, next_to_read: Mapping[int, int], states: Sequence[TopicPartitionState]
) -> None:
    """Records that the topic has deleted can't be archived any more.

    Args:
        next_to_read: the next offset of each partition.

    Raises:
        ArchiveGapError: with the offsets that are lost.
    """
    for state in states:
        offset = next_to_read.get(state.partition)
        if offset is None:
            continue
        if offset < state.first:
            raise ArchiveGapError(
                f"records {topic}/{state.partition}@{offset} to @{state.first - 1} are gone from "
                f"the topic and were not archived: {state.first - offset} offsets",
                hint="--allow-gaps continues after them; `headwater archive status` then shows the "
                "gap",
                topic=topic,
                partition=state.partition,
                first=offset,
                last=state.first - 1,
            )
        if offset > state.end:
            raise ArchiveError(
                f"{topic}/{state.partition} ends at {state.end}, but was archived up to {offset}",
                hint="the brokers have lost records; start a new archive with another --table",
                topic=topic,
                partition=state.partition,
            )


def refuse_other_checkpoint(
    checkpoint: CheckpointState, next_to_archive: Mapping[int, int], archive: Archive
) -> None:
    """Records that the checkpoint has committed must be archived: they are never read again.

    Raises:
        CheckpointError: the checkpoint has committed more than is archived.
    """
    started = checkpoint.started.get(archive.topic, {})
    for partition, offset in checkpoint.committed.get(archive.topic, {}).items():
        archived = next_to_archive.get(partition, started.get(partition, 0))
        if offset > archived:
            raise CheckpointError(
                f"{checkpoint.path} has read {archive.topic}/{partition} up to {offset}, but "
                f"the archive {archive.path} ends at {archived}",
                hint="remove the checkpoint, or choose another: without one the job continues at "
                "the end of the archive",
                checkpoint=str(checkpoint.path),
            )


def refuse_old_checkpoint(
    checkpoint: CheckpointState, archive: Archive, states: Sequence[TopicPartitionState]
) -> None:
    """The topic may no longer have the offsets at which an older copy of a checkpoint continues.

    Raises:
        CheckpointError: no record is lost, but Spark would fail.
    """
    next_to_read = checkpoint.committed.get(
        archive.topic, checkpoint.started.get(archive.topic, {})
    )
    for state in states:
        offset = next_to_read.get(state.partition, state.first)
        if offset < state.first:
            raise CheckpointError(
                f"{checkpoint.path} would read {archive.topic}/{state.partition} from {offset} "
                f"on, but the topic begins at {state.first}",
                hint="the archive has the records in between; remove the checkpoint, and the job "
                "continues at the end of the archive",
                checkpoint=str(checkpoint.path),
            )
