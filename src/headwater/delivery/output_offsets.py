"""Finds the records that an interrupted batch has already written.

Before and while a query runs, the end offsets of its output topics are recorded next to its
checkpoint. When a batch has to be rerun, the output is read from offsets that were recorded
before that batch: records of the batch that are found there are not written again.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from pyspark.sql import SparkSession

from headwater.errors import CheckpointError, HeadwaterError
from headwater.kafka import end_offsets, find_topics, is_compacted, partition_states, read_topic
from headwater.model import Record
from headwater.model.header import encode, identity_of, origin_of
from headwater.model.local_files import write_durably
from headwater.model.topic_names import DEAD_LETTER_SUFFIX, LATE_SUFFIX
from headwater.settings import Settings
from headwater.storage.checkpoint import OUTPUT_OFFSETS_FILE, read_checkpoint, read_progress
from headwater.storage.query_identity import (
    DUPLICATES,
    RECREATED_OUTPUT,
    IdentityDifference,
    recent_records,
    refuse,
)

_LOG = logging.getLogger(__name__)

# End offsets by topic and partition, which is text as a JSON key.
Ends = dict[str, dict[str, int]]

_KEPT_SNAPSHOTS = 4
_SNAPSHOT_SECONDS = 1.0
# A local master has its number of attempts in its name: local[4,2] tries twice.
_LOCAL_MASTER = re.compile(r"local(\[[^\],]+(,\s*(?P<attempts>[^\]\s][^\]]*))?\])?")
_WRITES_TWICE = "a task that runs twice writes twice"


class Obstacle(NamedTuple):
    """A setting with which exactly-once delivery can't be guaranteed."""

    setting: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting}={self.value}: {self.why}"


def obstacle(master: str, speculation: str, checkpoint: Path | str) -> Obstacle | None:
    """What prevents exactly-once delivery with this master, `spark.speculation` and checkpoint."""
    local = _LOCAL_MASTER.fullmatch(master)
    if local is None:
        why = "tasks run on executors that outlive the driver or are retried"
        return Obstacle("spark.master", master, why)
    if (local["attempts"] or "1") != "1":
        return Obstacle("spark.task.maxFailures", local["attempts"], _WRITES_TWICE)
    if speculation.lower() == "true":
        return Obstacle("spark.speculation", "true", _WRITES_TWICE)
    if not isinstance(checkpoint, Path):
        why = "the output offsets are recorded next to it, in a local folder"
        return Obstacle("checkpoint", checkpoint, why)
    return None


def obstacle_in(spark: SparkSession, checkpoint: Path | str) -> Obstacle | None:
    """As `obstacle`, with the configuration of a session."""
    conf = spark.sparkContext.getConf()
    master, speculation = conf.get("spark.master", ""), conf.get("spark.speculation", "")
    return obstacle(master or "", speculation or "", checkpoint)


@dataclass(frozen=True)
class OffsetSnapshot:
    """End offsets of the output, taken before `before_batch` or any later batch started."""

    before_batch: int
    ends: Ends


@dataclass
class OutputState:
    """Stored next to the checkpoint: snapshots, the runs that wrote since the last commit, and
    Kafka's ids of the topics.

    The field names are those of the file.
    """

    runs: list[str] = field(default_factory=list)
    notes: list[OffsetSnapshot] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)


