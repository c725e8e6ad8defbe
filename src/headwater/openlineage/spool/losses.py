"""How many events were lost, in a file of the spool: counts in memory end with their process.

The file is small and written in place: on a full disk, where most losses are, that still works
when it is there already. It is made with the spool's folder, therefore.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.openlineage.events import to_rfc3339

_FILE = "lost.json"
_MAX_REASON = 500
# In place, and always of this size: a shorter text must not leave the end of a longer one.
_SIZE = 1024


@dataclass(frozen=True)
class Lost:
    """Events that will not arrive; `reason` and `at` are of the last ones."""

    events: int
    reason: str
    at: str


class Losses:
    """Counts what this process loses. `add` takes no disk; thread-safe."""

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
        """Make the file while there is room for it."""
        with suppress(OSError):
            file = os.open(lost_path(self._root), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(file, b" " * _SIZE)
            finally:
                os.close(file)

    def write(self) -> None:
        """Add what is counted to the file; what can't be written waits for the next time."""
        with self._access:
            count, self._pending = self._pending, 0
            reason = self._reason
        if not count:
            return
        try:
            _add(lost_path(self._root), count, reason)
        except OSError:
            with self._access:
                self._pending += count


def lost_path(root: Path) -> Path:
    return root / _FILE


def read_lost(root: Path) -> Lost | None:
    """What all processes have lost since the file was removed last."""
    try:
        return _parsed(lost_path(root).read_text())
    except (OSError, UnicodeError):
        return None


def _add(path: Path, count: int, reason: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Not waited for: it is held for a moment only, and the next loss tries again.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        known = _parsed(os.pread(file, _SIZE, 0).decode("utf-8", "replace"))
        total = count + (known.events if known else 0)
        at = to_rfc3339(datetime.now(UTC))
        os.pwrite(file, _line(total, reason, at), 0)
    finally:
        os.close(file)


def _line(events: int, reason: str, at: str) -> bytes:
    shown = reason.encode("ascii", "replace")[:_MAX_REASON].decode()
    text = json.dumps({"events": events, "reason": shown, "at": at})
    return text.encode()[:_SIZE].ljust(_SIZE - 1) + b"\n"


def _parsed(text: str) -> Lost | None:
    try:
        found: Any = json.loads(text)
        return Lost(int(found["events"]), str(found["reason"]), str(found["at"]))
    except (ValueError, KeyError, TypeError):
        return None
