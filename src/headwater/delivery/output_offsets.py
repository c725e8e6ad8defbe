"""What a batch that was cut off has left in the output already.

Before and while a query runs, the ends of its output topics are noted beside its checkpoint.
When a batch has to be run again, the part of the output behind a note from before that batch
is read, and tells which of its records are there: those are not written again.
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
from headwater.model.header_codec import encode, identity_of
from headwater.model.headers import origin_of
from headwater.settings import Settings
from headwater.storage.checkpoint import TAIL_FILE, read_progress

# Ends by topic and partition; JSON has text keys only.
Ends = dict[str, dict[str, int]]

_KEPT = 4
_NOTE_EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class Note:
    """The ends of the output at a moment when no batch after `before_batch` had begun."""

    before_batch: int
    ends: Ends


@dataclass
class TailState:
    """Kept beside the checkpoint: notes, and the runs that wrote with it."""

    runs: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


class OutputOffsets:
    """The output of one checkpoint."""

    def __init__(self, checkpoint: Path, topics: Iterable[str], settings: Settings) -> None:
        self._checkpoint = checkpoint
        self._topics = sorted(topics)
        self._settings = settings
        self._file = checkpoint / TAIL_FILE
        self._state = _load(self._file)

    def begin_run(self, run_id: str) -> None:
        """Note a start. The ends are noted only if no batch is to be run again: that batch's
        own records lie before these ends already.

        Raises:
            CheckpointError: a batch is to be run again, and nothing tells which runs began it.
        """
        progress = read_progress(self._checkpoint)
        if progress.cut_off is None:
            self._state.runs = [run_id]
            self._add(Note(progress.committed + 1, self._ends()))
            return
        if not self._state.runs:
            raise CheckpointError(
                f"{self._file} is missing, and batch {progress.cut_off} was cut off: what it has "
                "written can't be told from what others have",
                hint="restore the file from a copy, or choose another --checkpoint and "
                "--starting-offsets",
                file=str(self._file),
            )
        self._state.runs = [*self._state.runs, run_id]
        self._save()

    def written_by(self, batch: int, stopped: Callable[[], bool] = lambda: False) -> set[str]:
        """Identities of the records of this batch that are in the output already."""
        found: set[str] = set()
        runs = set(self._state.runs)
        start = self._start_of(batch)
        for topic in self._topics:
            noted = start.get(topic, {})
            # An end beyond the topic's own is of a topic that was made anew since.
            begin = {
                partition: offset if (offset := noted.get(str(partition), 0)) <= end else 0
                for partition, end in end_offsets(topic, self._settings.kafka).items()
            }
            for record in read_topic(
                topic, self._settings.kafka, start=begin, read_uncommitted=True, stopped=stopped
            ):
                origin = origin_of(record)
                if origin.batch_version != batch or origin.lineage is None:
                    continue
                # Other jobs, or other checkpoints of this one, may write to this topic, too.
                if origin.lineage.run_id in runs:
                    found.add(identity_of(encode(origin.lineage)))
        return found

    def note_while_running(self) -> _OffsetRecorder:
        """Note the ends every second, so that a later look back is a short one."""
        return _OffsetRecorder(self)

    def snapshot(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Note the ends now; unless it is too late, because Kafka took its time to answer."""
        ends = self._ends()
        # Read after the ends: all batches up to the next but one had not begun when they were.
        committed = read_progress(self._checkpoint).committed
        newest = self._state.notes[-1].before_batch if self._state.notes else -1
        if committed + 2 > newest and not stopped():
            self._add(Note(committed + 2, ends))

    def _start_of(self, batch: int) -> Mapping[str, Mapping[str, int]]:
        usable = [note for note in self._state.notes if note.before_batch <= batch]
        return usable[-1].ends if usable else {}

    def _ends(self) -> Ends:
        return {
            topic: {str(p): end for p, end in end_offsets(topic, self._settings.kafka).items()}
            for topic in self._topics
        }

    def _add(self, note: Note) -> None:
        self._state.notes = [*self._state.notes, note][-_KEPT:]
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
    def __init__(self, tail: OutputOffsets) -> None:
        self._tail = tail
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail-notes", daemon=True)

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
        while not self._stop.wait(_NOTE_EVERY_SECONDS):
            try:
                self._tail.snapshot(self._stop.is_set)
            except (HeadwaterError, OSError):
                # An older note serves as well, only with more to read; the job goes on.
                continue


def _load(file: Path) -> TailState:
    try:
        content = json.loads(file.read_text())
        notes = [Note(note["before_batch"], note["ends"]) for note in content["notes"]]
        return TailState(list(content["runs"]), notes)
    except FileNotFoundError:
        return TailState()
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file} is damaged: {error}",
            hint="restore it from a copy, or choose another --checkpoint and --starting-offsets",
            file=str(file),
        ) from None
