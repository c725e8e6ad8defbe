"""Events on disk, until they are delivered.

    spool/
      4711-9f3c01d2/          of one process: pid, and a word of its own
        lock                  held while that process lives
        000001.events         a line for each event: checksum, space, JSON
        sent                  how far the lines are delivered
      refused.jsonl           events that the catalog would not take, with its answer
      lost.json               how many events were lost, and why

An event is on disk when `append` returns. The folder is bounded; when it or its disk is full,
the oldest events of all processes give way, or the new one, by a setting. A file that could not
be written is never written to again: what a failed fsync has left of it is not known. Its event
is tried once more, in a new file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
import uuid
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headwater.openlineage.spool.losses import Losses
from headwater.settings import Settings, fault_points

OverflowPolicy = Literal["drop-oldest", "drop-new"]

SUFFIX = ".events"
LOCK_FILE = "lock"
SENT_FILE = "sent"
# Small enough that dropping the oldest drops little, large enough that there are few.
_SEGMENTS = 16
_SMALLEST_SEGMENT = 64 * 1024
# Larger ones no catalog takes.
MAX_EVENT_BYTES = 15 * 1024 * 1024
# Room helps against these, and against nothing else that a disk may say.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass
class SpoolCounts:
    """What became of events here. `dropped` are lost, and told of."""

    kept: int = 0
    dropped: int = 0
    reason: str | None = None


class Spool:
    """The events of this process. Makes its folder with the first event; thread-safe."""

    def __init__(
        self,
        folder: Path,
        limit_bytes: int = 64 * 1024 * 1024,
        overflow_policy: OverflowPolicy = "drop-oldest",
    ) -> None:
        self.root = folder
        self.folder = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.counts = SpoolCounts()
        self.losses = Losses(folder)
        self._limit = limit_bytes
        self._overflow_policy = overflow_policy
        self._segment_bytes = max(limit_bytes // _SEGMENTS, min(_SMALLEST_SEGMENT, limit_bytes))
        self._access = threading.Lock()
        self._lock_file: int | None = None
        self._file: int | None = None
        self._number = 0
        self._size = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> Spool:
        limit = round(settings.lineage.spool_mb * 1024 * 1024)
        return cls(settings.spool_dir, limit, settings.lineage.overflow_policy)

    def append(self, event: Mapping[str, Any]) -> bool:
        """Put an event on disk. False if it had to be dropped, which is counted.

        Raises:
            ValueError: the event can't be written as JSON, or is larger than any catalog takes.
        """
        line = encode_line(event)
        if len(line) > MAX_EVENT_BYTES:
            raise ValueError(f"an event of {len(line)} bytes")
        with self._access:
            kept = self._has_room(len(line)) and self._put(line)
            self.counts.kept += kept
            self.losses.write()
            return kept

    def close(self) -> None:
        """Let others deliver what is left here."""
        with self._access:
            self._abandon()
            self.losses.write()
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    def current(self) -> int:
        """The number of the file that is being written; those before it are whole."""
        return self._number

    def _has_room(self, size: int) -> bool:
        """Whether the bound leaves room, after older events gave way where they may."""
        if size > self._limit:
            # Nothing that gives way would make room for it.
            self._lose(1, f"an event of {size} bytes is larger than lineage.spool_mb allows")
            return False
        over = used_bytes(self.root) + size - self._limit
        full = f"the spool {self.root} is full (lineage.spool_mb)"
        if over > 0 and not self._free(over, full):
            self._lose(1, full)
            return False
        return True

    def _put(self, line: bytes) -> bool:
        error = self._try_to_write(line)
        if error is None:
            return True
        reason = f"the spool can't be written: {error.strerror}: {self.root}"
        again = error.errno not in _FULL or self._free(len(line), reason)
        if again and self._try_to_write(line) is None:
            return True
        self._lose(1, reason)
        return False

    def _try_to_write(self, line: bytes) -> OSError | None:
        try:
            self._write(line)
            return None
        except OSError as error:
            self._abandon()
            return error

    def _free(self, size: int, why: str) -> bool:
        """Drop the oldest until so much is free; whether it is."""
        while size > 0:
            if self._overflow_policy == "drop-new" or not (freed := self._drop_oldest(why)):
                return False
            size -= freed
        return True

    def _drop_oldest(self, why: str) -> int:
        """Remove the oldest file that nobody writes to; returns how large it was."""
        for path in sorted(segments_of(self.root), key=_age):
            if path.parent == self.folder and path.name == segment_name(self._number):
                # Its own current one gives way, too, when nothing older is there.
                self._abandon()
            elif path.parent != self.folder and _is_written(path):
                continue
            try:
                size, lost = path.stat().st_size, _undelivered(path)
                path.unlink()
            except OSError:
                # Gone, or on a disk that became read-only: another one may give way.
                continue
            if lost:
                self._lose(lost, why)
            if size:
                return size
        return 0

    def _lose(self, count: int, reason: str) -> None:
        self.counts.dropped += count
        self.counts.reason = reason
        self.losses.add(count, reason)

    def _write(self, line: bytes) -> None:
        if self._file is None or self._size >= self._segment_bytes:
            self._next_segment()
        assert self._file is not None  # noqa: S101 - just opened
        written = 0
        while written < len(line):
            written += os.write(self._file, line[written:])
        fault_points.reach("before_spool_fsync")
        os.fsync(self._file)
        self._size += len(line)
        fault_points.reach("after_spool_fsync")

    def _next_segment(self) -> None:
        self._abandon()
        if self._lock_file is None:
            self._make_folder()
        path = self.folder / segment_name(self._number + 1)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._number += 1
        self._size = 0
        _sync_folder(self.folder)

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        # Under its name only when it is held: a lock that is free stands for a dead process.
        unheld = self.folder / f"{LOCK_FILE}.new"
        file = os.open(unheld, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unheld.rename(self.folder / LOCK_FILE)
        except OSError:
            os.close(file)
            raise
        self._lock_file = file
        _sync_folder(self.root)
        # The root itself may be new; its parent may be one that can't be opened.
        with suppress(OSError):
            _sync_folder(self.root.parent)
        self.losses.prepare()

    def _abandon(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # Some file systems tell here that a write failed; fsync has told it before.
            with suppress(OSError):
                os.close(file)


def encode_line(event: Mapping[str, Any]) -> bytes:
    """A line that tells by itself whether it is whole."""
    plain = json.dumps(event, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # Half a pair of surrogates, as in the name of a file that is not UTF-8, is no text for others.
    text = plain.encode(errors="replace")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode_line(line: bytes) -> bytes | None:
    """The event's text; None if the line is torn or damaged."""
    checksum, space, text = line.removesuffix(b"\n").partition(b" ")
    if not space or not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(text):
        return None
    return text


