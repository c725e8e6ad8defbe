"""Writes events to the spool and starts their delivery without affecting the job.

`emit` never raises and blocks for a bounded time: another thread writes to the disk. Threads and
files are created with the first event. If no thread can be started, such as during interpreter
shutdown, the caller writes the event and `close` delivers it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from headwater.openlineage.events import Event, with_cluster_namespace
from headwater.openlineage.spool.files import Spool, SpoolCounts
from headwater.openlineage.spool.sender import EventSender, SenderCounts, log_warning
from headwater.openlineage.transport import CatalogClient
from headwater.settings import Settings

_LOG = logging.getLogger(__name__)

# Events in memory while the disk is slow.
_MAX_QUEUED = 1000


@dataclass(frozen=True)
class EmitterCounts:
    """Counts of this emitter's events; `dropped` events are lost."""

    emitted: int
    dropped: int
    spool: SpoolCounts
    sender: SenderCounts


class Emitter:
    """Accepts events for the spool. Thread-safe."""

    def __init__(
        self,
        spool: Spool,
        sender: EventSender,
        *,
        emit_seconds: float = 1.0,
        close_seconds: float = 5.0,
        prepare: Callable[[Event], Event] = lambda event: event,
    ) -> None:
        self._spool = spool
        self._sender = sender
        self._prepare = prepare
        self._emit_seconds = emit_seconds
        self._close_seconds = close_seconds
        self._queue: queue.Queue[_QueuedEvent | None] = queue.Queue(_MAX_QUEUED)
        self._writer = threading.Thread(target=self._write_all, name="lineage-spool", daemon=True)
        self._access = threading.Lock()
        self._started = self._closed = self._without_thread = False
        self._emitted = self._dropped = 0
        self._drops_logged = False

    @classmethod
    def from_settings(cls, settings: Settings) -> Emitter | None:
        """None if lineage is switched off.

        Raises:
            SettingError: the catalog's address or key is invalid.
        """
        if not settings.lineage.enabled:
            return None
        spool = Spool.from_settings(settings)
        client = CatalogClient.from_settings(settings)
        lineage = settings.lineage
        return cls(
            spool,
            EventSender(
                client,
                spool,
                max_pause_seconds=lineage.max_backoff_seconds,
                max_attempts=lineage.max_attempts,
            ),
            emit_seconds=lineage.emit_seconds,
            close_seconds=lineage.close_seconds,
            prepare=partial(
                with_cluster_namespace,
                bootstrap_servers=settings.bootstrap_servers,
                namespace=settings.kafka.namespace,
            ),
        )

    @property
    def counts(self) -> EmitterCounts:
        dropped = self._dropped + self._spool.counts.dropped
        return EmitterCounts(self._emitted, dropped, self._spool.counts, self._sender.counts)

    def emit(self, event: Event) -> None:
        """Write an event to the spool, from which it is delivered; never raises.

        Returns when the event is on disk, or after `emit_seconds`; then the write continues.
        """
        queued = _QueuedEvent(self._prepare(event))
        with self._access:
            if self._closed:
                self._drop("the emitter is closed")
                return
            if not self._started:
                self._start()
            self._emitted += 1
            if self._without_thread:
                self._write(queued)
                return
            try:
                self._queue.put_nowait(queued)
            except queue.Full:
                self._drop("the spool's disk is too slow")
                return
        queued.written.wait(self._emit_seconds)

    def close(self, seconds: float | None = None) -> bool:
        """Deliver events for at most `seconds`; returns whether all of them are delivered.

        An unavailable catalog is tried once. The next job on this machine delivers the remaining
        events, or `headwater spool flush` does.
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
            # The job has finished its work and must not fail because of its lineage.
            log_warning(
                _LOG,
                "lineage events may remain in %s: %s: %s",
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
            # The writer ends after the last event; a writer whose disk hangs is not waited for.
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
        while (queued := self._queue.get()) is not None:
            self._write(queued)

    def _write(self, queued: _QueuedEvent) -> None:
        try:
            self._spool.append(queued.event)
            if self._spool.counts.dropped:
                self._log_drops(self._spool.counts.reason)
        except Exception as error:
            # A user's facet may hold values that JSON can't represent.
            self._drop(f"{type(error).__name__}: {error}")
        queued.written.set()
        self._sender.wake()

    def _drop(self, reason: str) -> None:
        self._dropped += 1
        self._spool.losses.add(1, reason)
        self._log_drops(reason)

    def _log_drops(self, reason: str | None) -> None:
        if not self._drops_logged:
            self._drops_logged = True
            log_warning(_LOG, "lineage events are dropped: %s", reason)


class _QueuedEvent:
    """An event that is being written to disk."""

    def __init__(self, event: Event) -> None:
        self.event: dict[str, Any] = event
        self.written = threading.Event()
