"""A Delta commit that replaces files by others with the same rows.

OPTIMIZE does not keep the order of offsets, or rewrites everything. A commit is a file of JSON
lines whose name is the next version; the process that creates the file has committed. This module
writes only the oldest part of Delta's protocol, and refuses tables that require more.

On a local disk, Spark checks whether the name is free and then renames: another process could
create the file in between. So commits on one machine take a lock. Without the lock, a lost race
costs a compaction, never a record: the replaced files simply stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headwater.errors import ArchiveError, UnavailableError
from headwater.model.local_files import locked
from headwater.storage.archive.contract import OWN_FOLDER, PARTITIONED_BY
from headwater.storage.archive.files import ArchiveFile, Hour
from headwater.storage.archive.reader import Archive

# A batch holds the lock while it writes.
_LOCK_SECONDS = 600.0
_ATTEMPTS = 20
# Of Delta's protocol; later features may require more of a commit than is written here.
_KNOWN_FEATURES = {"appendOnly", "invariants"}
_LAST_PLAIN_VERSION = 2


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


def check_protocol(archive: Archive) -> None:
    """Refuse a table that requires later features of Delta.

    Raises:
        ArchiveError: the table requires such a feature.
    """
    version, features = archive.protocol()
    unknown = sorted(features - _KNOWN_FEATURES)
    if unknown or (version > _LAST_PLAIN_VERSION and not features):
        raise ArchiveError(
            f"{archive.path} can't be compacted: it requires of writers "
            f"{', '.join(unknown) or f'version {version}'}",
            hint="another tool has upgraded the table; use OPTIMIZE of that tool",
            path=str(archive.path),
        )


def replace_files(
    archive: Archive,
    removed: Sequence[ArchiveFile],
    added: Sequence[NewFile],
    now_ms: Callable[[], int],
) -> bool:
    """Replace files by others in one commit, and refresh the archive.

    Returns:
        False if another process has replaced one of the files: nothing was committed.
    """
    names = {file.name for file in removed}
    for _ in range(_ATTEMPTS):
        with commit_lock(archive.path):
            archive.refresh()
            if not names <= {file.name for file in archive.files}:
                return False
            lines = _lines(archive.version, removed, added, now_ms())
            if _write(archive.path, archive.version + 1, lines):
                break
    else:
        raise UnavailableError(
            f"{archive.path}: no commit succeeded in {_ATTEMPTS} attempts, others came first",
            hint="try again when fewer processes write to the archive",
        )
    archive.refresh()
    return True


def _lines(
    version: int, removed: Sequence[ArchiveFile], added: Sequence[NewFile], now_ms: int
) -> str:
    info = {
        "timestamp": now_ms,
        "operation": "OPTIMIZE",
        "operationParameters": {"predicate": "[]"},
        "readVersion": version,
        "isolationLevel": "SnapshotIsolation",
        "isBlindAppend": False,
        "operationMetrics": {
            "numRemovedFiles": str(len(removed)),
            "numAddedFiles": str(len(added)),
        },
        "engineInfo": "Headwater",
    }
    # `dataChange` is false: streams that read the table skip the commit.
    removes = (
        {
            "path": file.name,
            "deletionTimestamp": now_ms,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": _values(file.hour),
            "size": file.size,
        }
        for file in removed
    )
    adds = (
        {
            "path": quote(file.name, safe="/="),
            "partitionValues": _values(file.hour),
            "size": file.size,
            "modificationTime": now_ms,
            "dataChange": False,
            "stats": json.dumps(file.statistics, separators=(",", ":")),
        }
        for file in added
    )
    actions = [
        {"commitInfo": info},
        *({"remove": remove} for remove in removes),
        *({"add": add} for add in adds),
    ]
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)


def _values(hour: Hour) -> dict[str, str]:
    return {name: str(value) for name, value in zip(PARTITIONED_BY, hour, strict=True)}


def _write(table: Path, version: int, lines: str) -> bool:
    """Create the file of a version; False if it exists."""
    draft = table / OWN_FOLDER / f"commit-{os.getpid()}"
    try:
        with draft.open("w") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        # Linking is atomic and never replaces another file.
        os.link(draft, table / "_delta_log" / f"{version:020}.json")
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
