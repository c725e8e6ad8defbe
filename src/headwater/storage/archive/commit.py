"""A commit of Delta's log that replaces files by others with the same rows.

Delta's own ways to join files keep no order of offsets, or write everything again. A commit is a
file of JSON lines whose name is the next version; whoever makes that file has committed. Its
form is Delta's protocol, of which this module writes only the oldest part, and refuses tables that
ask for more.

Spark's commit on a local disk looks whether the name is free and then renames: in between,
another process could take it. So commits of one machine take turns. Where the lock does not
reach, a lost race costs a compaction, never a record: the replaced files simply stay.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headwater.errors import ArchiveError, UnavailableError
from headwater.storage.archive.contract import OWN_FOLDER, PARTITIONED_BY
from headwater.storage.archive.files import ArchiveFile, Hour
from headwater.storage.archive.reader import Archive

# A batch writes for as long as it holds the lock.
_LOCK_SECONDS = 600.0
_ATTEMPTS = 20
# Of Delta's protocol; what comes later may ask more of a commit than is written here.
_KNOWN_FEATURES = {"appendOnly", "invariants"}
_LAST_PLAIN_VERSION = 2


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written and is not part of the table yet."""

    name: str
    hour: Hour
    size: int
    # As Delta's log has it: rows, and least and greatest values.
    statistics: dict[str, Any]


@contextmanager
def commit_lock(table: Path) -> Iterator[None]:
    """Let no other process of this machine commit while the body runs.

    Raises:
        UnavailableError: another one held it for too long.
    """
    folder = table / OWN_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _LOCK_SECONDS
    with (folder / "commit.lock").open("a") as file:
        while not _locked(file.fileno()):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{table}: another process has been committing for {_LOCK_SECONDS:g} s",
                    hint="look for a job that hangs; the lock ends with its process",
                )
            time.sleep(0.02)
        yield


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def check_protocol(archive: Archive) -> None:
    """Refuse a table whose commits need more than is written here.

    Raises:
        ArchiveError: it asks for a feature of Delta that came later.
    """
    version, features = archive.protocol()
    unknown = sorted(features - _KNOWN_FEATURES)
    if unknown or (version > _LAST_PLAIN_VERSION and not features):
        raise ArchiveError(
            f"{archive.path} can't be compacted: it asks writers for "
            f"{', '.join(unknown) or f'version {version}'}",
            hint="Headwater's own tables do not; OPTIMIZE of the tool that changed it still works",
            path=str(archive.path),
        )


def replace_files(
    archive: Archive,
    removed: Sequence[ArchiveFile],
    added: Sequence[NewFile],
    now_ms: Callable[[], int],
) -> bool:
    """Put files in the place of others, in one commit; the archive is as of that version then.

    Returns:
        False if one of the files was replaced by somebody else: nothing was committed.
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
            f"{archive.path}: {_ATTEMPTS} commits of others came first",
            hint="try again when fewer write to the archive",
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
    # Nothing is new in it: who follows the table as a stream need not look.
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
    """Make the file of a version; False if it is there already."""
    draft = table / OWN_FOLDER / f"commit-{os.getpid()}"
    try:
        with draft.open("w") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        # A link is made whole or not at all, and never over another file.
        os.link(draft, table / "_delta_log" / f"{version:020}.json")
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
