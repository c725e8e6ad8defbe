"""Spark's checkpoint of a query, read: how far it has come, and whether a batch was cut off.

Spark writes `offsets/N` before batch N and `commits/N` after it. When the newest offsets have
no commit, batch N was begun and will be run again, with exactly the same input.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.errors import CheckpointError
from headwater.model import from_epoch_ms

NO_BATCH = -1
# Where Headwater keeps, beside Spark's own files, the ends of a query's output topics.
TAIL_FILE = Path("headwater") / "tail.json"

# The next offset to read, by topic and partition.
Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The newest batch that was begun, and the newest that was committed."""

    begun: int
    committed: int

    @property
    def cut_off(self) -> int | None:
        """The batch that will be run again, if there is one."""
        return self.begun if self.begun > self.committed else None


def read_progress(checkpoint: Path) -> QueryProgress:
    """How far the query of this checkpoint has come; a missing folder is a new query.

    Raises:
        CheckpointError: the files contradict each other, so that Spark would not start, or
            would start at another place than one thinks.
    """
    begun, committed = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    if committed > begun:
        raise CheckpointError(
            f"{checkpoint}: batch {committed} is committed, but its offsets are not there; "
            f"the newest are of batch {begun}",
            hint="restore the folder `offsets` from a copy, or choose another --checkpoint "
            "and --starting-offsets",
            checkpoint=str(checkpoint),
        )
    if begun > committed + 1:
        raise CheckpointError(
            f"{checkpoint}: batch {begun} was begun, but {committed} is the newest commit",
            hint="restore the folder `commits` from a copy, or choose another --checkpoint "
            "and --starting-offsets",
            checkpoint=str(checkpoint),
        )
    for name in {begun, committed} - {NO_BATCH}:
        _check_offsets_file(checkpoint / "offsets" / str(name))
    return QueryProgress(begun, committed)


@dataclass(frozen=True)
class CheckpointState:
    """What a query has read of its Kafka topics, and where it writes.

    Offsets are the first that was not read. `started` is where it began, `committed` what is done
    with its output, `begun` what a batch that runs or was cut off goes up to. `outputs` is None
    if the query is not one of Headwater's, which note them.
    """

    checkpoint: Path
    batch: int
    started: Offsets
    committed: Offsets
    begun: Offsets
    outputs: frozenset[str] | None


def read_checkpoint(checkpoint: Path) -> CheckpointState | None:
    """Read offsets and outputs of a checkpoint; None if no batch was begun.

    Raises:
        CheckpointError: the files contradict each other, or are damaged.
    """
    progress = read_progress(checkpoint)
    if progress.begun == NO_BATCH:
        return None
    begun = read_offsets(checkpoint, progress.begun)
    committed: Offsets = {}
    if progress.committed != NO_BATCH:
        committed = read_offsets(checkpoint, progress.committed)
    started = read_started(checkpoint)
    return CheckpointState(
        checkpoint, progress.begun, started, committed, begun, _outputs(checkpoint)
    )


def read_started(checkpoint: Path) -> Offsets:
    """Where the query began to read, of all topics; none before it has begun.

    Raises:
        CheckpointError: a file can't be read.
    """
    sources = sorted((checkpoint / "sources").glob("*/0"))
    return started_offsets(_lines(file) for file in sources)


def started_offsets(files: Iterable[Sequence[str]]) -> Offsets:
    """The same, of the lines of each source's file."""
    # A version comes before the offsets.
    return _merged(line for lines in files for line in lines[1:])


def read_offsets(checkpoint: Path, batch: int) -> Offsets:
    """Up to where a batch reads, of all topics.

    Raises:
        CheckpointError: Spark has removed the file.
    """
    # A version and a line of metadata come before the sources.
    return _merged(_lines(checkpoint / "offsets" / str(batch))[2:])


def read_watermark(checkpoint: Path) -> datetime:
    """The watermark of the newest batch that was begun; 1970 before there is one.

    Raises:
        CheckpointError: the files contradict each other, or are damaged.
    """
    millis = 0
    newest = read_progress(checkpoint).begun
    if newest != NO_BATCH:
        file = checkpoint / "offsets" / str(newest)
        try:
            millis = int(json.loads(_lines(file)[1])["batchWatermarkMs"])
        except (ValueError, KeyError, TypeError, IndexError):
            raise CheckpointError(f"{file} has no watermark", file=str(file)) from None
    return from_epoch_ms(millis)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError as error:
        # Spark removes old files while it runs.
        raise CheckpointError(
            f"{file} can't be read: {error}", hint="ask again; a running job moves on"
        ) from None


def _merged(lines: Iterable[str]) -> Offsets:
    """Offsets of all sources; of a topic that is read twice, the lower ones."""
    merged: dict[str, dict[int, int]] = {}
    for line in lines:
        for topic, partitions in _offsets_of(line).items():
            known = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(known.get(partition, offset), offset)
    return merged


def _offsets_of(line: str) -> Offsets:
    """What Spark writes for a Kafka source; other sources have other lines."""
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in json.loads(line).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def _outputs(checkpoint: Path) -> frozenset[str] | None:
    try:
        content: Any = json.loads((checkpoint / TAIL_FILE).read_text())
        return frozenset(topic for note in content["notes"] for topic in note["ends"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _newest(folder: Path) -> int:
    if not folder.is_dir():
        return NO_BATCH
    return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=NO_BATCH)


def _check_offsets_file(path: Path) -> None:
    # A version line, a line of metadata, and a line for each source.
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    if len(lines) < 3 or lines[0] != "v1" or not lines[1].endswith("}"):
        raise CheckpointError(
            f"{path} is damaged: {len(lines)} lines, not a version, metadata and offsets",
            hint="restore it from a copy, or choose another --checkpoint and --starting-offsets",
            file=str(path),
        )
