"""Signal handlers, which only Headwater's own commands install.

`headwater …` and `python -m headwater.jobs.…` own their process: there SIGTERM and SIGINT stop a
job after its running micro-batch. In any other program all handlers are the program's own.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

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
