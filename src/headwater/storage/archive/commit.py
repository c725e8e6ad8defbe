"""A Delta commit that replaces files by others with the same rows.

OPTIMIZE does not keep the order of offsets, or rewrites everything. So the files are written by
`compaction`, and `deltalake` commits them.

On a local disk, Spark checks whether the name of a commit is free and then renames: another process
could create the file in between. So commits on one machine take a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.errors import UnavailableError
from headwater.model.local_files import locked
from headwater.storage.archive.contract import OWN_FOLDER, PARTITIONED_BY
from headwater.storage.archive.files import ArchiveFile, Hour
from headwater.storage.archive.reader import Archive

# A batch holds the lock while it writes.
_LOCK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written and is not part of the table yet."""

    name: str
    hour: Hour
    size: int
    # As in the Delta log: number of rows, least and greatest values.
    statistics: dict[str, Any]


@contextmanager
def commit_lock(table: Path) -> Iterator[None]:
    """Keep other processes on this machine from committing while the body runs.

    Raises:
        UnavailableError: another process held the lock for too long.
    """

    def busy() -> UnavailableError:
        return UnavailableError(
            f"{table}: another process has been committing for {_LOCK_SECONDS:g} s",
            hint="look for a job that hangs; the lock is released when its process ends",
        )

    with locked(table / OWN_FOLDER / "commit.lock", busy, timeout_seconds=_LOCK_SECONDS):
        yield


def replace_files(
    archive: Archive,
    removed: Sequence[ArchiveFile],
    added: Sequence[NewFile],
    now_ms: Callable[[], int],
) -> bool:
    """Replace files by others in one commit, and refresh the archive.

    Returns:
        False if another process has replaced one of the files: nothing was committed.

    Raises:
        ArchiveError: the table requires a feature of Delta that `deltalake` does not support.
    """
    names = {file.name for file in removed}
    with commit_lock(archive.path):
        archive.refresh()
        if not names <= {file.name for file in archive.files}:
            return False
        archive.replace_files(
            [(file.name, file.size, _values(file.hour)) for file in removed],
            [(file.name, file.size, _values(file.hour), file.statistics) for file in added],
            now_ms(),
        )
    return True


def _values(hour: Hour) -> dict[str, str | None]:
    return {name: str(value) for name, value in zip(PARTITIONED_BY, hour, strict=True)}
