"""Local files: their URIs, as Spark, Delta and Iceberg write them, durable writes, and locks."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

# The file that marks a folder. `headwater down --wipe` deletes a marked folder with its content.
MARK = ".headwater"
_TEXT = "Headwater made this folder. `headwater down --wipe` deletes it with its content.\n"
_PRIVATE = 0o700


def file_uri(path: Path | str) -> str:
    """A local path with its scheme: Spark reads a bare path from the cluster's default file system.

    Not percent-encoded: Hadoop takes the text as it is.
    """
    return f"file://{Path(path).absolute()}"


def local_path(location: str) -> Path | None:
    """The path of `/x`, `file:/x` or `file:///x`; None for other file systems, such as `s3a://`."""
    if location.startswith("file:"):
        return Path(location.removeprefix("file:").removeprefix("//"))
    return None if _URI.match(location) else Path(location)


def local_folder(location: str | Path, *, table: bool = False) -> Path:
    """The path of a local file or folder: another location must not become a folder of its name.

    Args:
        table: also refuse the name of a table in a catalog, such as `main.sales.orders`.

    Raises:
        ValueError: it is a URI of another file system, or the name of a table.
    """
    # `Path` has one slash after the scheme.
    path = local_path(str(location))
    if path is None:
        raise ValueError(
            f"{str(location)!r} is a URI of another file system: only local paths are supported"
        )
    if table and _TABLE_NAME.fullmatch(str(location)) and not path.exists():
        raise ValueError(
            f"{str(location)!r} is the name of a table in a catalog: a folder is required; for a "
            f"folder of this name write './{location}'"
        )
    return path


def checked_path(value: Any) -> Any:
    """For a setting that is a path; values of other types are left to its validation."""
    return local_folder(value) if isinstance(value, str | Path) else value


def checked_table_folder(value: Any) -> Any:
    """For a setting that is the folder of a table."""
    return local_folder(value, table=True) if isinstance(value, str | Path) else value


# A scheme, also with one slash, as Hadoop accepts it. One letter is not a scheme.
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_TABLE_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")


def write_durably(path: Path, text: str) -> None:
    """Write a file atomically. The file and its name are on disk when this returns."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent.parent)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk: without it, a power failure may undo a rename."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


_NETWORK_FILE_SYSTEM = re.compile(
    r"nfs\d*|cifs|smb\w*|9p|afs|ceph|glusterfs|lustre|gpfs|beegfs|ocfs2|gfs2|fuse\..+"
)
_MOUNTS = Path("/proc/self/mountinfo")


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The type of the file system of a path, such as `nfs4`, if other hosts may use it, too.

    None for local ones, and if the operating system has no list of mounts.
    """
    path = path.resolve()
    found, depth = "", -1
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # 36 35 98:0 /root /mount/point options … - type source options
        before, _, after = line.partition(" - ")
        # Spaces in a path are written as octal numbers.
        point = Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), before.split(" ")[4]))
        # The last of several mounts on one folder is the visible one.
        if path.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = after.split(" ")[0], len(point.parts)
    return found if _NETWORK_FILE_SYSTEM.fullmatch(found) else None


class _OpenFile(Protocol):
    def fileno(self) -> int: ...


def lock(file: int | _OpenFile, *, shared: bool = False) -> None:
    """Lock an open file without waiting; closing the file releases the lock.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


@contextmanager
def locked(
    path: Path,
    on_busy: Callable[[], Exception],
    *,
    timeout_seconds: float = 0.0,
    poll_seconds: float = 0.02,
) -> Iterator[None]:
    """Hold an exclusive lock while the body runs; creates the file and its folder.

    Args:
        on_busy: makes the error to raise if another process still holds the lock after
            `timeout_seconds`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_seconds
    with path.open("a") as file:
        while True:
            try:
                lock(file)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise on_busy() from None
                time.sleep(poll_seconds)
        yield


def state_folder(home: Path, name: str) -> Path:
    """The folder `name` of the home. Folders that do not exist are made; others stay as they are.

    Raises:
        OSError: it can't be made.
    """
    _own_folder(home)
    return _own_folder(home / name)


def private_home(home: Path) -> None:
    """Make the home, unless it exists: before another program makes it, open to other users."""
    _own_folder(home)


def is_marked(folder: Path) -> bool:
    """Whether Headwater made the folder."""
    return (folder / MARK).is_file()


def _own_folder(folder: Path) -> Path:
    if not folder.is_dir() and _made(folder):
        (folder / MARK).write_text(_TEXT)
    return folder


def _made(folder: Path) -> bool:
    """Make the folder and its parents; returns False if another process was faster."""
    # `parents=True` of `mkdir` would make the parents with the default mode.
    if not folder.parent.is_dir():
        _made(folder.parent)
    try:
        folder.mkdir(mode=_PRIVATE)
    except FileExistsError:
        return False
    return True
