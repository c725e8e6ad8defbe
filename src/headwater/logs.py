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
_WITH_TIMESTAMPS = "%(asctime)s %(levelname)s %(name)s %(message)s"


class TextFormatter(logging.Formatter):
    """`job: warning: message`; the level INFO is omitted.

    With `timestamps`, `time LEVEL logger message`.
    """

    def __init__(self, job_name: str | None = None, *, timestamps: bool = False) -> None:
        super().__init__(_WITH_TIMESTAMPS if timestamps else "%(message)s")
        self._job_name = job_name
        self._timestamps = timestamps

    def format(self, record: logging.LogRecord) -> str:
        if self._timestamps:
            return super().format(record)
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        job = "" if self._job_name is None else f"{self._job_name}: "
        return job + level + super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message and job name."""

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
    """Writes to the current `sys.stderr`, which tests and Click replace."""

    def __init__(self, log_format: LogFormat, *, timestamps: bool = False) -> None:
        super().__init__(sys.stderr)
        self._log_format = log_format
        self._timestamps = timestamps
        self.name_job(None)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """Ignores the assignment of the base class."""

    def name_job(self, job_name: str | None) -> None:
        """Add the job name to every line; None removes it."""
        if self._log_format == "json":
            self.setFormatter(JsonFormatter(job_name))
        else:
            self.setFormatter(TextFormatter(job_name, timestamps=self._timestamps))


def configure_logging(
    level: str = "info", log_format: LogFormat = "text", *, service: bool = False
) -> StderrHandler:
    """Send log messages to standard error, replacing an earlier configuration.

    Args:
        service: log the messages of all libraries, such as those of Uvicorn, with timestamps;
            otherwise Headwater's own messages, without.
    """
    root = logging.getLogger()
    for logger in (root, _LOGGER):
        for handler in _own_handlers(logger):
            logger.removeHandler(handler)
    handler = StderrHandler(log_format, timestamps=service)
    (root if service else _LOGGER).addHandler(handler)
    if service:
        root.setLevel(level.upper())
    _LOGGER.setLevel(level.upper())
    return handler


@contextmanager
def job_logging(job_name: str, *, quiet: bool = False) -> Iterator[None]:
    """Log to standard error while the body runs, with the job name on every line.

    Args:
        quiet: warnings and errors only.
    """
    existing, level = _own_handlers(), _LOGGER.level
    handler = existing[0] if existing else StderrHandler("text")
    if not existing:
        _LOGGER.addHandler(handler)
    handler.name_job(job_name)
    _LOGGER.setLevel(max(level, logging.WARNING) if quiet else level or logging.INFO)
    try:
        yield
    finally:
        handler.name_job(None)
        _LOGGER.setLevel(level)
        if not existing:
            _LOGGER.removeHandler(handler)


def _own_handlers(logger: logging.Logger = _LOGGER) -> list[StderrHandler]:
    return [each for each in logger.handlers if isinstance(each, StderrHandler)]
