"""The checkpoint of a streaming query: its progress, whether a batch was cut off, its holder, and
the identity of the query.

Spark writes `offsets/N` before batch N and `commits/N` after it. If the newest offsets have no
commit, batch N was started and will run again with the same input.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from headwater.errors import CheckpointError, CheckpointInUseError
from headwater.model import from_epoch_ms
from headwater.model.local_files import local_path, locked, state_folder, write_durably
from headwater.settings import Settings

NO_BATCH = -1
# Headwater's own file in the checkpoint: the end offsets of the query's output topics.
OUTPUT_OFFSETS_FILE = Path("headwater") / "tail.json"
# Whose the checkpoint is.
IDENTITY_FILE = Path("headwater") / "query.json"
_IDENTITY_VERSION = 1
_KEPT_ACCEPTED = 20

# The next offset to read, by topic and partition.
Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """The newest batch that was started, and the newest that was committed."""

    started: int
    committed: int

    @property
    def cut_off(self) -> int | None:
        """The batch that will run again, if there is one."""
        return self.started if self.started > self.committed else None


def checkpoint_location(job_name: str, given: Path | str | None, settings: Settings) -> Path | str:
    """The given checkpoint, an absolute path if it is local; by default one below the home.

    A text means the same as a path; a URI of another file system stays a text.
    """
    if not given:
        return state_folder(settings.home_dir, "checkpoints") / job_name
    local = given if isinstance(given, Path) else local_path(given)
    return str(given) if local is None else local.absolute()


@contextmanager
def held(checkpoint: Path) -> Iterator[None]:
    """Hold the checkpoint with a lock of the operating system, which ends with this process.

    Raises:
        CheckpointInUseError: another process holds it.
    """
    folder = checkpoint / "headwater"
    with locked(folder / "lease", lambda: _in_use(checkpoint, folder / "holder")):
        (folder / "holder").write_text(
            json.dumps({"host": socket.gethostname(), "pid": os.getpid()})
        )
        yield


def _in_use(checkpoint: Path, file: Path) -> CheckpointInUseError:
    try:
        holder = json.loads(file.read_text())
        process = f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        process = "another process"
    return CheckpointInUseError(
        f"{checkpoint} is in use by {process}",
        hint="stop it first, or choose another --checkpoint",
        checkpoint=str(checkpoint),
    )


def read_progress(checkpoint: Path) -> QueryProgress:
    """The progress of the query with this checkpoint; a missing folder is a new query.

    Raises:
        CheckpointError: the files contradict each other, so that Spark would fail to start, or
            would start at unexpected offsets.
    """
    started, committed = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    if committed > started:
        raise CheckpointError(
            f"{checkpoint}: batch {committed} is committed, but its offsets are missing; "
            f"the newest offsets are of batch {started}",
            hint="restore the folder `offsets` from a copy, or choose another --checkpoint "
            "and --starting-offsets",
            checkpoint=str(checkpoint),
        )
    if started > committed + 1:
        raise CheckpointError(
            f"{checkpoint}: batch {started} was started, but {committed} is the newest commit",
            hint="restore the folder `commits` from a copy, or choose another --checkpoint "
            "and --starting-offsets",
            checkpoint=str(checkpoint),
        )
    for batch in {started, committed} - {NO_BATCH}:
        _check_offsets_file(checkpoint / "offsets" / str(batch))
    return QueryProgress(started, committed)


def query_id(checkpoint: Path) -> str | None:
    """Spark's id of the query; None before its first start."""
    try:
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True)
class QueryIdentity:
    """What a query reads and writes.

    Attributes:
        delivery: the delivery mode; None for tables.
        inputs: Kafka's ids of the input topics, by name.
        outputs: Kafka's ids of the output topics, by name; the locations of tables without an id.
        accepted: differences that a start has accepted, the newest last.
    """

    job: str
    delivery: str | None
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    accepted: tuple[Mapping[str, str], ...] = field(default=(), compare=False)


