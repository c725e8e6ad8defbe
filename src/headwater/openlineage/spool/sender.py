"""Delivers the events of the spool in a background thread.

Events of dead processes are delivered before those of this process, so that events of one run
arrive in order. Events that the catalog refuses are moved to `refused.jsonl`, as are events that it
fails on, and those that the key may not send (`PoisonEventDetector`). After all other errors
delivery is retried with exponential backoff while the process runs; undelivered events stay on
disk.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from headwater.openlineage.events import to_rfc3339
from headwater.openlineage.spool.files import Losses, Spool
from headwater.openlineage.spool.orphans import (
    Backlog,
    OrphanedSpool,
    SpooledEvent,
    claim_orphans,
    keep_refused,
    namespace_of,
    run_of,
)
from headwater.openlineage.transport import CatalogClient, Delivered, Outcome, Refused, RetryLater

_LOG = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_MAX_ATTEMPTS = 10


@dataclass
class SenderCounts:
    """Counts of delivered and failed events."""

    delivered: int = 0
    refused: int = 0
    # Incomplete lines after a crash, which are skipped.
    torn: int = 0
    failed_tries: int = 0
    trouble: str | None = None


class SpoolDelivery:
    """Delivers the events of backlogs to the catalog, in order."""

    def __init__(
        self,
        client: CatalogClient,
        root: Path,
        own: Backlog | None = None,
        max_attempts: int = _MAX_ATTEMPTS,
    ) -> None:
        self.counts = SenderCounts()
        self._client = client
        self._root = root
        self._losses = Losses(root)
        self._own = own
        self._poison_events = PoisonEventDetector(client, max_attempts)
        # None until the spool was scanned for them.
        self._orphans: list[OrphanedSpool] | None = None
        self._unreadable_orphan: str | None = None

    def deliver_all(self) -> RetryLater | None:
        """Deliver all events; returns the reason if some remain. Never raises."""
        try:
            return self._deliver_orphans() or (self._deliver(self._own) if self._own else None)
        except OSError as error:
            return self._later(RetryLater(_unreadable(error)))
        except Exception as error:
            return self._later(RetryLater(f"delivery failed: {type(error).__name__}"))

    def release(self) -> None:
        """Unlock undelivered spools for other processes."""
        for orphan in self._orphans or ():
            orphan.release()
        self._client.close()

    def _deliver_orphans(self) -> RetryLater | None:
        """Claim the spools of dead processes once, and deliver them."""
        if self._orphans is None:
            self._orphans = claim_orphans(self._root)
        while self._orphans:
            try:
                later = self._deliver(self._orphans[0].backlog)
            except OSError as error:
                # Left to the next process: it must not block the events of this one.
                self._unreadable_orphan = self.counts.trouble = _unreadable(error)
                later = None
            if later is not None:
                return later
            self._orphans.pop(0).release()
        return None

    def _deliver(self, backlog: Backlog) -> RetryLater | None:
        torn = backlog.torn
        try:
            while (entry := backlog.peek()) is not None:
                outcome = self._client.send(entry.body)
                if isinstance(outcome, RetryLater):
                    outcome = self._poison_events.classify(entry, outcome, self._backlogs())
                if isinstance(outcome, RetryLater):
                    return self._later(outcome)
                if isinstance(outcome, Refused):
                    at = to_rfc3339(datetime.now(UTC))
                    try:
                        keep_refused(self._root, entry.body, outcome.status, outcome.response, at)
                    except OSError as error:
                        # Lost on a full disk, and counted: it must not block later events.
                        self._losses.add(1, f"refused, and can't be stored: {error.strerror}")
                        self._losses.write()
                    self.counts.refused += 1
                else:
                    self.counts.delivered += 1
                self.counts.trouble = self._unreadable_orphan
                backlog.done()
            return None
        finally:
            self.counts.torn += backlog.torn - torn

    def _later(self, later: RetryLater) -> RetryLater:
        self.counts.failed_tries += 1
        self.counts.trouble = later.reason
        return later

    def _backlogs(self) -> list[Backlog]:
        orphans = [each.backlog for each in self._orphans or ()]
        return [*orphans, self._own] if self._own else orphans


def _unreadable(error: OSError) -> str:
    return f"the spool can't be read: {error.strerror}: {error.filename}"


class EventSender:
    """The delivery thread. `wake` after a new event; `close` delivers a last time."""

    def __init__(
        self,
        client: CatalogClient,
        spool: Spool,
        *,
        max_pause_seconds: float = 60.0,
        max_attempts: int = _MAX_ATTEMPTS,
    ) -> None:
        self._spool = spool
        self._own = Backlog(spool.folder, spool)
        self._client = client
        self._delivery = SpoolDelivery(client, spool.root, self._own, max_attempts)
        self._max_pause = max_pause_seconds
        self._wakeup = threading.Event()
        self._closing = threading.Event()
        self._failures = 0
        self._outage_logged = False
        self._thread = threading.Thread(target=self._run, name="lineage-sender", daemon=True)

    @property
    def counts(self) -> SenderCounts:
        return self._delivery.counts

    def start(self) -> None:
        # Fails during interpreter shutdown or at a thread limit: `close` delivers then.
        with suppress(RuntimeError):
            self._thread.start()

    def wake(self) -> None:
        self._wakeup.set()

    def close(self, seconds: float) -> bool:
        """Deliver a last time and end; returns whether all events are delivered."""
        self._closing.set()
        self._wakeup.set()
        if self._thread.ident is None:
            self._client.set_deadline(time.monotonic() + seconds)
            self._run()
        else:
            self._thread.join(seconds)
        try:
            return not self._thread.is_alive() and self._own.peek() is None
        except OSError:
            return False

    def remove_folder(self) -> None:
        """Delete the folder of this process, after everything is delivered and written."""
        self._own.remove()

    def _run(self) -> None:
        try:
            while True:
                self._wakeup.clear()
                last_attempt = self._closing.is_set()
                later = self._delivery.deliver_all()
                if last_attempt:
                    if later is not None:
                        self._failed(later)
                    return
                if later is None:
                    self._recovered()
                    self._wakeup.wait()
                else:
                    self._failed(later)
                    self._pause(later)
        finally:
            self._delivery.release()

    def _failed(self, later: RetryLater) -> None:
        self._failures += 1
        # Once per outage: retries would fill the log.
        if not self._outage_logged:
            self._outage_logged = True
            log_warning(_LOG, "lineage events are queued in %s: %s", self._spool.root, later.reason)

    def _recovered(self) -> None:
        self._failures = 0
        if self._outage_logged:
            self._outage_logged = False
            log_warning(_LOG, "lineage events are delivered again")

    def _pause(self, later: RetryLater) -> None:
        """Wait before the next attempt; `close` ends the wait, a new event does not."""
        pause = min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 20), self._max_pause)
        # Jitter: many jobs that lost the same catalog must not retry at the same moment.
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
        self._closing.wait(max(pause, later.after_seconds or 0.0))


def log_warning(log: logging.Logger, message: str, *arguments: object) -> None:
    """Log without raising: a logging filter of the user may raise, which must not stop delivery."""
    with suppress(Exception):
        log.warning(message, *arguments)


def flush(
    client: CatalogClient, root: Path, seconds: float, max_attempts: int = _MAX_ATTEMPTS
) -> SenderCounts:
    """Deliver the events of dead processes; `trouble` is the reason if some remain."""
    delivery = SpoolDelivery(client, root, max_attempts=max_attempts)
    deadline = time.monotonic() + seconds
    try:
        while (later := delivery.deliver_all()) is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            time.sleep(min(later.after_seconds or _FIRST_PAUSE, remaining))
        return delivery.counts
    finally:
        delivery.release()


# Other 5xx statuses indicate problems on the path to the catalog: 502 and 503 of a proxy.
_SERVER_ERROR = 500
# The key lacks the role, or the namespace of this event.
_FORBIDDEN = 403
_MAYBE_BY_EVENT = (_SERVER_ERROR, _FORBIDDEN)
# More than one, because the catalog may fail for other runs too; each costs a request.
_MAX_PROBES = 3


class PoisonEventDetector:
    """Decides whether a 500 or 403 response is caused by the event.

    After `max_attempts` it sends up to three queued events of other runs; after 403 those of other
    namespaces. If the catalog accepts one, and this event fails again, the event is refused.
    """

    def __init__(self, client: CatalogClient, max_attempts: int) -> None:
        self._client = client
        self._max_attempts = max_attempts
        self._entry: SpooledEvent | None = None
        self._attempts = 0
        # Runs with a poison event, and namespaces that the key lacks: their next events are likely
        # to fail, and are checked at once.
        self._known: set[tuple[int, str]] = set()

    def classify(
        self, entry: SpooledEvent, later: RetryLater, backlogs: Iterable[Backlog]
    ) -> Outcome:
        """Decide what to do with an event that was not accepted; may send it again."""
        status = later.status
        if status not in _MAYBE_BY_EVENT:
            self._entry = None
            return later
        if entry != self._entry:
            self._entry, self._attempts = entry, 0
        self._attempts += 1
        run = run_of(entry.body)
        cause = (status, namespace_of(entry.body) if status == _FORBIDDEN else run)
        if self._attempts < self._max_attempts and cause not in self._known:
            return later
        others = _others(run, backlogs)
        if status == _FORBIDDEN:
            others = _of_other_namespaces(entry, others)
        if not self._accepts_one_of(islice(others, _MAX_PROBES)):
            return later
        # The catalog may have recovered in between.
        again = self._client.send(entry.body)
        if isinstance(again, RetryLater) and again.status == status:
            self._known.add(cause)
            return Refused(status, again.response)
        return again

    def _accepts_one_of(self, others: Iterable[SpooledEvent]) -> bool:
        for other in others:
            outcome = self._client.send(other.body)
            if isinstance(outcome, Delivered):
                return True
            if isinstance(outcome, RetryLater) and outcome.status not in _MAYBE_BY_EVENT:
                return False
        return False


def _others(run: str, backlogs: Iterable[Backlog]) -> Iterator[SpooledEvent]:
    for backlog in backlogs:
        # An unreadable backlog has no events to send.
        with suppress(OSError):
            yield from backlog.of_other_runs(run)


def _of_other_namespaces(
    entry: SpooledEvent, others: Iterable[SpooledEvent]
) -> Iterator[SpooledEvent]:
    """The first event of each other namespace."""
    seen = {namespace_of(entry.body)}
    for other in others:
        if (namespace := namespace_of(other.body)) not in seen:
            seen.add(namespace)
            yield other
