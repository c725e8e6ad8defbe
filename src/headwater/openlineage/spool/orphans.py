"""Reads the spool: events to deliver, oldest first, and the spools of dead processes."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.model.local_files import lock
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
# Refused events are kept for inspection; beyond this size, the older half is removed.
_MAX_REFUSED_BYTES = 16 * 1024 * 1024
_MAX_RESPONSE = 2_000
_LOCK_PAUSES = (0.005, 0.02, 0.05)


@dataclass(frozen=True, slots=True)
class SpooledEvent:
    """An undelivered event; `segment` and `end` are its position."""

    body: bytes
    segment: int
    end: int


class Backlog:
    """Undelivered events of one process. Not thread-safe: it has one reader."""

    def __init__(self, folder: Path, writer: Spool | None = None) -> None:
        self.folder = folder
        # Incomplete lines, which are skipped.
        self.torn = 0
        self._writer = writer
        # Read position; `_lines` holds the events that are read but not delivered.
        self._segment, self._read_to = read_sent(folder)
        self._lines: deque[SpooledEvent] = deque()

    def peek(self) -> SpooledEvent | None:
        """The next event; it stays in the backlog until `done`."""
        if not self._lines:
            self._load()
        return self._lines[0] if self._lines else None

    def done(self) -> None:
        """Remove the event that `peek` returned: it is delivered or refused."""
        entry = self._lines.popleft()
        # Without fsync: after a crash events may be delivered twice, which is harmless.
        unfinished = self.folder / f"{SENT_FILE}.tmp"
        try:
            unfinished.write_text(json.dumps([entry.segment, entry.end]))
            unfinished.replace(self.folder / SENT_FILE)
        except OSError:
            return

    def count(self) -> int:
        """Number of undelivered events; reads all segments and removes none."""
        count = len(self._lines)
        for number in self._numbers():
            if number >= self._segment:
                # The read position applies to this segment only.
                begin = self._read_to if number == self._segment else 0
                count += len(_read(self._path(number), number, begin, live=False).entries)
        return count

    def of_other_runs(self, run_id: str) -> Iterator[SpooledEvent]:
        """The first loaded event of each other run; removes none."""
        self.peek()
        seen = {run_id}
        for entry in self._lines:
            if (run := run_of(entry.body)) not in seen:
                seen.add(run)
                yield entry

    def remove(self) -> None:
        """Delete the folder; only if it has no events and no writer."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _load(self) -> None:
        """Load the next events; removes segments that are completely delivered."""
        for number in self._numbers():
            path = self._path(number)
            if number < self._segment:
                _unlink(path)
                continue
            if number > self._segment:
                self._segment, self._read_to = number, 0
            # Checked before reading: a segment that is complete now is complete when read.
            live = self._writer is not None and number >= self._writer.current()
            content = _read(path, number, self._read_to, live=live)
            self.torn += content.torn
            self._read_to = content.end
            if content.entries:
                self._lines.extend(content.entries)
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
class _SegmentContent:
    entries: list[SpooledEvent]
    torn: int
    end: int