def segment_name(number: int) -> str:
    return f"{number:06d}{SUFFIX}"


def segments_of(root: Path, process: str = "*") -> list[Path]:
    """Files with events: of all processes, or of the one whose folder has this name."""
    return [path for path in root.glob(f"{process}/*{SUFFIX}") if path.stem.isdigit()]


def used_bytes(root: Path, process: str = "*") -> int:
    """What events take on disk."""
    total = 0
    for path in segments_of(root, process):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def read_sent(folder: Path) -> tuple[int, int]:
    """Up to which file, and where in it, events are delivered."""
    try:
        segment, at = json.loads((folder / SENT_FILE).read_text())
        return int(segment), int(at)
    except (OSError, ValueError, TypeError):
        return 0, 0


def _undelivered(path: Path) -> int:
    """How many events of a file are not delivered."""
    segment, at = read_sent(path.parent)
    if int(path.stem) < segment:
        return 0
    return path.read_bytes()[at if int(path.stem) == segment else 0 :].count(b"\n")


def _age(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except OSError:
        return 0.0, path.name


def _is_written(path: Path) -> bool:
    """Whether another process that lives may still write to this file."""
    newest = max(path.parent.glob(f"*{SUFFIX}"), default=path)
    return path == newest and is_alive(path.parent)


def is_alive(folder: Path) -> bool:
    """Whether the process that writes here still does."""
    try:
        with (folder / LOCK_FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """A file is there after a crash only when its folder is on disk, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