def read_identity(checkpoint: Path) -> QueryIdentity | None:
    """The query that this checkpoint belongs to; None if it has no file, as of earlier versions.

    Raises:
        CheckpointError: the file is damaged, or of a later version.
    """
    file = checkpoint / IDENTITY_FILE
    try:
        content: Any = json.loads(file.read_text())
        if content["version"] != _IDENTITY_VERSION:
            raise CheckpointError(
                f"{file} has the format version {content['version']}, not {_IDENTITY_VERSION}",
                hint="a later version of Headwater wrote it: use that one",
                file=str(file),
            )
        return QueryIdentity(
            str(content["job"]),
            content["delivery"],
            dict(content["inputs"]),
            dict(content["outputs"]),
            tuple(content["accepted"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file} is damaged: {error}",
            hint="restore it from a copy; or remove it, and the checkpoint is not compared with "
            "the job at the next start",
            file=str(file),
        ) from None


def save_identity(checkpoint: Path, identity: QueryIdentity) -> None:
    """Store whose the checkpoint is."""
    content = {
        "version": _IDENTITY_VERSION,
        "job": identity.job,
        "delivery": identity.delivery,
        "inputs": dict(identity.inputs),
        "outputs": dict(identity.outputs),
        "accepted": list(identity.accepted[-_KEPT_ACCEPTED:]),
    }
    write_durably(checkpoint / IDENTITY_FILE, json.dumps(content, indent=2))


@dataclass(frozen=True)
class CheckpointState:
    """The offsets of a query in its Kafka topics, and its output topics.

    Offsets are the next to read. `started` is where the query started, `committed` the end of the
    last committed batch, `planned` the end of the last started batch. `outputs` is None for
    queries that Headwater does not run.
    """

    path: Path
    batch: int
    started: Offsets
    committed: Offsets
    planned: Offsets
    outputs: frozenset[str] | None


def read_checkpoint(checkpoint: Path) -> CheckpointState | None:
    """Read offsets and outputs of a checkpoint; None if no batch was started.

    Raises:
        CheckpointError: the files contradict each other, or are damaged.
    """
    progress = read_progress(checkpoint)
    if progress.started == NO_BATCH:
        return None
    planned = read_offsets(checkpoint, progress.started)
    committed: Offsets = {}
    if progress.committed != NO_BATCH:
        committed = read_offsets(checkpoint, progress.committed)
    started = read_started(checkpoint)
    return CheckpointState(
        checkpoint, progress.started, started, committed, planned, _outputs(checkpoint)
    )


def read_started(checkpoint: Path) -> Offsets:
    """The starting offsets of all topics; empty before the first batch.

    Raises:
        CheckpointError: a file can't be read.
    """
    sources = sorted((checkpoint / "sources").glob("*/0"))
    return started_offsets(_lines(file) for file in sources)


def started_offsets(files: Iterable[Sequence[str]]) -> Offsets:
    """The starting offsets in the lines of each source's file."""
    # The first line is a version.
    return _merged(line for lines in files for line in lines[1:])


def read_offsets(checkpoint: Path, batch: int) -> Offsets:
    """The end offsets of a batch, of all topics.

    Raises:
        CheckpointError: Spark has removed the file.
    """
    # The first two lines are a version and metadata.
    return _merged(_lines(checkpoint / "offsets" / str(batch))[2:])


def read_watermark(checkpoint: Path) -> datetime:
    """The watermark of the newest started batch; 1970 before the first.

    Raises:
        CheckpointError: the files contradict each other, or are damaged.
    """
    return _time_in_offsets(checkpoint, "batchWatermarkMs") or from_epoch_ms(0)


def read_batch_time(checkpoint: Path) -> datetime | None:
    """When the newest started batch began; None before the first.

    Raises:
        CheckpointError: the files contradict each other, or are damaged.
    """
    return _time_in_offsets(checkpoint, "batchTimestampMs")


def _time_in_offsets(checkpoint: Path, name: str) -> datetime | None:
    newest = read_progress(checkpoint).started
    if newest == NO_BATCH:
        return None
    file = checkpoint / "offsets" / str(newest)
    try:
        return from_epoch_ms(int(json.loads(_lines(file)[1])[name]))
    except (ValueError, KeyError, TypeError, IndexError):
        raise CheckpointError(f"{file} has no {name}", file=str(file)) from None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError as error:
        raise CheckpointError(
            f"{file} can't be read: {error}", hint="try again; a running job removes old files"
        ) from None


def _merged(lines: Iterable[str]) -> Offsets:
    """Offsets of all sources; the lower ones for a topic that is read twice."""
    merged: dict[str, dict[int, int]] = {}
    for line in lines:
        for topic, partitions in _offsets_of(line).items():
            known = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                known[partition] = min(known.get(partition, offset), offset)
    return merged


def _offsets_of(line: str) -> Offsets:
    """The offsets of a Kafka source; empty for the lines of other sources."""
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in json.loads(line).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def _outputs(checkpoint: Path) -> frozenset[str] | None:
    try:
        content: Any = json.loads((checkpoint / OUTPUT_OFFSETS_FILE).read_text())
        return frozenset(topic for note in content["notes"] for topic in note["ends"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _newest(folder: Path) -> int:
    if not folder.is_dir():
        return NO_BATCH
    return max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=NO_BATCH)


def _check_offsets_file(path: Path) -> None:
    # A version, metadata, and a line for each source.
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    if len(lines) < 3 or lines[0] != "v1" or not lines[1].endswith("}"):
        raise CheckpointError(
            f"{path} is damaged: expected a version, metadata and offsets, got {len(lines)} lines",
            hint="restore it from a copy, or choose another --checkpoint and --starting-offsets",
            file=str(path),
        )
