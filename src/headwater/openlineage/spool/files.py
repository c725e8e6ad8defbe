"""The spool: events on disk until they are delivered.

    spool/
      4711-9f3c01d2/          one process: pid and a random suffix
        lock                  held while that process runs
        000001.events         a segment; one line per event: checksum, space, JSON
        sent                  position up to which events are delivered
      refused.jsonl           events that the catalog refused, with its response
      lost.json               how many events were lost, and reason

An event is on disk when `append` returns. The size of the folder is limited. When the limit is
reached or the disk is full, `overflow_policy` decides whether the oldest events of all processes or
the new event are dropped. A segment with a failed write is never written again, because its content
after a failed fsync is unknown; its event is retried once, in a new segment.
"""

from __future__ import annotations

import errno
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

from headwater.model.local_files import lock, state_folder
from headwater.openlineage.spool.losses import LOST_FILE, LOST_FILE_BYTES, add_lost
from headwater.settings import Settings, fault_points

OverflowPolicy = Literal["drop-oldest", "drop-new"]

SUFFIX = ".events"
LOCK_FILE = "lock"
SENT_FILE = "sent"
# Small segments, so that dropping the oldest loses few events; not so small that there are many.
_SEGMENTS = 16
_SMALLEST_SEGMENT = 64 * 1024
# No catalog accepts larger events.
MAX_EVENT_BYTES = 15 * 1024 * 1024
# Errors that freeing space can resolve.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass
class SpoolCounts:
    """Counts of this process; `dropped` events are lost."""

    kept: int = 0
    dropped: int = 0
    reason: str | None = None


class Spool:
    """The events of this process. Creates its folder with the first event. Thread-safe."""

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
        """Write an event to disk; returns False if it had to be dropped.

        Raises:
            ValueError: the event can't be written as JSON, or is larger than any catalog accepts.
        """
        line = encode_line(event)
        if len(line) > MAX_EVENT_BYTES:
            raise ValueError(f"event has {len(line)} bytes, at most {MAX_EVENT_BYTES} are allowed")
        with self._access:
            kept = self._has_room(len(line)) and self._put(line)
            self.counts.kept += kept
            self.losses.write()
            return kept

    def close(self) -> None:
        """Release the folder: other processes may deliver the remaining events."""
        with self._access:
            self._abandon()
            self.losses.write()
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    def current(self) -> int:
        """Number of the segment that is being written; earlier ones are complete."""
        return self._number

    def _has_room(self, size: int) -> bool:
        """Whether the event fits, after dropping older events if the policy allows it."""
        if size > self._limit:
            # Dropping other events would not help.
            self._lose(1, f"event of {size} bytes is larger than lineage.spool_mb allows")
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
        retry = error.errno not in _FULL or self._free(len(line), reason)
        if retry and self._try_to_write(line) is None:
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

    def _free(self, size: int, reason: str) -> bool:
        """Drop the oldest events until `size` bytes are free; returns whether they are."""
        while size > 0:
            if self._overflow_policy == "drop-new" or not (freed := self._drop_oldest(reason)):
                return False
            size -= freed
        return True

    def _drop_oldest(self, reason: str) -> int:
        """Remove the oldest segment that no other process writes; returns its size."""
        for path in sorted(segments_of(self.root), key=_age):
            if path.parent == self.folder and path.name == segment_name(self._number):
                # If nothing is older, the current segment of this process is dropped.
                self._abandon()
            elif path.parent != self.folder and _is_written(path):
                continue
            try:
                size, lost = path.stat().st_size, _undelivered(path)
                path.unlink()
            except OSError:
                # Removed meanwhile, or the disk became read-only: try the next one.
                continue
            if lost:
                self._lose(lost, reason)
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
        if fault_points.current is not None:
            fault_points.reach("before_spool_fsync")
        os.fsync(self._file)
        self._size += len(line)
        if fault_points.current is not None:
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
        state_folder(self.root.parent, self.root.name)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        # Renamed after locking: a free lock file means that the process is dead.
        unlocked = self.folder / f"{LOCK_FILE}.new"
        file = os.open(unlocked, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(file)
            unlocked.rename(self.folder / LOCK_FILE)
        except OSError:
            os.close(file)
            raise
        self._lock_file = file
        _sync_folder(self.root)
        # The root itself may be new; its parent may not be readable.
        with suppress(OSError):
            _sync_folder(self.root.parent)
        self.losses.prepare()

    def _abandon(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # Some file systems report write errors on close; fsync has reported them before.
            with suppress(OSError):
                os.close(file)


def encode_line(event: Mapping[str, Any]) -> bytes:
    """A line with a checksum, which shows whether the line is complete."""
    plain = json.dumps(event, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # Unpaired surrogates, as in file names that are not UTF-8, can't be encoded.
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
    """Segments of all processes, or of the process folder with this name."""
    return [path for path in root.glob(f"{process}/*{SUFFIX}") if path.stem.isdigit()]


def used_bytes(root: Path, process: str = "*") -> int:
    """Size of all segments on disk."""
    total = 0
    for path in segments_of(root, process):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def read_sent(folder: Path) -> tuple[int, int]:
    """Segment and byte position up to which events are delivered."""
    try:
        segment, at = json.loads((folder / SENT_FILE).read_text())
        return int(segment), int(at)
    except (OSError, ValueError, TypeError):
        return 0, 0


def _undelivered(path: Path) -> int:
    """Number of undelivered events in a segment."""
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
    """Whether another running process may still write to this segment."""
    newest = max(path.parent.glob(f"*{SUFFIX}"), default=path)
    return path == newest and is_alive(path.parent)


def is_alive(folder: Path) -> bool:
    """Whether the process of this folder is running."""
    try:
        with (folder / LOCK_FILE).open() as file:
            lock(file, shared=True)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _sync_folder(folder: Path) -> None:
    """A new file survives a crash only if its folder is synced as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Losses:
    """Counts the lost events of this process. `add` does no I/O. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._access = threading.Lock()
        self._pending = 0
        self._reason = ""

    def add(self, count: int, reason: str) -> None:
        with self._access:
            self._pending += count
            self._reason = reason

    def prepare(self) -> None:
        """Create the file while the disk has space."""
        with suppress(OSError):
            file = os.open(self._root / LOST_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(file, b" " * LOST_FILE_BYTES)
            finally:
                os.close(file)

    def write(self) -> None:
        """Add the pending count to the file; after an error it stays pending."""
        with self._access:
            count, self._pending = self._pending, 0
            reason = self._reason
        if not count:
            return
        try:
            add_lost(self._root, count, reason)
        except OSError:
            with self._access:
                self._pending += count
