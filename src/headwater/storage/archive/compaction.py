"""Joins small files of an archive in the order of their offsets.

Consecutive files of one hour and one partition become one, sorted by offset: an offset is then in
one file, and statistics exclude all others. Only the newest files of a run are joined, back to one
that is larger than all after it together, so that a record is rewritten a few times and not in
every compaction.
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
from headwater.storage.archive.commit import NewFile, commit_lock, replace_files
from headwater.storage.archive.contract import COLUMNS, OWN_FOLDER, PARTITIONED_BY, ROW_GROUP_ROWS
from headwater.storage.archive.files import ArchiveFile, milliseconds
from headwater.storage.archive.reader import Archive

# Maximum total size of the files that are joined into one.
_MAX_BYTES = 128 * 1024 * 1024
# Runs that are replaced in one commit: a kill costs the work of at most this many.
_RUNS_PER_COMMIT = 50
_STORED = tuple(name for name in COLUMNS if name not in PARTITIONED_BY)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    files_before: int
    files_after: int
    joined: int
    # Runs that another process has replaced meanwhile.
    left_to_others: int


def runs_to_join(
    files: Iterable[ArchiveFile], small_bytes: int, *, everything: bool = False
) -> list[list[ArchiveFile]]:
    """Runs of files of one hour and one partition to join, in order of their offsets.

    Args:
        small_bytes: files of this size and above stay as they are.
        everything: also join runs that are not due yet.
    """
    known = [file for file in files if file.partition is not None]
    ordered = sorted(known, key=lambda file: (file.hour, file.partition, file.first))
    runs: list[list[ArchiveFile]] = []
    for _, group in itertools.groupby(ordered, key=lambda file: (file.hour, file.partition)):
        for is_small, consecutive in itertools.groupby(group, lambda f: f.size < small_bytes):
            run = list(consecutive)
            if is_small:
                runs += _cut(run if everything else _newest(run))
    return [run for run in runs if len(run) > 1]


def _newest(run: Sequence[ArchiveFile]) -> list[ArchiveFile]:
    """The files at the end of a run, back to one that is larger than all after it."""
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
        if part and sum(other.size for other in part) + file.size > _MAX_BYTES:
            yield part
            part = []
        part.append(file)
    yield part


def is_due(archive: Archive, settings: Settings) -> bool:
    """Whether there are enough small files for a scheduled compaction."""
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
        ArchiveError: a file can't be read or written, or the table requires an unknown feature;
            earlier commits stay.
        DiskFullError: there is no space for the new files.
    """
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
    joined = skipped = 0
    for start in range(0, len(runs), _RUNS_PER_COMMIT):
        chosen = runs[start : start + _RUNS_PER_COMMIT]
        written = [_join(archive.path, run) for run in chosen]
        fault_points.reach("before_archive_compaction")
        removed = [file for run in chosen for file in run]
        if replace_files(archive, removed, written, lambda: int(time.time() * 1000)):
            joined += len(removed)
        else:
            skipped += len(chosen)
        progress(f"compacting {archive.topic}", min(joined, total), total)
    return Compacted(before, len(archive.files), joined, skipped)


def _failed(archive: Archive, error: Exception) -> HeadwaterError:
    what = f"{archive.path} could not be compacted: {error}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        hint = "free some space and try again; nothing was changed"
        return DiskFullError(what, hint=hint, path=str(archive.path))
    hint = "`headwater archive status` shows whether records are missing"
    return ArchiveError(what, hint=hint, path=str(archive.path))


def vacuum(archive: Archive) -> int:
    """Remove files that no version of the last day needs; returns their number."""
    with commit_lock(archive.path):
        return archive.vacuum()


def _small_bytes(settings: Settings) -> int:
    return int(settings.archive.small_file_mb * 1024 * 1024)


def _join(table: Path, run: Sequence[ArchiveFile]) -> NewFile:
    """Write the rows of a run to a new file, which is complete once it has its final name."""
    # The same files give the same name, so interrupted runs do not accumulate files.
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
    """Copy one file after the other, to limit memory; returns the range of timestamps."""
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
            extent = pc.min_max(milliseconds(rows["timestamp"]))
            least.append(extent["min"].as_py())
            greatest.append(extent["max"].as_py())
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
    """In Delta's format; None for years that Python does not support."""
    try:
        seconds, ms = divmod(time_ms, 1000)
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ms:03}Z"
    except (ValueError, OverflowError, OSError):
        return None