def _read(path: Path, segment: int, begin: int, *, live: bool) -> _SegmentContent:
    """Lines from `begin` on; an incomplete last line of a live segment is still being written."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read()
    except FileNotFoundError:
        return _SegmentContent([], 0, begin)
    if live:
        content = content[: content.rfind(b"\n") + 1]
    entries: list[SpooledEvent] = []
    torn, at = 0, begin
    for line in content.splitlines(keepends=True):
        at += len(line)
        body = decode_line(line)
        if body is None:
            torn += 1
        else:
            entries.append(SpooledEvent(body, segment, at))
    return _SegmentContent(entries, torn, at)


def _unlink(path: Path) -> None:
    """Ignores errors: a segment that stays is skipped when it is read again."""
    with suppress(OSError):
        path.unlink()


def run_of(body: bytes) -> str:
    """The run id of an event."""
    return str(json.loads(body).get("run", {}).get("runId", ""))


def namespace_of(body: bytes) -> str:
    """The namespace of the job of an event."""
    return str(json.loads(body).get("job", {}).get("namespace", ""))


class OrphanedSpool:
    """The backlog of a dead process, locked while this process delivers it."""

    def __init__(self, backlog: Backlog, lock_file: int) -> None:
        self.backlog = backlog
        self._lock_file: int | None = lock_file

    def release(self) -> None:
        """Unlock it; deletes it if all events are delivered."""
        if self._lock_file is None:
            return
        # Unreadable events are kept: the next process may be able to read them.
        with suppress(OSError):
            if self.backlog.peek() is None:
                self.backlog.remove()
        os.close(self._lock_file)
        self._lock_file = None


def claim_orphans(root: Path) -> list[OrphanedSpool]:
    """Lock the spools of dead processes, oldest first; skips those that another process holds."""
    orphans = []
    for folder in sorted(process_folders(root), key=_created_at):
        try:
            handle = os.open(folder / LOCK_FILE, os.O_RDWR)
        except OSError:
            continue
        if _locked(handle):
            orphans.append(OrphanedSpool(Backlog(folder), handle))
        else:
            os.close(handle)
    return orphans


def _locked(handle: int) -> bool:
    """Whether the lock could be taken. Retries: `is_alive` of another process holds it briefly."""
    for pause in (*_LOCK_PAUSES, None):
        try:
            lock(handle)
            return True
        except BlockingIOError:
            if pause is not None:
                time.sleep(pause)
        except OSError:
            return False
    return False


@dataclass(frozen=True)
class PendingEvents:
    """Undelivered events of one process."""

    pid: int
    alive: bool
    events: int
    bytes: int
    # Seconds since the folder was created.
    age: float
    # Why not all events could be counted.
    trouble: str | None = None


def pending_events(root: Path) -> list[PendingEvents]:
    """Undelivered events by process, oldest first; changes nothing."""
    pending = []
    for folder in sorted(process_folders(root), key=_created_at):
        pid = int(folder.name.partition("-")[0]) if folder.name[:1].isdigit() else 0
        events, trouble = 0, None
        try:
            events = Backlog(folder).count()
        except OSError as error:
            trouble = f"{error.strerror}: {error.filename}"
        size = used_bytes(folder.parent, folder.name)
        age = max(0.0, time.time() - _created_at(folder))
        pending.append(PendingEvents(pid, is_alive(folder), events, size, round(age, 1), trouble))
    return pending


def process_folders(root: Path) -> Iterator[Path]:
    """Folders of all processes, running and dead."""
    for path in root.glob("*/" + LOCK_FILE):
        yield path.parent


def count_refused(root: Path) -> int:
    """Number of events that the catalog refused."""
    try:
        return refused_path(root).read_bytes().count(b"\n")
    except OSError:
        return 0


def refused_path(root: Path) -> Path:
    return root / _REFUSED


def keep_refused(
    root: Path,
    body: bytes,
    status: int,
    response: str,
    at: str,
    *,
    max_bytes: int = _MAX_REFUSED_BYTES,
) -> None:
    """Store an event that the catalog refused, with its response."""
    path = refused_path(root)
    event = json.loads(body)
    note = {"at": at, "status": status, "answer": response[:_MAX_RESPONSE], "event": event}
    line = json.dumps(note, separators=(",", ":")).encode() + b"\n"
    if path.is_file() and path.stat().st_size + len(line) > max_bytes:
        kept = path.read_bytes()[-max_bytes // 2 :].partition(b"\n")[2]
        path.write_bytes(kept)
    path.touch(mode=0o600)
    with path.open("ab") as file:
        file.write(line)


def _created_at(folder: Path) -> float:
    try:
        return folder.stat().st_ctime
    except OSError:
        return 0.0
