"""Limits the log files of local services, which no other program rotates."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

MAX_LOG_BYTES = 32 * 1024 * 1024
_RECORDS_BETWEEN_CHECKS = 100


def rotate(log: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
    """Rename a log that is too large; a process that is about to start creates it again."""
    with suppress(OSError):
        if log.stat().st_size > max_bytes:
            log.replace(_previous(log))


class LogFileLimit(logging.Filter):
    """Empties the log to which this process appends when it is too large, and keeps one copy.

    The file is emptied, not replaced: the standard output and error of the process lead to it.
    """

    def __init__(self, log: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        super().__init__()
        self._log = log
        self._max_bytes = max_bytes
        self._records = 0

    def filter(self, record: logging.LogRecord) -> bool:
        self._records += 1
        if self._records % _RECORDS_BETWEEN_CHECKS == 0:
            # A log that can't be limited must not stop the service.
            with suppress(OSError):
                if self._log.stat().st_size > self._max_bytes:
                    shutil.copyfile(self._log, _previous(self._log))
                    os.truncate(self._log, 0)
        return True


def _previous(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")
