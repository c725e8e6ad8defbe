"""The spool as its reader sees it: what is to be delivered, oldest first."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.openlineage.spool.files import (
    LOCK_FILE,
    SENT_FILE,
    SUFFIX,
    Spool,
    decode_line,
    is_alive,
    read_sent,
    segment_name,
    used_bytes,
)

_REFUSED = "refused.jsonl"
# Refused events are for people to look at: of more than this, the older half goes.
_MAX_REFUSED_BYTES = 16 * 1024 * 1024
_MAX_ANSWER = 2_000
_LOCK_PAUSES = (0.005, 0.02, 0.05)


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
        count = len(self._lines)
        for number in self._numbers():
            if number >= self._segment:
                # Only of the file that reading has come to: it may be gone, and others be there.
                begin = self._read_to if number == self._segment else 0
                count += len(_read(self._path(number), number, begin, live=False).entries)
        return count

    def of_other_runs(self, run_id: str) -> Iterator[Entry]:
        """Of what is read: the first event of each other run. None is taken."""
        self.peek()
        seen = {run_id}
        for entry in self._lines:
            if (found := run_of(entry.body)) not in seen:
                seen.add(found)
                yield entry

    def remove(self) -> None:
        """When nothing waits here and nobody writes."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _load(self) -> None:
        """Read what lies behind all that was read; files that are behind it are removed."""
        for number in self._numbers():
            path = self._path(number)
            if number < self._segment:
                _unlink(path)
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
            _unlink(path)

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


def _unlink(path: Path) -> None:
    """A file that can't be removed is passed over when it is read again."""
    with suppress(OSError):
        path.unlink()


def run_of(body: bytes) -> str:
    """The id of the run that an event is of."""
    return str(json.loads(body).get("run", {}).get("runId", ""))


class OrphanedSpool:
    """A backlog of a process that is dead, held while this one delivers it."""

    def __init__(self, backlog: Backlog, lock_file: int) -> None:
        self.backlog = backlog
        self._lock_file: int | None = lock_file

    def release(self) -> None:
        """Remove it if all is delivered; else leave it to the next one."""
        if self._lock_file is None:
            return
        # What can't be read may still be read by the next one.
        with suppress(OSError):
            if self.backlog.peek() is None:
                self.backlog.remove()
        os.close(self._lock_file)
        self._lock_file = None


def adopt(root: Path) -> list[OrphanedSpool]:
    """Take what dead processes have left, the oldest first; those of others are not waited for."""
    found = []
    for folder in sorted(owners(root), key=_made):
        try:
            handle = os.open(folder / LOCK_FILE, os.O_RDWR)
        except OSError:
            continue
        if _locked(handle):
            found.append(OrphanedSpool(Backlog(folder), handle))
        else:
            os.close(handle)
    return found


def _locked(handle: int) -> bool:
    """Whether the lock could be had. Who asks whether a process lives holds it for a moment, too:
    that must not look like a process that lives."""
    for pause in (*_LOCK_PAUSES, None):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if pause is not None:
                time.sleep(pause)
        except OSError:
            return False
    return False


@dataclass(frozen=True)
class Waiting:
    """What waits in the folder of one process."""

    pid: int
    alive: bool
    events: int
    bytes: int
    # How long ago the first of them came, in seconds.
    age: float
    # Why not all of them could be counted.
    trouble: str | None = None


def waiting(root: Path) -> list[Waiting]:
    """What waits, by process, the oldest first; changes nothing."""
    found = []
    for folder in sorted(owners(root), key=_made):
        pid = int(folder.name.partition("-")[0]) if folder.name[:1].isdigit() else 0
        events, trouble = 0, None
        try:
            events = Backlog(folder).waiting()
        except OSError as error:
            trouble = f"{error.strerror}: {error.filename}"
        size = used_bytes(folder.parent, folder.name)
        age = max(0.0, time.time() - _made(folder))
        found.append(Waiting(pid, is_alive(folder), events, size, round(age, 1), trouble))
    return found


def owners(root: Path) -> Iterator[Path]:
    """The folders of all processes that have left something, or still write."""
    for path in root.glob("*/" + LOCK_FILE):
        yield path.parent


def count_refused(root: Path) -> int:
    """Events that the catalog would not take."""
    try:
        return refused_path(root).read_bytes().count(b"\n")
    except OSError:
        return 0


def refused_path(root: Path) -> Path:
    return root / _REFUSED


def set_aside(root: Path, body: bytes, status: int, answer: str, at: str) -> None:
    """Keep an event that the catalog would not take, with its answer."""
    path = refused_path(root)
    event = json.loads(body)
    note = {"at": at, "status": status, "answer": answer[:_MAX_ANSWER], "event": event}
    line = json.dumps(note, separators=(",", ":")).encode() + b"\n"
    if path.is_file() and path.stat().st_size + len(line) > _MAX_REFUSED_BYTES:
        kept = path.read_bytes()[-_MAX_REFUSED_BYTES // 2 :].partition(b"\n")[2]
        path.write_bytes(kept)
    path.touch(mode=0o600)
    with path.open("ab") as file:
        file.write(line)


def _made(folder: Path) -> float:
    try:
        return folder.stat().st_ctime
    except OSError:
        return 0.0
