"""Local files: their URIs, as Spark, Delta and Iceberg write them, and advisory locks."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol


def file_uri(path: Path | str) -> str:
    """A local path with its scheme: Spark reads a bare path from the cluster's default file system.

    Not percent-encoded: Hadoop takes the text as it is.
    """
    return f"file://{Path(path).absolute()}"


def local_path(location: str) -> Path | None:
    """The path of `/x`, `file:/x` or `file:///x`; None for other file systems, such as `s3a://`."""
    if location.startswith("file:"):
        return Path(location.removeprefix("file:").removeprefix("//"))
    return None if "://" in location else Path(location)


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
