"""The process: log output, signal handlers, and threads that signals do not interrupt.

`headwater …` and `python -m headwater.jobs.…` own their process: they configure logging, and
SIGTERM and SIGINT stop a job after its running micro-batch. In any other program the library only
creates loggers, and all handlers are the program's own.
"""

from __future__ import annotations

import contextvars
import json
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Literal, NoReturn, TextIO

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


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_owned = False


@contextmanager
def owned_process() -> Iterator[None]:
    """Handlers may be installed while the body, a command, runs; they are restored at its end."""
    global _owned
    if _owned or not on_main_thread():
        yield
        return
    _owned = True
    try:
        with _restored():
            yield
    finally:
        _owned = False


def owns_process() -> bool:
    """Whether a command of Headwater's own runs in this process."""
    return _owned


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """SIGTERM and SIGINT go to this handler while the body runs.

    Does nothing in a program of the user, and outside the main thread.
    """
    if not _may_install():
        yield
        return
    with _restored():
        for name in STOP_SIGNALS:
            signal.signal(name, handler)
        yield


def exit_on_sigterm() -> None:
    """Let SIGTERM raise SystemExit until the command ends, so that a batch job can report it.

    Does nothing in a program of the user.
    """
    if _may_install() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


def on_main_thread() -> bool:
    """Whether this is the main thread, the only one in which Python calls signal handlers."""
    return threading.current_thread() is threading.main_thread()


def _may_install() -> bool:
    return _owned and on_main_thread()


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@contextmanager
def _restored() -> Iterator[None]:
    previous = {name: signal.getsignal(name) for name in STOP_SIGNALS}
    try:
        yield
    finally:
        for name, handler in previous.items():
            # None: installed by other code than Python's, and can't be restored from here.
            if handler is not None:
                signal.signal(name, handler)


class Worker:
    """Runs a function that calls the JVM in another thread.

    A signal handler may raise KeyboardInterrupt or SystemExit in the main thread at any point. In
    the middle of a call to the JVM the response stays unread, and the next call of this thread
    takes it for its own. Every thread has a separate connection.

    Args:
        inherit: the thread gets the Spark properties of the current one, such as its job group.
    """

    def __init__(self, work: Callable[[], object], *, inherit: bool = False) -> None:
        self._work = work
        self._inherit = inherit
        self._context = contextvars.copy_context()
        self._access = threading.Lock()
        self._begun = self._abandoned = False
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def start(self) -> None:
        kind: type[threading.Thread] = threading.Thread
        if self._inherit:
            from pyspark import InheritableThread as kind
        kind(target=self._run, name="headwater-query", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the function; returns whether it has ended."""
        return self._ended.wait(seconds)

    def abandon(self, seconds: float) -> bool:
        """Wait for the end as `wait` does; if the function has not begun, it never begins."""
        with self._access:
            self._abandoned = True
            if not self._begun:
                return True
        return self._ended.wait(seconds)

    @property
    def error(self) -> BaseException | None:
        """The error with which the function has ended."""
        return self._error

    def raise_error(self) -> None:
        """Raise the error of the function, if it has ended with one."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        with self._access:
            if self._abandoned:
                return
            self._begun = True
        try:
            self._context.run(self._work)
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()


def run_apart(work: Callable[[], object], seconds: float) -> bool:
    """Run a function in another thread, for at most `seconds`; returns whether it has ended.

    While the interpreter exits, some versions of Python start no thread: then in this one.
    """
    worker = Worker(work)
    try:
        worker.start()
    except RuntimeError:
        work()
        return True
    ended = worker.wait(seconds)
    if ended:
        worker.raise_error()
    return ended
