"""Finds the records that an interrupted batch has already written.

Before and while a query runs, the end offsets of its output topics are recorded next to its
checkpoint. When a batch has to be rerun, the output is read from offsets that were recorded
before that batch: records of the batch that are found there are not written again.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from headwater.errors import CheckpointError, HeadwaterError
from headwater.kafka import end_offsets, read_topic
from headwater.model.header import encode, identity_of, origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import OUTPUT_OFFSETS_FILE, read_progress

# End offsets by topic and partition, which is text as a JSON key.
Ends = dict[str, dict[str, int]]

_KEPT_SNAPSHOTS = 4
_SNAPSHOT_SECONDS = 1.0


@dataclass(frozen=True)
class OffsetSnapshot:
    """End offsets of the output, taken before `before_batch` or any later batch started."""

    before_batch: int
    ends: Ends


@dataclass
class OutputState:
    """Stored next to the checkpoint: snapshots, and the runs that wrote since the last commit.

    The field names are those of the file.
    """

    runs: list[str] = field(default_factory=list)
    notes: list[OffsetSnapshot] = field(default_factory=list)


class OutputOffsets:
    """The output offsets of one checkpoint."""

    def __init__(self, checkpoint: Path, topics: Iterable[str], settings: Settings) -> None:
        self._checkpoint = checkpoint
        self._topics = sorted(topics)
        self._settings = settings
        self._file = checkpoint / OUTPUT_OFFSETS_FILE
        self._state = _load(self._file)

    def begin_run(self, run_id: str) -> None:
        """Record a start. End offsets are recorded only if no batch has to be rerun: they would
        be after records of that batch.

        Raises:
            CheckpointError: a batch has to be rerun, and the runs that started it are unknown.
        """
        progress = read_progress(self._checkpoint)
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

    def written_by(self, batch: int, stopped: Callable[[], bool] = lambda: False) -> set[str]:
        """Identities of the records of this batch that are in the output."""
        written: set[str] = set()
        runs = set(self._state.runs)
        start = self._start_of(batch)
        for topic in self._topics:
            recorded = start.get(topic, {})
            # An offset after the end of the topic shows that the topic was recreated since.
            begin = {
                partition: offset if (offset := recorded.get(str(partition), 0)) <= end else 0
                for partition, end in end_offsets(topic, self._settings.kafka).items()
            }
            for record in read_topic(
                topic, self._settings.kafka, start=begin, read_uncommitted=True, stopped=stopped
            ):
                origin = origin_of(record)
                if origin.batch_version != batch or origin.lineage is None:
                    continue
                # Other jobs, or this job with another checkpoint, may write to the topic as well.
                if origin.lineage.run_id in runs:
                    written.add(identity_of(encode(origin.lineage)))
        return written

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
        self._file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._file.with_suffix(".tmp")
        with unfinished.open("w") as file:
            json.dump(asdict(self._state), file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._file)


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
        return OutputState(list(content["runs"]), snapshots)
    except FileNotFoundError:
        return OutputState()
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file} is damaged: {error}",
            hint="restore it from a copy, or choose another --checkpoint and --starting-offsets",
            file=str(file),
        ) from None
