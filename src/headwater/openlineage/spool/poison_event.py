"""Is it the event, or the catalog? An event that is answered with 500 holds up those behind it.

In an outage nothing is set aside, because the catalog takes nothing then. One event is at fault
only when it was answered with 500 so often as a setting says, the catalog then takes an event of
another run, and answers this one with 500 once more. The other event stays where it is and is
delivered again in its turn: it is the first one of its run that waits, and repeats change nothing.
Without an event of another run nobody is held up but the run itself, and its events wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice

from headwater.openlineage.spool.orphans import Backlog, Entry, run_of
from headwater.openlineage.transport import CatalogClient, Delivered, Later, Outcome, Refused

# Others fail in ways that say something of the way to the catalog: 502 and 503 of a proxy.
_ITS_OWN_FAULT = 500
# The others may be of runs that it fails at, too; in an outage each costs a request.
_MAX_WITNESSES = 3


class Suspicion:
    """Of one reader of events, across its tries."""

    def __init__(self, client: CatalogClient, max_attempts: int) -> None:
        self._client = client
        self._max_attempts = max_attempts
        self._entry: Entry | None = None
        self._tries = 0
        # Of which an event was at fault: the next one is likely to be, and need not wait as long.
        self._runs: set[str] = set()

    def judge(self, entry: Entry, later: Later, backlogs: Iterable[Backlog]) -> Outcome:
        """What is to become of an event that was not taken; may send it once more."""
        if later.status != _ITS_OWN_FAULT:
            self._entry = None
            return later
        if entry != self._entry:
            self._entry, self._tries = entry, 0
        self._tries += 1
        run = run_of(entry.body)
        if self._tries < self._max_attempts and run not in self._runs:
            return later
        if not self._takes_one_of(islice(_others(run, backlogs), _MAX_WITNESSES)):
            return later
        # It may have come back between the two.
        again = self._client.send(entry.body)
        if isinstance(again, Later) and again.status == _ITS_OWN_FAULT:
            self._runs.add(run)
            return Refused(_ITS_OWN_FAULT, again.answer)
        return again

    def _takes_one_of(self, others: Iterable[Entry]) -> bool:
        for other in others:
            outcome = self._client.send(other.body)
            if isinstance(outcome, Delivered):
                return True
            if isinstance(outcome, Later) and outcome.status != _ITS_OWN_FAULT:
                return False
        return False


def _others(run: str, backlogs: Iterable[Backlog]) -> Iterator[Entry]:
    for backlog in backlogs:
        # One that can't be read gives no witness.
        with suppress(OSError):
            yield from backlog.of_other_runs(run)