class OutputOffsets:
    """The output offsets of one checkpoint.

    Args:
        accept: what is not refused, see `query_identity.ACCEPTABLE`.
    """

    def __init__(
        self,
        checkpoint: Path,
        topics: Iterable[str],
        settings: Settings,
        accept: Collection[str] = (),
    ) -> None:
        self._checkpoint = checkpoint
        self._topics = sorted(topics)
        self._settings = settings
        self._accept = accept
        self._file = checkpoint / OUTPUT_OFFSETS_FILE
        self._state = _load(self._file)

    def begin_run(self, run_id: str) -> None:
        """Record a start. End offsets are recorded only if no batch has to be rerun: they would
        be after records of that batch.

        Raises:
            CheckpointError: a batch has to be rerun, and the runs that started it are unknown; or
                an output topic was recreated.
        """
        progress = read_progress(self._checkpoint)
        self._take_ids()
        if progress.cut_off is None:
            self._state.runs = [run_id]
            self._add(OffsetSnapshot(progress.committed + 1, self._ends()))
            return
        if not self._state.runs:
            raise CheckpointError(
                f"{self._file} is missing, and batch {progress.cut_off} was interrupted: its "
                "records can't be distinguished from those of other writers",
                hint="restore the file from a copy, or choose another --checkpoint and "
                "--starting-offsets",
                file=str(self._file),
            )
        self._state.runs = [*self._state.runs, run_id]
        self._save()

    def _take_ids(self) -> None:
        """Refuse a recreated output. The offsets of a recreated topic for dead letters or late
        records are dropped: such topics may be emptied."""
        found_topics = find_topics(self._topics, self._settings.kafka)
        ids = {name: topic.id for name, topic in found_topics.items()}
        before = self._state.ids
        recreated = {name for name, new in ids.items() if before.get(name, new) != new}
        for name in sorted(recreated):
            side_topic = name.endswith((DEAD_LETTER_SUFFIX, LATE_SUFFIX))
            if not side_topic and RECREATED_OUTPUT not in self._accept:
                found = IdentityDifference(RECREATED_OUTPUT, name, before[name], ids[name])
                raise refuse(found, self._checkpoint)
        self._state.ids = ids
        self._state.notes = [
            OffsetSnapshot(
                note.before_batch,
                {name: ends for name, ends in note.ends.items() if name not in recreated},
            )
            for note in self._state.notes
        ]

    def refuse_unknown_runs(self, job_name: str) -> None:
        """Refuse a checkpoint that is older than the output: a run of this job that it does not
        know has written after its last snapshot.

        Searches the last records of each partition; records of replays and of other inputs do not
        count.

        Raises:
            CheckpointError: names the record.
        """
        checkpoint = read_checkpoint(self._checkpoint)
        if DUPLICATES in self._accept or checkpoint is None or not self._state.notes:
            return
        runs, recorded = {*self._state.runs}, self._state.notes[-1].ends
        for topic in self._topics:
            for record, run_id in recent_records(
                topic,
                job_name,
                checkpoint.planned.__contains__,
                self._settings.kafka,
                after=recorded.get(topic),
                read_uncommitted=True,
            ):
                if run_id not in runs:
                    raise _older_checkpoint(self._checkpoint, record, run_id)

    def written_by(self, batch: int, stopped: Callable[[], bool] = lambda: False) -> set[str]:
        """Identities of the records of this batch that are in the output.

        A record whose parents are only known as ranges has none: it is never taken for another.

        Raises:
            CheckpointError: records that may be of this batch were deleted or compacted.
        """
        written: set[str] = set()
        start = self._start_of(batch)
        for topic in self._topics:
            for record in self._since(topic, start.get(topic), batch, stopped):
                origin = origin_of(record)
                if origin.batch_version != batch or origin.lineage is None:
                    continue
                # Other jobs, or this job with another checkpoint, may write to the topic as well.
                identity = identity_of(encode(origin.lineage))
                if identity is not None and origin.lineage.run_id in self._state.runs:
                    written.add(identity)
        return written

    def _since(
        self,
        topic: str,
        recorded: Mapping[str, int] | None,
        batch: int,
        stopped: Callable[[], bool],
    ) -> Iterator[Record]:
        """The records since the recorded offsets; all of a topic without recorded offsets."""
        kafka = self._settings.kafka
        begin, until = {}, {}
        for state in partition_states(topic, kafka):
            offset = (recorded or {}).get(str(state.partition), 0)
            if recorded is not None and offset < state.first:
                deleted = f"{topic}/{state.partition}@{offset} to @{state.first - 1}"
                self._missing(f"{deleted} were deleted from the output", batch)
            # An offset after the end shows that the broker lost records: all others are read.
            begin[state.partition] = max(offset if offset <= state.end else 0, state.first)
            until[state.partition] = state.end
        found = dict.fromkeys(begin, 0)
        records = read_topic(
            topic, kafka, start=begin, until=until, read_uncommitted=True, stopped=stopped
        )
        for record in records:
            found[record.address.partition] += 1
            yield record
        for partition, count in found.items():
            expected = until[partition] - begin[partition]
            if count < expected and not stopped() and is_compacted(topic, kafka):
                which = f"{topic}/{partition}@{begin[partition]} to @{until[partition] - 1}"
                self._missing(
                    f"compaction removed {expected - count} of the records {which}", batch
                )

    def _missing(self, what: str, batch: int) -> None:
        """Records that may be of the interrupted batch are not in the output any more."""
        if DUPLICATES in self._accept:
            _LOG.warning("accepted %s: batch %d was interrupted; %s", DUPLICATES, batch, what)
            return
        raise CheckpointError(
            f"{self._checkpoint}: batch {batch} was interrupted, and {what}: which of its records "
            "were written is not known",
            hint="choose another --checkpoint with --starting-offsets after the batch. To write "
            f"them again, on a compacted topic after newer values: --accept {DUPLICATES}, or "
            "LineageJob(accept=[…])",
            checkpoint=str(self._checkpoint),
            batch=batch,
        )

    def record_while_running(self) -> _OffsetRecorder:
        """Record the end offsets every second, so that a recovery has little to read."""
        return _OffsetRecorder(self)

    def snapshot(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Record the end offsets, unless a stop was requested while Kafka answered."""
        ends = self._ends()
        # Read after the end offsets: batch `committed + 2` had not started when those were taken.
        committed = read_progress(self._checkpoint).committed
        newest = self._state.notes[-1].before_batch if self._state.notes else -1
        if committed + 2 > newest and not stopped():
            self._add(OffsetSnapshot(committed + 2, ends))

    def _start_of(self, batch: int) -> Mapping[str, Mapping[str, int]]:
        usable = [each for each in self._state.notes if each.before_batch <= batch]
        return usable[-1].ends if usable else {}

    def _ends(self) -> Ends:
        return {
            topic: {str(p): end for p, end in end_offsets(topic, self._settings.kafka).items()}
            for topic in self._topics
        }

    def _add(self, snapshot: OffsetSnapshot) -> None:
        self._state.notes = [*self._state.notes, snapshot][-_KEPT_SNAPSHOTS:]
        self._save()

    def _save(self) -> None:
        write_durably(self._file, json.dumps(asdict(self._state)))


def _older_checkpoint(checkpoint: Path, record: Record, run_id: str | None) -> CheckpointError:
    return CheckpointError(
        f"{checkpoint} is older than the output: the run {run_id} of this job, which it does not "
        f"know, wrote {record.address}",
        hint="a copy of an earlier checkpoint, or two checkpoints for one output: use the newest. "
        f"To write these records again: --accept {DUPLICATES}, or LineageJob(accept=[…])",
        checkpoint=str(checkpoint),
        address=str(record.address),
    )


class _OffsetRecorder:
    def __init__(self, output: OutputOffsets) -> None:
        self._output = output
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="output-offsets", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(_SNAPSHOT_SECONDS):
            try:
                self._output.snapshot(self._stop.is_set)
            except (HeadwaterError, OSError):
                # An older snapshot is valid as well, there is only more to read.
                continue


def _load(file: Path) -> OutputState:
    try:
        content = json.loads(file.read_text())
        snapshots = [
            OffsetSnapshot(each["before_batch"], each["ends"]) for each in content["notes"]
        ]
        return OutputState(list(content["runs"]), snapshots, dict(content.get("ids", {})))
    except FileNotFoundError:
        return OutputState()
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file} is damaged: {error}",
            hint="restore it from a copy, or choose another --checkpoint and --starting-offsets",
            file=str(file),
        ) from None
