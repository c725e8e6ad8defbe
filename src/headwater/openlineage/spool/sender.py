"""Delivers what waits in the spool, from a thread of its own.

First what dead processes have left, then this process's own events: so events of one run arrive in
their order. An event that the catalog refuses is set aside with the answer, and one that it alone
fails at (`suspicion.py`). Everything else is tried again, with growing pauses, for as long as the
process lives, whatever goes wrong, on this machine or elsewhere; the rest waits on disk.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headwater.openlineage.events import to_rfc3339
from headwater.openlineage.spool.files import Spool
from headwater.openlineage.spool.losses import Losses
from headwater.openlineage.spool.orphans import Backlog, OrphanedSpool, adopt, set_aside
from headwater.openlineage.spool.poison_event import Suspicion
from headwater.openlineage.transport import CatalogClient, Later, Refused

_LOG = logging.getLogger(__name__)

Tell = Callable[[str], None]

_FIRST_PAUSE = 0.5
_MAX_ATTEMPTS = 10


@dataclass
class SenderCounts:
    """What became of events on their way to the catalog."""

    delivered: int = 0
    refused: int = 0
    # Lines that were cut off by a crash, and skipped.
    torn: int = 0
    failed_tries: int = 0
    trouble: str | None = None


class Delivery:
    """Takes events from backlogs to the catalog, in order."""

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
        self._suspicion = Suspicion(client, max_attempts)
        # None until it was looked for.
        self._adopted: list[OrphanedSpool] | None = None
        self._left_behind: str | None = None

    def deliver_all(self) -> Later | None:
        """Deliver until nothing waits; else tells why not. Never raises."""
        try:
            return self._deliver_adopted() or (self._deliver(self._own) if self._own else None)
        except OSError as error:
            return self._later(Later(_unreadable(error), here=True))
        except Exception as error:
            return self._later(Later(f"delivering failed: {type(error).__name__}", here=True))

    def release(self) -> None:
        """Leave to others what is not delivered."""
        for left in self._adopted or ():
            left.release()
        self._client.close()

    def _deliver_adopted(self) -> Later | None:
        """First take over what dead processes have left; once."""
        if self._adopted is None:
            self._adopted = adopt(self._root)
        while self._adopted:
            try:
                later = self._deliver(self._adopted[0].backlog)
            except OSError as error:
                # Left to the next process: the events of this one must not wait for it.
                self._left_behind = self.counts.trouble = _unreadable(error)
                later = None
            if later is not None:
                return later
            self._adopted.pop(0).release()
        return None

    def _deliver(self, backlog: Backlog) -> Later | None:
        torn = backlog.torn
        try:
            while (entry := backlog.peek()) is not None:
                outcome = self._client.send(entry.body)
                if isinstance(outcome, Later):
                    outcome = self._suspicion.judge(entry, outcome, self._backlogs())
                if isinstance(outcome, Later):
                    return self._later(outcome)
                if isinstance(outcome, Refused):
                    at = to_rfc3339(datetime.now(UTC))
                    try:
                        set_aside(self._root, entry.body, outcome.status, outcome.answer, at)
                    except OSError as error:
                        # On a full disk it is lost, and counted: the others must not wait for it.
                        self._losses.add(1, f"refused, and can't be kept: {error.strerror}")
                        self._losses.write()
                    self.counts.refused += 1
                else:
                    self.counts.delivered += 1
                self.counts.trouble = self._left_behind
                backlog.done()
            return None
        finally:
            self.counts.torn += backlog.torn - torn

    def _later(self, later: Later) -> Later:
        self.counts.failed_tries += 1
        self.counts.trouble = later.reason
        return later

    def _backlogs(self) -> list[Backlog]:
        adopted = [each.backlog for each in self._adopted or ()]
        return [*adopted, self._own] if self._own else adopted


def _unreadable(error: OSError) -> str:
    return f"the spool can't be read: {error.strerror}: {error.filename}"


class Sender:
    """The thread. `wake` tells it of a new event, `close` asks it for a last effort."""

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
        self._delivery = Delivery(client, spool.root, self._own, max_attempts)
        self._max_pause = max_pause_seconds
        self._news = threading.Event()
        self._closing = threading.Event()
        self._failures = 0
        self._outage_logged = False
        self._thread = threading.Thread(target=self._run, name="lineage-sender", daemon=True)

    @property
    def counts(self) -> SenderCounts:
        return self._delivery.counts

    def start(self) -> None:
        # While the interpreter ends, or a limit is reached, there is no thread: see `close`.
        with suppress(RuntimeError):
            self._thread.start()

    def wake(self) -> None:
        self._news.set()

    def close(self, seconds: float) -> bool:
        """Try once more to deliver all, and end; whether nothing is left waiting."""
        self._closing.set()
        self._news.set()
        if self._thread.ident is None:
            self._client.end_by(time.monotonic() + seconds)
            self._run()
        else:
            self._thread.join(seconds)
        try:
            return not self._thread.is_alive() and self._own.peek() is None
        except OSError:
            return False

    def remove_folder(self) -> None:
        """When all is delivered, and nobody writes any more."""
        self._own.remove()

    def _run(self) -> None:
        try:
            while True:
                self._news.clear()
                last_effort = self._closing.is_set()
                later = self._delivery.deliver_all()
                if last_effort:
                    if later is not None:
                        self._failed(later)
                    return
                if later is None:
                    self._recovered()
                    self._news.wait()
                else:
                    self._failed(later)
                    self._pause(later)
        finally:
            self._delivery.release()

    def _failed(self, later: Later) -> None:
        self._failures += 1
        # Once per outage: retries of the same failure would fill the log.
        if not self._outage_logged:
            self._outage_logged = True
            _LOG.warning("lineage events are queued in %s: %s", self._spool.root, later.reason)

    def _recovered(self) -> None:
        self._failures = 0
        if self._outage_logged:
            self._outage_logged = False
            _LOG.warning("lineage events are delivered again")

    def _pause(self, later: Later) -> None:
        """Wait before the next try; a new event does not shorten it, the end of the job does."""
        pause = min(_FIRST_PAUSE * 2 ** min(self._failures - 1, 20), self._max_pause)
        # Many jobs that lost the same catalog must not come back in the same moment.
        pause *= random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._closing.wait(max(pause, later.after_seconds or 0.0))


def flush(
    client: CatalogClient, root: Path, seconds: float, max_attempts: int = _MAX_ATTEMPTS
) -> SenderCounts:
    """Deliver what dead processes have left; `trouble` tells why something still waits."""
    delivery = Delivery(client, root, max_attempts=max_attempts)
    deadline = time.monotonic() + seconds
    try:
        while (later := delivery.deliver_all()) is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(later.after_seconds or _FIRST_PAUSE, left))
        return delivery.counts
    finally:
        delivery.release()
