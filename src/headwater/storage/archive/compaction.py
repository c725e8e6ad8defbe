"""Small files of an archive, joined in the order of their offsets.

Files of one hour and one partition that follow upon each other become one, sorted by offset: an
offset then lies in one file, whose statistics rule out all others. Of a run of files only the
newest are joined, back to one that is larger than all behind it together, so that a record is
written again a few times and not with every compaction.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.errors import ArchiveError, DiskFullError, HeadwaterError
from headwater.model.progress import Progress, no_progress
from headwater.settings import Settings, fault_points
from headwater.storage.archive.commit import NewFile, check_protocol, commit_lock, replace_files
from headwater.storage.archive.contract import COLUMNS, OWN_FOLDER, PARTITIONED_BY, ROW_GROUP_ROWS
from headwater.storage.archive.files import ArchiveFile, milliseconds
from headwater.storage.archive.reader import Archive

# A new file takes in files up to so much together.
_LARGEST = 128 * 1024 * 1024
# Runs that are replaced in one commit: a kill costs the work of so many at most.
_RUNS_PER_COMMIT = 50
_STORED = tuple(name for name in COLUMNS if name not in PARTITIONED_BY)

# How far it has come: files joined, of how many.


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    files_before: int
    files_after: int
    joined: int
    # Runs that somebody else has replaced meanwhile.
    left_to_others: int


def runs_to_join(
    files: Iterable[ArchiveFile], small_bytes: int, *, everything: bool = False
) -> list[list[ArchiveFile]]:
    """Files of one hour and one partition that are to become one, in order of their offsets.

    Args:
        small_bytes: files of this size and above stay as they are.
        everything: also join what is not yet worth it.
    """
    known = [file for file in files if file.partition is not None]
    ordered = sorted(known, key=lambda file: (file.hour, file.partition, file.first))
    runs: list[list[ArchiveFile]] = []
    for _, group in itertools.groupby(ordered, key=lambda file: (file.hour, file.partition)):
        for is_small, files_in_turn in itertools.groupby(group, lambda f: f.size < small_bytes):
            run = list(files_in_turn)
            if is_small:
                runs += _cut(run if everything else _newest(run))
    return [run for run in runs if len(run) > 1]


def _newest(run: Sequence[ArchiveFile]) -> list[ArchiveFile]:
    """The files at the end of a run, back to one that is larger than all behind it."""
    chosen: list[ArchiveFile] = []
    size = 0
    for file in reversed(run):
        if chosen and file.size > 2 * size:
            break
        chosen.insert(0, file)
        size += file.size
    return chosen


def _cut(run: Sequence[ArchiveFile]) -> Iterator[list[ArchiveFile]]:
    part: list[ArchiveFile] = []
    for file in run:
        if part and sum(other.size for other in part) + file.size > _LARGEST:
            yield part
            part = []
        part.append(file)
    yield part


def is_due(archive: Archive, settings: Settings) -> bool:
    """Whether there are enough small files for a compaction on schedule."""
    runs = runs_to_join(archive.files, _small_bytes(settings))
    return sum(map(len, runs)) >= settings.archive.compact_at_files


def compact(
    archive: Archive,
    settings: Settings,
    *,
    everything: bool = False,
    progress: Progress = no_progress,
) -> Compacted:
    """Join small files; other processes may write to the archive and read from it meanwhile.

    Raises:
        ArchiveError: a file can't be read or written, or the table asks for more than is known
            here; what was committed before stays.
        DiskFullError: there is no space for the new files.
    """
    check_protocol(archive)
    try:
        return _compact(archive, settings, everything, progress)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _failed(archive, error) from error


def _compact(
    archive: Archive, settings: Settings, everything: bool, progress: Progress
) -> Compacted:
    archive.refresh()
    before = len(archive.files)
    runs = runs_to_join(archive.files, _small_bytes(settings), everything=everything)
    total = sum(map(len, runs))
    joined = left = 0
    for start in range(0, len(runs), _RUNS_PER_COMMIT):
        chosen = runs[start : start + _RUNS_PER_COMMIT]
        written = [_join(archive.path, run) for run in chosen]
        fault_points.reach("before_archive_compaction")
        removed = [file for run in chosen for file in run]
        if replace_files(archive, removed, written, lambda: int(time.time() * 1000)):
            joined += len(removed)
        else:
            left += len(chosen)
        progress(f"compacting {archive.topic}", min(joined, total), total)
    return Compacted(before, len(archive.files), joined, left)


def _failed(archive: Archive, error: Exception) -> HeadwaterError:
    what = f"{archive.path} could not be compacted: {error}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        hint = "make space and try again; nothing was changed"
        return DiskFullError(what, hint=hint, path=str(archive.path))
    hint = "`headwater archive status` shows whether records are missing"
    return ArchiveError(what, hint=hint, path=str(archive.path))


def vacuum(archive: Archive) -> int:
    """Remove files that no version of the last day needs; returns how many."""
    with commit_lock(archive.path):
        return archive.vacuum()


def _small_bytes(settings: Settings) -> int:
    return int(settings.archive.small_file_mb * 1024 * 1024)


def _join(table: Path, run: Sequence[ArchiveFile]) -> NewFile:
    """Write the rows of a run to a new file, which is complete when it has its name."""
    # The same files give the same name: a run that was cut off leaves nothing that piles up.
    digest = hashlib.sha256("\n".join(file.name for file in run).encode()).hexdigest()[:32]
    hour = "/".join(
        f"{name}={value}" for name, value in zip(PARTITIONED_BY, run[0].hour, strict=True)
    )
    name = f"{hour}/joined-{digest}.zstd.parquet"
    draft = table / OWN_FOLDER / f"{digest}.parquet"
    draft.parent.mkdir(exist_ok=True)
    try:
        times = _write(draft, run)
        os.replace(draft, table / name)
    finally:
        draft.unlink(missing_ok=True)
    return NewFile(name, run[0].hour, (table / name).stat().st_size, _statistics(run, times))


def _write(draft: Path, run: Sequence[ArchiveFile]) -> tuple[int, int]:
    """Copy file by file, so that one of them is in memory; returns the span of timestamps."""
    writer = None
    least, greatest = [], []
    try:
        for file in run:
            try:
                rows = file.read_all(_STORED).sort_by("offset").replace_schema_metadata()
            finally:
                file.close()
            if writer is None:
                writer = pq.ParquetWriter(
                    draft,
                    rows.schema,
                    compression="zstd",
                    use_dictionary=["topic"],
                    write_statistics=["partition", "offset", "timestamp"],
                )
            writer.write_table(rows.cast(writer.schema), row_group_size=ROW_GROUP_ROWS)
            span = pc.min_max(milliseconds(rows["timestamp"]))
            least.append(span["min"].as_py())
            greatest.append(span["max"].as_py())
    finally:
        if writer is not None:
            writer.close()
    with draft.open("rb+") as written:
        os.fsync(written.fileno())
    return min(least), max(greatest)


def _statistics(run: Sequence[ArchiveFile], times: tuple[int, int]) -> dict[str, Any]:
    least = {"partition": run[0].partition, "offset": run[0].first}
    greatest = {"partition": run[0].partition, "offset": max(file.last for file in run)}
    texts = [_text(time_ms) for time_ms in times]
    if None not in texts:
        least["timestamp"], greatest["timestamp"] = texts  # type: ignore[assignment]
    return {
        "numRecords": sum(file.rows for file in run),
        "minValues": least,
        "maxValues": greatest,
        "nullCount": dict.fromkeys(least, 0),
    }


def _text(time_ms: int) -> str | None:
    """As Delta writes it; None for years that Python does not know."""
    try:
        seconds, ms = divmod(time_ms, 1000)
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms:03}Z"
    except (ValueError, OverflowError, OSError):
        return None
