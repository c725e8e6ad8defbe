"""How archive, checkpoint and topic stand to each other, before a job goes on.

An archive holds a topic without gaps only if the three belong together. What does not is told
before anything is read: a topic that was made anew, records that are gone, an archive or a
checkpoint that is missing or a copy of another day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.errors import ArchiveError, ArchiveGapError, CheckpointError
from headwater.kafka import TopicPartitionState
from headwater.storage.archive.reader import Archive
from headwater.storage.checkpoint import CheckpointState

_ANEW = (
    "remove {path} and the job's checkpoint to archive the new topic, or give it another --table"
)


def next_offsets(archive: Archive) -> dict[int, int]:
    """The first offset behind all that is archived, by partition."""
    return {partition: there.last + 1 for partition, there in archive.coverage().items()}


def refuse_topic_made_anew(archive: Archive, topic_id: str) -> None:
    """Offsets of a topic that was deleted and made anew mean other records.

    Raises:
        ArchiveError: the archive is of the topic that had this name before.
    """
    if archive.topic_id != topic_id:
        raise ArchiveError(
            f"{archive.path} holds the topic {archive.topic!r} with the id {archive.topic_id}, "
            f"and Kafka has one with the id {topic_id}: it was made anew, or this is another "
            "cluster",
            hint="archive the new topic with another --table and --checkpoint, or remove "
            f"{archive.path} and the job's checkpoint",
            topic=archive.topic,
        )


def refuse_gaps(
    topic: str, behind: Mapping[int, int], states: Sequence[TopicPartitionState]
) -> None:
    """Records that the topic has dropped can't be archived any more.

    Args:
        behind: where each partition was left.

    Raises:
        ArchiveGapError: naming the offsets that are lost.
    """
    for state in states:
        offset = behind.get(state.partition)
        if offset is None:
            continue
        if offset < state.first:
            raise ArchiveGapError(
                f"records {topic}/{state.partition}@{offset} to @{state.first - 1} are gone from "
                f"the topic, and were not archived: {state.first - offset} offsets",
                hint="--allow-gaps goes on behind them; `headwater archive status` shows the gap "
                "from then on",
                topic=topic,
                partition=state.partition,
                first=offset,
                last=state.first - 1,
            )
        if offset > state.end:
            raise ArchiveError(
                f"{topic}/{state.partition} ends at {state.end}, before {offset}, up to which it "
                "was archived",
                hint="the brokers have lost records; a new archive with another --table begins "
                "with what is there",
                topic=topic,
                partition=state.partition,
            )


def refuse_other_checkpoint(
    reading: CheckpointState, behind: Mapping[int, int], archive: Archive
) -> None:
    """What the checkpoint has behind it must be in the archive, or it would never be.

    Raises:
        CheckpointError: it has read further than the archive goes.
    """
    started = reading.started.get(archive.topic, {})
    for partition, offset in reading.committed.get(archive.topic, {}).items():
        archived = behind.get(partition, started.get(partition, 0))
        if offset > archived:
            raise CheckpointError(
                f"{reading.checkpoint} has read {archive.topic}/{partition} up to {offset}, but "
                f"the archive {archive.path} ends at {archived}",
                hint="remove the checkpoint, or choose another: without one the job goes on where "
                "the archive ends",
                checkpoint=str(reading.checkpoint),
            )


def refuse_old_checkpoint(
    reading: CheckpointState, archive: Archive, states: Sequence[TopicPartitionState]
) -> None:
    """Where an older copy of a checkpoint would begin, the topic may have nothing any more.

    Raises:
        CheckpointError: nothing is lost, but Spark would fail for it.
    """
    next_to_read = reading.committed.get(archive.topic, reading.started.get(archive.topic, {}))
    for state in states:
        offset = next_to_read.get(state.partition, state.first)
        if offset < state.first:
            raise CheckpointError(
                f"{reading.checkpoint} would read {archive.topic}/{state.partition} from {offset} "
                f"on, and the topic begins at {state.first}",
                hint="the archive has what lies between; remove the checkpoint, and the job goes "
                "on where the archive ends",
                checkpoint=str(reading.checkpoint),
            )
