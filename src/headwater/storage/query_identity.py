"""How a query differs from the one that its checkpoint belongs to, and what a start refuses.

A checkpoint has offsets only. With those of another job, or of topics that were recreated, records
would be skipped or written twice without an error. So the identity of the query, which is stored in
the checkpoint, is compared at every start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import CheckpointError
from headwater.kafka import KafkaRuns, partition_states, read_topic
from headwater.model import Record
from headwater.model.foreign_headers import REPLAY_ID
from headwater.model.header import origin_of
from headwater.model.local_files import write_durably
from headwater.settings.kafka import KafkaSettings
from headwater.storage.checkpoint import NO_BATCH, QueryIdentity, read_progress

OTHER_CHECKPOINT = "other-checkpoint"
DUPLICATES = "duplicates"
RECREATED_INPUT = "recreated-input"
RECREATED_OUTPUT = "recreated-output"
# What a start refuses unless it is accepted by name, and the effect.
ACCEPTABLE: Mapping[str, str] = {
    OTHER_CHECKPOINT: "continue with the checkpoint of another job, input or output",
    DUPLICATES: "write records that the output has, or had, again",
    RECREATED_INPUT: "read a recreated topic from its beginning",
    RECREATED_OUTPUT: "continue with a recreated output, without the records before",
}
# The delivery modes that have to know how the first attempt of a batch was written.
ONCE_MODES = frozenset({"exactly-once", "transactional"})
# Of each output partition, this many of the last records are searched for records of the job.
_SEARCHED_RECORDS = 1000


@dataclass(frozen=True)
class IdentityDifference:
    """A difference between a checkpoint and the query that starts with it.

    Attributes:
        change: one of `ACCEPTABLE`.
        subject: what differs, such as `the job` or a topic.
    """

    change: str
    subject: str
    before: str
    after: str

    def as_json(self) -> dict[str, str]:
        return {
            "change": self.change,
            "subject": self.subject,
            "before": self.before,
            "after": self.after,
        }


def differences(
    stored: QueryIdentity, current: QueryIdentity, reads: Callable[[str], bool]
) -> Iterator[IdentityDifference]:
    """What the query has changed since the checkpoint was written.

    More inputs and outputs are not a difference: their first records are read and written.

    Args:
        reads: whether the query still reads a topic.
    """
    if stored.job != current.job:
        yield IdentityDifference(OTHER_CHECKPOINT, "the job", stored.job, current.job)
    if removed := [name for name in stored.outputs if name not in current.outputs]:
        yield IdentityDifference(
            OTHER_CHECKPOINT, "the output", _listed(removed), _listed(current.outputs) or "none"
        )
    if removed := [topic for topic in stored.inputs if not reads(topic)]:
        yield IdentityDifference(
            OTHER_CHECKPOINT, "the input", _listed(removed), _listed(current.inputs) or "none"
        )
    for change, before, after in (
        (RECREATED_INPUT, stored.inputs, current.inputs),
        (RECREATED_OUTPUT, stored.outputs, current.outputs),
    ):
        for topic, old in before.items():
            new = after.get(topic, "")
            if old and new and old != new:
                yield IdentityDifference(change, topic, old, new)


def refuse(difference: IdentityDifference, checkpoint: Path | str) -> CheckpointError:
    """The error for a difference that was not accepted."""
    subject, before, after = difference.subject, difference.before, difference.after
    accept = f"accept it with --accept {difference.change}, or LineageJob(accept=[…])"
    if difference.change == OTHER_CHECKPOINT:
        message = f"{checkpoint} belongs to {subject} {before}, not to {after}"
        hint = (
            "choose another --checkpoint. To continue where the other one stopped, without its "
            f"records: {accept}"
        )
    elif difference.change == RECREATED_INPUT:
        message = (
            f"{checkpoint} has offsets of the topic {subject!r} with the id {before}, but the id "
            f"in Kafka is {after}: the topic was recreated, or this is another cluster"
        )
        hint = f"to read the new topic from its beginning: {accept}"
    else:
        message = (
            f"{checkpoint} has written to the topic {subject!r} with the id {before}, but the id "
            f"in Kafka is {after}: the topic was recreated, or this is another cluster"
        )
        hint = (
            "to write all records again, choose another --checkpoint. To continue without those "
            f"before: {accept}"
        )
    return CheckpointError(message, hint=hint, checkpoint=str(checkpoint), **difference.as_json())


def refuse_other_mode(
    stored: QueryIdentity, current: QueryIdentity, cut_off: int | None, checkpoint: Path | str
) -> None:
    """Refuse another delivery mode while a batch is interrupted: each mode finds the records of
    the first attempt in its own way.

    Raises:
        CheckpointError: names both modes.
    """
    modes = {stored.delivery, current.delivery}
    if cut_off is None or len(modes) == 1 or None in modes or not modes & ONCE_MODES:
        return
    raise CheckpointError(
        f"{checkpoint}: batch {cut_off} was interrupted with --delivery {stored.delivery}, and "
        f"{current.delivery} can't find out which of its records are written",
        hint=f"start with --delivery {stored.delivery} --available-now to complete the batch, then "
        "change the mode",
        checkpoint=str(checkpoint),
    )


def reset_topics(checkpoint: Path, beginnings: Mapping[str, Mapping[int, int]]) -> None:
    """Let the query read topics from these offsets, as if they were new.

    An interrupted batch is completed without these topics.
    """
    progress = read_progress(checkpoint)
    batches = {progress.started, progress.committed} - {NO_BATCH}
    # Spark's files begin with a version; those of batches have a line of metadata, too.
    files = {checkpoint / "offsets" / str(batch): 2 for batch in sorted(batches)}
    files |= dict.fromkeys(sorted((checkpoint / "sources").glob("*/0")), 1)
    for file, first in files.items():
        lines = file.read_text().split("\n")
        lines[first:] = (_with_offsets(line, beginnings) for line in lines[first:])
        # Hadoop's checksum of the former content; without one, the content is not checked.
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        write_durably(file, "\n".join(lines))


def _with_offsets(line: str, beginnings: Mapping[str, Mapping[int, int]]) -> str:
    try:
        content = json.loads(line)
    except ValueError:
        return line
    if not isinstance(content, dict) or not content.keys() & beginnings.keys():
        return line
    for topic in content.keys() & beginnings.keys():
        content[topic] = {str(part): first for part, first in beginnings[topic].items()}
    return json.dumps(content, separators=(",", ":"))


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def recent_records(
    topic: str,
    job_name: str,
    reads: Callable[[str], bool],
    settings: KafkaSettings,
    *,
    after: Mapping[str, int] | None = None,
    read_uncommitted: bool = False,
) -> Iterator[tuple[Record, str | None]]:
    """The last records that a job made from its inputs, with the ids of their runs; no replays.

    Args:
        reads: whether a topic is an input of the job.
        after: offsets by partition, before which no records are read.
    """
    begins = {
        state.partition: max(
            state.first,
            state.end - _SEARCHED_RECORDS,
            (after or {}).get(str(state.partition), 0),
        )
        for state in partition_states(topic, settings)
        if state.records
    }
    if not begins:
        return
    runs = KafkaRuns(settings)
    for record in read_topic(topic, settings, start=begins, read_uncommitted=read_uncommitted):
        origin = origin_of(record, runs)
        if origin.job_name != job_name or origin.lineage is None:
            continue
        lineage = origin.lineage
        topics = {each.topic for each in lineage.parents} | {each.topic for each in lineage.ranges}
        own = any(map(reads, topics))
        if own and record.header(REPLAY_ID) is None:
            yield record, origin.lineage.run_id
