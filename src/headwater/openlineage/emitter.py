"""Hands events to the spool and sees to their delivery, at no cost for the job.

`emit` never raises, and holds up its caller no longer than a bound: the disk is written to by
another thread. Threads and files are there from the first event on, and not before. Where no thread
can be started, as while the interpreter ends, the caller writes and `close` delivers.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headwater.openlineage.events import Event
from headwater.openlineage.spool.files import Spool, SpoolCounts
from headwater.openlineage.spool.sender import Sender, SenderCounts
from headwater.openlineage.transport import CatalogClient
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

# Events that wait for a slow disk, in memory.
_MAX_QUEUED = 1000


@dataclass(frozen=True)
class EmitterCounts:
    """What became of the events of this emitter; `dropped` are lost."""

    emitted: int
    dropped: int
    spool: SpoolCounts
    sender: SenderCounts


class Emitter:
    """Takes events. Thread-safe."""

    def __init__(
        self,
        spool: Spool,
        sender: Sender,
        *,
        emit_seconds: float = 1.0,
        close_seconds: float = 5.0,
    ) -> None:
        self._spool = spool
        self._sender = sender
        self._emit_seconds = emit_seconds
        self._close_seconds = close_seconds
        self._queue: queue.Queue[_Handed | None] = queue.Queue(_MAX_QUEUED)
        self._writer = threading.Thread(target=self._write_all, name="lineage-spool", daemon=True)
        self._access = threading.Lock()
        self._started = self._closed = self._without_thread = False
        self._emitted = self._dropped = 0
        self._drops_logged = False

    @classmethod
    def from_settings(cls, settings: Settings) -> Emitter | None:
        """None if lineage is switched off.

        Raises:
            SettingError: the catalog's address or key can't be used.
        """
        if not settings.lineage.enabled:
            return None
        spool = Spool.from_settings(settings)
        client = CatalogClient.from_settings(settings)
        lineage = settings.lineage
        return cls(
            spool,
            Sender(
                client,
                spool,
                max_pause_seconds=lineage.max_backoff_seconds,
                max_attempts=lineage.max_attempts,
            ),
            emit_seconds=lineage.emit_seconds,
            close_seconds=lineage.close_seconds,
        )

    @property
    def counts(self) -> EmitterCounts:
        dropped = self._dropped + self._spool.counts.dropped
        return EmitterCounts(self._emitted, dropped, self._spool.counts, self._sender.counts)

    def emit(self, event: Event) -> None:
        """Put an event on disk, from where it is delivered; never raises.

        Returns when it is on disk, or when the bound is reached; then it is still tried.
        """
        handed = _Handed(event)
        with self._access:
            if self._closed:
                self._drop("it came after the end")
                return
            if not self._started:
                self._start()
            self._emitted += 1
            if self._without_thread:
                self._write(handed)
                return
            try:
                self._queue.put_nowait(handed)
            except queue.Full:
                self._drop("the disk of the spool is too slow")
                return
        handed.written.wait(self._emit_seconds)

    def close(self, seconds: float | None = None) -> bool:
        """Deliver what can be delivered within the bound; whether nothing is left waiting.

        A catalog that is not there is asked once and not waited for. What is left is delivered by
        the next job of this machine, or by `headwater lineage spool flush`.
        """
        seconds = self._close_seconds if seconds is None else seconds
        with self._access:
            if self._closed or not self._started:
                self._closed = True
                return True
            self._closed = True
        try:
            return self._end(seconds)
        except Exception as error:
            # The job has done its work: nothing of this is worth its failure.
            _LOG.warning(
                "lineage events may be left in %s: %s: %s",
                self._spool.root,
                type(error).__name__,
                error,
            )
            return False

    def _start(self) -> None:
        self._started = True
        try:
            self._writer.start()
        except RuntimeError:
            self._without_thread = True
        self._sender.start()

    def _end(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        if not self._without_thread:
            # The writer ends behind the last event; when its disk hangs, it is left behind.
            with suppress(queue.Full):
                self._queue.put(None, timeout=seconds)
            self._writer.join(max(0.0, deadline - time.monotonic()))
        delivered = self._sender.close(max(0.0, deadline - time.monotonic()))
        delivered = delivered and not self._writer.is_alive()
        if not self._writer.is_alive():
            self._spool.close()
        if delivered:
            self._sender.remove_folder()
        return delivered

    def _write_all(self) -> None:
        while (handed := self._queue.get()) is not None:
            self._write(handed)

    def _write(self, handed: _Handed) -> None:
        try:
            self._spool.append(handed.event)
            if self._spool.counts.dropped:
                self._log_drops(self._spool.counts.reason)
        except Exception as error:
            # A facet of a user's may hold what is no JSON.
            self._drop(f"{type(error).__name__}: {error}")
        handed.written.set()
        self._sender.wake()

    def _drop(self, why: str) -> None:
        self._dropped += 1
        self._spool.losses.add(1, why)
        self._log_drops(why)

    def _log_drops(self, why: str | None) -> None:
        if not self._drops_logged:
            self._drops_logged = True
            _LOG.warning("lineage events are dropped: %s", why)


class _Handed:
    """An event on its way to the disk."""

    def __init__(self, event: Event) -> None:
        self.event: dict[str, Any] = event
        self.written = threading.Event()
