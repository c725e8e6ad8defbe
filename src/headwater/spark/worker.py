"""Runs functions that call the JVM in a thread that signals do not interrupt.

A signal handler may raise KeyboardInterrupt or SystemExit in the main thread at any point. In the
middle of a call to the JVM the response stays unread, and the next call of this thread takes it
for its own. Every thread has a separate connection.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from pyspark import InheritableThread


class Worker:
    """Runs a function in another thread.

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
        kind = InheritableThread if self._inherit else threading.Thread
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
