"""The spool as its reader sees it: what is to be delivered, oldest first."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.openlineage.spool import (
    LOCK_FILE,
    SENT_FILE,
    SUFFIX,
    Spool,
    decode_line,
    is_alive,
    read_sent,
    segment_name,
)

_REFUSED = "refused.jsonl"
# Refused events are for people to look at: of more than this, the older half goes.
_MOST_REFUSED_BYTES = 16 * 1024 * 1024
_MOST_ANSWER = 2_000


@dataclass(frozen=True, slots=True)
class Entry:
    """An event that waits; `segment` and `end` say where it lies."""

    body: bytes
    segment: int
    end: int


class Backlog:
    """What one process has left to deliver. Not thread-safe: it has one reader."""

    def __init__(self, folder: Path, writer: Spool | None = None) -> None:
        self.folder = folder
        # Lines that are not whole, and were skipped.
        self.torn = 0
        self._writer = writer
        # Where reading has come to; what is read and not delivered yet is in `_lines`.
        self._segment, self._read_to = read_sent(folder)
        self._lines: deque[Entry] = deque()

    def peek(self) -> Entry | None:
        """The next event; it stays until `done`."""
        if not self._lines:
            self._load()
        return self._lines[0] if self._lines else None

    def done(self) -> None:
        """The event that `peek` gave is delivered, or set aside."""
        entry = self._lines.popleft()
        # Without fsync: what is forgotten is delivered twice, which changes nothing.
        unfinished = self.folder / f"{SENT_FILE}.tmp"
        try:
            unfinished.write_text(json.dumps([entry.segment, entry.end]))
            unfinished.replace(self.folder / SENT_FILE)
        except OSError:
            return

    def waiting(self) -> int:
        """How many events wait; reads all of them, and removes nothing."""
        count, begin = len(self._lines), self._read_to
        for number in self._numbers():
            if number >= self._segment:
                found = _read(self._path(number), number, begin, live=False)
                count += len(found.entries)
                begin = 0
        return count

    def remove(self) -> None:
        """When nothing waits here and nobody writes."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _load(self) -> None:
        """Read what lies behind all that was read; files that are behind it are removed."""
        for number in self._numbers():
            path = self._path(number)
            if number < self._segment:
                path.unlink(missing_ok=True)
                continue
            if number > self._segment:
                self._segment, self._read_to = number, 0
            # Asked before reading: a file that is whole now is whole when it is read.
            live = self._writer is not None and number >= self._writer.current()
            found = _read(path, number, self._read_to, live=live)
            self.torn += found.torn
            self._read_to = found.end
            if found.entries:
                self._lines.extend(found.entries)
                return
            if live:
                return
            path.unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        names = (path.stem for path in self.folder.glob(f"*{SUFFIX}"))
        return sorted(int(name) for name in names if name.isdigit())

    def _path(self, number: int) -> Path:
        return self.folder / segment_name(number)


@dataclass(frozen=True, slots=True)
class _Found:
    entries: list[Entry]
    torn: int
    end: int


def _read(path: Path, segment: int, begin: int, *, live: bool) -> _Found:
    """Lines behind `begin`; of a live file, a last line that is not whole is still to come."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read()
    except FileNotFoundError:
        return _Found([], 0, begin)
    if live:
        content = content[: content.rfind(b"\n") + 1]
    entries: list[Entry] = []
    torn, at = 0, begin
    for line in content.splitlines(keepends=True):
        at += len(line)
        body = decode_line(line)
        if body is None:
            torn += 1
        else:
            entries.append(Entry(body, segment, at))
    return _Found(entries, torn, at)


class Adopted:
    """A backlog of a process that is dead, held while this one delivers it."""

    def __init__(self, backlog: Backlog, lock_file: int) -> None:
        self.backlog = backlog
        self._lock_file: int | None = lock_file

    def release(self) -> None:
        """Remove it if all is delivered; else leave it to the next one."""
        if self._lock_file is None:
            return
        if self.backlog.peek() is None:
            self.backlog.remove()
        os.close(self._lock_file)
        self._lock_file = None


def adopt(root: Path) -> list[Adopted]:
    """Take what dead processes have left, the oldest first; those of others are not waited for."""
    found = []
    for folder in sorted(owners(root), key=_made):
        try:
            handle = os.open(folder / LOCK_FILE, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        found.append(Adopted(Backlog(folder), handle))
    return found


@dataclass(frozen=True)
class Waiting:
    """What waits in the folder of one process."""

    pid: int
    alive: bool
    events: int
    bytes: int
    # How long ago the first of them came, in seconds.
    age: float


def waiting(root: Path) -> list[Waiting]:
    """What waits, by process, the oldest first; changes nothing."""
    found = []
    for folder in sorted(owners(root), key=_made):
        files = list(folder.glob(f"*{SUFFIX}"))
        events = Backlog(folder).waiting()
        pid = int(folder.name.partition("-")[0]) if folder.name[:1].isdigit() else 0
        size = sum(file.stat().st_size for file in files if file.exists())
        age = max(0.0, time.time() - _made(folder))
        found.append(Waiting(pid, is_alive(folder), events, size, round(age, 1)))
    return found


def owners(root: Path) -> Iterator[Path]:
    """The folders of all processes that have left something, or still write."""
    for path in root.glob("*/" + LOCK_FILE):
        yield path.parent


def count_refused(root: Path) -> int:
    """Events that the catalog would not take."""
    try:
        return refused_path(root).read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def refused_path(root: Path) -> Path:
    return root / _REFUSED


def set_aside(root: Path, body: bytes, status: int, answer: str, at: str) -> None:
    """Keep an event that the catalog would not take, with its answer."""
    path = refused_path(root)
    event = json.loads(body)
    note = {"at": at, "status": status, "answer": answer[:_MOST_ANSWER], "event": event}
    line = json.dumps(note, separators=(",", ":")).encode() + b"\n"
    if path.is_file() and path.stat().st_size + len(line) > _MOST_REFUSED_BYTES:
        kept = path.read_bytes()[-_MOST_REFUSED_BYTES // 2 :].partition(b"\n")[2]
        path.write_bytes(kept)
    path.touch(mode=0o600)
    with path.open("ab") as file:
        file.write(line)


def _made(folder: Path) -> float:
    try:
        return folder.stat().st_ctime
    except FileNotFoundError:
        return 0.0
