"""The file that counts lost events: counts in memory end with their process.

It is created with the spool folder and overwritten in place: that works on a full disk too, where
most losses occur.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.model.local_files import lock
from headwater.openlineage.events import to_rfc3339

LOST_FILE = "lost.json"
_MAX_REASON = 500
# Fixed size: a shorter text must overwrite a longer one completely.
LOST_FILE_BYTES = 1024


@dataclass(frozen=True)
class Lost:
    """Number of lost events; `reason` and `at` are of the latest."""

    events: int
    reason: str
    at: str


def lost_path(root: Path) -> Path:
    return root / LOST_FILE


def read_lost(root: Path) -> Lost | None:
    """Losses of all processes since the file was last removed."""
    try:
        return _parsed(lost_path(root).read_text())
    except (OSError, UnicodeError):
        return None


def add_lost(root: Path, count: int, reason: str) -> None:
    """Add to the count; raises BlockingIOError while another process does."""
    file = os.open(lost_path(root), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # Without waiting: the lock is held briefly, and the next loss retries.
        lock(file)
        known = _parsed(os.pread(file, LOST_FILE_BYTES, 0).decode("utf-8", "replace"))
        total = count + (known.events if known else 0)
        at = to_rfc3339(datetime.now(UTC))
        os.pwrite(file, _line(total, reason, at), 0)
    finally:
        os.close(file)


def _line(events: int, reason: str, at: str) -> bytes:
    shown = reason.encode("ascii", "replace")[:_MAX_REASON].decode()
    text = json.dumps({"events": events, "reason": shown, "at": at})
    return text.encode()[:LOST_FILE_BYTES].ljust(LOST_FILE_BYTES - 1) + b"\n"


def _parsed(text: str) -> Lost | None:
    try:
        content: Any = json.loads(text)
        return Lost(int(content["events"]), str(content["reason"]), str(content["at"]))
    except (ValueError, KeyError, TypeError):
        return None
