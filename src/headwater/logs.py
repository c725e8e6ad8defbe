"""Log output of the command line. The library only creates loggers; it never configures them."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS: tuple[LogFormat, ...] = ("text", "json")

_LOGGER = logging.getLogger("headwater")


class TextFormatter(logging.Formatter):
    """`job: warning: message`; the level is left out for information."""

    def __init__(self, job_name: str | None = None) -> None:
        super().__init__("%(message)s")
        self._job_name = job_name

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        job = "" if self._job_name is None else f"{self._job_name}: "
        return job + level + super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the job's name."""

    def __init__(self, job_name: str | None = None) -> None:
        super().__init__()
        self._job_name = job_name

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._job_name is not None:
            fields["job"] = self._job_name
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at that moment, which tests and Click replace."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__(sys.stderr)
        self._log_format = log_format
        self.name_job(None)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """The base class assigns it; the current `sys.stderr` is used instead."""

    def name_job(self, job_name: str | None) -> None:
        """Put the job's name on every line, or on none."""
        formatter = JsonFormatter if self._log_format == "json" else TextFormatter
        self.setFormatter(formatter(job_name))


def configure_logging(level: str = "info", log_format: LogFormat = "text") -> StderrHandler:
    """Send Headwater's log messages to standard error, replacing an earlier configuration."""
    for handler in _own_handlers():
        _LOGGER.removeHandler(handler)
    handler = StderrHandler(log_format)
    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(level.upper())
    return handler


@contextmanager
def job_logging(job_name: str, *, quiet: bool = False) -> Iterator[None]:
    """Log information about one job while the body runs, with its name on every line.

    Args:
        quiet: warnings and errors only.
    """
    found, level = _own_handlers(), _LOGGER.level
    handler = found[0] if found else StderrHandler("text")
    if not found:
        _LOGGER.addHandler(handler)
    handler.name_job(job_name)
    _LOGGER.setLevel(max(level, logging.WARNING) if quiet else level or logging.INFO)
    try:
        yield
    finally:
        handler.name_job(None)
        _LOGGER.setLevel(level)
        if not found:
            _LOGGER.removeHandler(handler)


def _own_handlers() -> list[StderrHandler]:
    return [each for each in _LOGGER.handlers if isinstance(each, StderrHandler)]
