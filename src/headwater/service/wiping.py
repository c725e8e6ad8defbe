"""What `down --wipe` deletes: the state that Headwater has written to a home, and nothing else.

A folder is deleted if Headwater marked it when it made it. Homes of earlier versions have no marks:
there, a folder is deleted only if everything in it looks as Headwater writes it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from headwater.model.local_files import MARK, is_marked

_JOURNAL = "faults.journal"


def _named(*patterns: str) -> Callable[[Path], bool]:
    return lambda entry: any(fnmatchcase(entry.name, each) for each in patterns)


def _is_archive(entry: Path) -> bool:
    return _is_table(entry) and '"headwater.' in _first_commit(entry)


def _is_index_part(entry: Path) -> bool:
    # The folder itself is the table.
    return '"headwater.lineageIndex' in _first_commit(entry.parent)


def _is_table(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir()


def _first_commit(table: Path) -> str:
    commits = sorted((table / "_delta_log").glob("*.json"))
    return commits[0].read_text(errors="replace") if commits else ""


def _is_registered_table(entry: Path) -> bool:
    with suppress(OSError, ValueError):
        return set(json.loads(entry.read_text())) == {"name", "location"}
    return False


# The folders that Headwater makes, and what is in them, for those without a mark.
_STATE: Mapping[str, Callable[[Path], bool]] = {
    "checkpoints": lambda entry: (entry / "headwater").is_dir(),
    "demo": _named("scraped"),
    "kafka": _named(
        "data", "VERSION", "BROKERS", "server.properties", "log4j2.properties", "node-*"
    ),
    "logs": _named("kafka*.log*", "kafka*.out", "postgres.log*", "catalog.log*"),
    "postgres": _named("data", "password", "unfinished", "roles"),
    "redrive": _named("*.lock"),
    "run": _named("*-*.json", "*-*.tmp", "up.lock"),
    "spool": _named("[0-9]*-????????", "open-runs", "refused.jsonl*", "lost.json*", "*.lock"),
}
# Deleted only if the user agrees.
_ARCHIVES: Mapping[str, Callable[[Path], bool]] = {
    "archive": _is_archive,
    "lineage-index": _is_index_part,
    "replays": lambda entry: (entry / "plan.json").is_file(),
    "tables": _is_registered_table,
    # Tables of the user, which Headwater's sessions wrote.
    "warehouse": lambda entry: False,
}

# Everything that services and jobs store in a home.
STATE_PATHS = (*_STATE, *_ARCHIVES, _JOURNAL, MARK)


def wipe(home: Path, *, archives: bool) -> None:
    """Delete Headwater's state; other files in the home belong to the user.

    Args:
        archives: also archives, tables, the lineage index and the manifests of replays.
    """
    for folder in [*_owned(home, _STATE), *(archives_of(home) if archives else [])]:
        shutil.rmtree(folder, ignore_errors=True)
    (home / _JOURNAL).unlink(missing_ok=True)
    if is_marked(home) and [path.name for path in home.iterdir()] == [MARK]:
        (home / MARK).unlink()
        home.rmdir()


def archives_of(home: Path) -> list[Path]:
    """Folders of the home that are deleted only if the user agrees."""
    return _owned(home, _ARCHIVES)


def remaining(home: Path) -> list[Path]:
    """Folders with the names of Headwater's state that exist."""
    return [home / name for name in (*_STATE, *_ARCHIVES) if (home / name).exists()]


def make_private(home: Path) -> None:
    """Close the folders of homes that earlier versions made to other users of the machine."""
    folders = [*_owned(home, _STATE), *_owned(home, _ARCHIVES)]
    if home.is_dir() and {path.name for path in home.iterdir()} <= set(STATE_PATHS):
        folders.append(home)
    for folder in folders:
        state = folder.stat()
        if state.st_uid == os.geteuid() and state.st_mode & 0o077:
            folder.chmod(0o700)


def _owned(home: Path, names: Mapping[str, Callable[[Path], bool]]) -> list[Path]:
    folders = ((home / name, is_ours) for name, is_ours in names.items())
    return [
        folder
        for folder, is_ours in folders
        if folder.is_dir() and not folder.is_symlink() and _is_own(folder, is_ours)
    ]


def _is_own(folder: Path, is_ours: Callable[[Path], bool]) -> bool:
    return is_marked(folder) or all(map(is_ours, folder.iterdir()))
